//! Rows of Arrow record batches: nested columns flattened, each value read by its type.
//!
//! A struct's fields are columns of their own (`answers/text`), as are those of a list of structs,
//! whose values are lists. Of lists of lists those of numbers are features, of rank 2.

use std::ops::Range;
use std::sync::OnceLock;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Int8Type, Int16Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use arrow_schema::DataType;

use crate::data::example::{Example, Key, Value};

/// Rows decoded at once: few, as a row may be a whole document and many files are open.
pub(super) const BATCH_ROWS: usize = 128;

/// What is read of columnar files, and what the first of them holds.
#[derive(Debug)]
pub(crate) struct RowOptions {
    /// Features to keep; all if None.
    pub columns: Option<Vec<String>>,
    first: OnceLock<(String, Vec<(Key, &'static str)>)>,
}

impl RowOptions {
    /// Options of one split; all its files share them.
    pub(crate) fn new(columns: Option<&[String]>) -> Self {
        Self { columns: columns.map(<[String]>::to_vec), first: OnceLock::new() }
    }

    /// Whether the feature of that name is asked for, or one below or above it.
    pub(super) fn wants(&self, name: &str) -> bool {
        let fits = |column: &String| is_within(column, name) || is_within(name, column);
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(fits))
    }

    /// Checks that a file has the features of the first one that was read.
    pub(super) fn check(&self, file: &str, rows: &Rows) -> Result<(), String> {
        let found = rows.kinds();
        if let Some(columns) = &self.columns
            && let Some(lacking) =
                columns.iter().find(|name| !found.iter().any(|(n, _)| is_within(n, name)))
        {
            let names: Vec<String> = found.iter().map(|(name, _)| format!("'{name}'")).collect();
            return Err(format!(
                "it has no column '{lacking}' that a feature can be made of, as `columns` asks \
                 for; of those asked for it has {}",
                if names.is_empty() { "none".to_string() } else { names.join(", ") }
            ));
        }
        let (first, expected) = self.first.get_or_init(|| (file.to_string(), found.clone()));
        let kind_in = |kinds: &[(Key, &'static str)], name: &Key| {
            kinds.iter().find(|(known, _)| known == name).map_or("absent", |(_, kind)| *kind)
        };
        for (name, _) in expected.iter().chain(&found) {
            let (there, here) = (kind_in(expected, name), kind_in(&found, name));
            if there != here && there != NULL && here != NULL {
                return Err(format!(
                    "column '{name}' is {here} here and {there} in `{first}`; the files of a \
                     split share one schema: give each kind of file a source of its own, or keep \
                     what they share with `columns`"
                ));
            }
        }
        Ok(())
    }
}

const NULL: &str = "null";
/// What no feature can be.
const TEXT_ROWS: &str = "a list of lists of texts";

/// Whether a feature is `whole`, or a part of it: `answers/text` of `answers`.
fn is_within(name: &str, whole: &str) -> bool {
    name.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The rows of a batch as features.
pub(crate) struct Rows {
    columns: Vec<Column>,
    pub(super) len: usize,
}

struct Column {
    name: Key,
    /// Structs around it: where one is null, so is the column.
    parents: Vec<ArrayRef>,
    kind: Kind,
}

enum Kind {
    One(Leaf),
    /// Lists: where each one's items lie.
    Many {
        lists: ArrayRef,
        items: Leaf,
    },
    /// Lists of lists of numbers.
    Rows {
        lists: ArrayRef,
        rows: ArrayRef,
        items: Leaf,
    },
}

/// Values of one type; those that a feature tells apart.
enum Leaf {
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    Ids(Int32Array),
    Ints(Int64Array),
    Singles(Float32Array),
    Floats(Float64Array),
    Bools(BooleanArray),
    Dictionary { keys: Vec<usize>, nulls: ArrayRef, values: Box<Leaf> },
    Null,
}

impl Rows {
    /// The features of a batch, or the column that none can be made of.
    pub(super) fn new(batch: &RecordBatch, options: &RowOptions) -> Result<Self, String> {
        let mut columns = Vec::new();
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            flatten(field.name().clone(), array, &[], &[], options, &mut columns)?;
        }
        Ok(Self { columns, len: batch.num_rows() })
    }

    fn kinds(&self) -> Vec<(Key, &'static str)> {
        let kind = |column: &Column| match &column.kind {
            Kind::One(leaf) => leaf.kind().0,
            Kind::Many { items, .. } => items.kind().1,
            Kind::Rows { items, .. } => items.kind().2,
        };
        self.columns.iter().map(|column| (column.name.clone(), kind(column))).collect()
    }

    /// The example of a row; what is null is absent.
    pub(crate) fn example(&self, row: usize) -> Result<Example, String> {
        let mut example = Example::default();
        for Column { name, parents, kind } in &self.columns {
            if parents.iter().any(|parent| parent.is_null(row)) {
                continue;
            }
            let value = match kind {
                Kind::One(leaf) => leaf.value(row),
                Kind::Many { lists, .. } if lists.is_null(row) => Ok(None),
                Kind::Many { lists, items } => items.list(range_of(lists, row)).map(Some),
                Kind::Rows { lists, .. } if lists.is_null(row) => Ok(None),
                Kind::Rows { lists, rows, items } => {
                    items.rows(rows, range_of(lists, row)).map(Some)
                }
            };
            if let Some(value) = value.map_err(|reason| format!("'{name}' {reason}"))? {
                example.set(name.clone(), value);
            }
        }
        Ok(example)
    }
}

/// Where a list's items lie among those of all lists.
fn range_of(lists: &ArrayRef, row: usize) -> Range<usize> {
    match lists.data_type() {
        DataType::LargeList(_) => {
            let offsets = lists.as_list::<i64>().value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        }
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            row * size..(row + 1) * size
        }
        _ => {
            let offsets = lists.as_list::<i32>().value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        }
    }
}

/// Adds the columns that an array is, below the `lists` that hold its values.
fn flatten(
    name: String,
    array: &ArrayRef,
    parents: &[ArrayRef],
    lists: &[ArrayRef],
    options: &RowOptions,
    columns: &mut Vec<Column>,
) -> Result<(), String> {
    if !options.wants(&name) {
        return Ok(());
    }
    let items = match array.data_type() {
        DataType::Struct(fields) => {
            let mut inner = parents.to_vec();
            // Within a list, a struct has no row to be absent from.
            if lists.is_empty() && array.null_count() > 0 {
                inner.push(array.clone());
            }
            for (field, child) in fields.iter().zip(array.as_struct().columns()) {
                flatten(
                    format!("{name}/{}", field.name()),
                    child,
                    &inner,
                    lists,
                    options,
                    columns,
                )?;
            }
            return Ok(());
        }
        DataType::List(_) => array.as_list::<i32>().values(),
        DataType::LargeList(_) => array.as_list::<i64>().values(),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().values(),
        _ => {
            let unfit = |reason| {
                format!("column '{name}' {reason}: leave it out with the source's `columns`")
            };
            let leaf = Leaf::of(array).map_err(unfit)?;
            let kind = match lists {
                [] => Kind::One(leaf),
                [lists] => Kind::Many { lists: lists.clone(), items: leaf },
                [lists, rows] if leaf.kind().2 != TEXT_ROWS => {
                    Kind::Rows { lists: lists.clone(), rows: rows.clone(), items: leaf }
                }
                _ => return Ok(()),
            };
            columns.push(Column { name: name.into(), parents: parents.to_vec(), kind });
            return Ok(());
        }
    };
    let lists = [lists, std::slice::from_ref(array)].concat();
    flatten(name, items, parents, &lists, options, columns)
}

impl Leaf {
    fn of(array: &ArrayRef) -> Result<Self, String> {
        // The same bytes as another type of the same width.
        macro_rules! stored_as {
            ($dtype:ident) => {
                array
                    .to_data()
                    .into_builder()
                    .data_type(DataType::$dtype)
                    .build()
                    .expect("types of one width share their layout")
                    .into()
            };
        }
        macro_rules! widened {
            ($ty:ty) => {
                Self::Ints(array.as_primitive::<$ty>().iter().map(|v| v.map(i64::from)).collect())
            };
        }
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string().clone()),
            DataType::Utf8View => Self::TextView(array.as_string_view().clone()),
            DataType::Binary => Self::Bytes(array.as_binary().clone()),
            DataType::LargeBinary => Self::LargeBytes(array.as_binary().clone()),
            DataType::Int8 => widened!(Int8Type),
            DataType::Int16 => widened!(Int16Type),
            DataType::Int32 => Self::Ids(array.as_primitive().clone()),
            DataType::UInt8 => widened!(UInt8Type),
            DataType::UInt16 => widened!(UInt16Type),
            DataType::UInt32 => widened!(UInt32Type),
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>().iter();
                let fits = |value: Option<u64>| value.map(i64::try_from).transpose();
                let ints: Result<Int64Array, _> = values.map(fits).collect();
                Self::Ints(ints.map_err(|_| "holds a number beyond 63 bits".to_string())?)
            }
            DataType::Float16 => {
                let values = array.as_primitive::<Float16Type>().iter();
                Self::Floats(values.map(|value| value.map(f64::from)).collect())
            }
            DataType::Float32 => Self::Singles(array.as_primitive().clone()),
            DataType::Float64 => Self::Floats(array.as_primitive().clone()),
            DataType::Boolean => Self::Bools(array.as_boolean().clone()),
            DataType::Null => Self::Null,
            // Times are what they are stored as: units since 1970, or of the day.
            DataType::Int64
            | DataType::Timestamp(..)
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Duration(_) => Self::Ints(stored_as!(Int64)),
            DataType::Date32 | DataType::Time32(_) => Self::Ids(stored_as!(Int32)),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = Box::new(Self::of(dictionary.values())?);
                let keys = if dictionary.values().is_empty() {
                    vec![0; array.len()]
                } else {
                    dictionary.normalized_keys()
                };
                Self::Dictionary { keys, nulls: array.clone(), values }
            }
            other => return Err(format!("is of type {other}, of which no feature can be made")),
        })
    }

    /// What its values are: one, many, and rows of them.
    fn kind(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Text(_)
            | Self::LargeText(_)
            | Self::TextView(_)
            | Self::Bytes(_)
            | Self::LargeBytes(_) => ("text", "a list of texts", TEXT_ROWS),
            Self::Ids(_) | Self::Ints(_) | Self::Bools(_) => {
                ("an int", "a list of ints", "a list of lists of ints")
            }
            Self::Singles(_) | Self::Floats(_) => {
                ("a float", "a list of floats", "a list of lists of floats")
            }
            Self::Dictionary { values, .. } => values.kind(),
            Self::Null => (NULL, NULL, NULL),
        }
    }

    fn is_null(&self, at: usize) -> bool {
        match self {
            Self::Text(array) => array.is_null(at),
            Self::LargeText(array) => array.is_null(at),
            Self::TextView(array) => array.is_null(at),
            Self::Bytes(array) => array.is_null(at),
            Self::LargeBytes(array) => array.is_null(at),
            Self::Ids(array) => array.is_null(at),
            Self::Ints(array) => array.is_null(at),
            Self::Singles(array) => array.is_null(at),
            Self::Floats(array) => array.is_null(at),
            Self::Bools(array) => array.is_null(at),
            Self::Dictionary { keys, nulls, values } => {
                nulls.is_null(at) || values.is_null(keys[at])
            }
            Self::Null => true,
        }
    }

    fn text(&self, at: usize) -> Result<&str, String> {
        let utf8 = |bytes| {
            std::str::from_utf8(bytes).map_err(|_| {
                "is not UTF-8; if it holds images or sound, leave it out with the source's \
                 `columns`"
                    .to_string()
            })
        };
        match self {
            Self::Text(array) => Ok(array.value(at)),
            Self::LargeText(array) => Ok(array.value(at)),
            Self::TextView(array) => Ok(array.value(at)),
            Self::Bytes(array) => utf8(array.value(at)),
            Self::LargeBytes(array) => utf8(array.value(at)),
            Self::Dictionary { keys, values, .. } => values.text(keys[at]),
            _ => unreachable!("only texts are read as such"),
        }
    }

    /// A value; `None` where it is null.
    fn value(&self, at: usize) -> Result<Option<Value>, String> {
        if self.is_null(at) {
            return Ok(None);
        }
        Ok(Some(match self {
            Self::Ids(array) => Value::Int(array.value(at).into()),
            Self::Ints(array) => Value::Int(array.value(at)),
            Self::Bools(array) => Value::Int(array.value(at).into()),
            Self::Singles(array) => Value::Float(array.value(at).into()),
            Self::Floats(array) => Value::Float(array.value(at)),
            Self::Dictionary { keys, values, .. } => return values.value(keys[at]),
            _ => Value::Text(self.text(at)?.to_string()),
        }))
    }

    /// The values of a list of lists.
    fn rows(&self, rows: &ArrayRef, range: Range<usize>) -> Result<Value, String> {
        if let Some(null) = range.clone().find(|row| rows.is_null(*row)) {
            return Err(format!("holds null as item {} of a list", null - range.start + 1));
        }
        if range.is_empty() && matches!(self, Self::Singles(_) | Self::Floats(_)) {
            return Ok(Value::FloatRows(Vec::new()));
        }
        let found = range.map(|row| self.list(range_of(rows, row)));
        let found = Value::of_rows(found.collect::<Result<_, _>>()?);
        found.ok_or_else(|| "holds a number of over 32 bits in a list of lists".to_string())
    }

    /// The values of a list, none of which may be null.
    fn list(&self, range: Range<usize>) -> Result<Value, String> {
        if let Some(null) = range.clone().find(|at| self.is_null(*at)) {
            return Err(format!("holds null as item {} of a list", null - range.start + 1));
        }
        Ok(match self {
            Self::Ids(array) => Value::Ints(array.values()[range].to_vec()),
            Self::Ints(array) => Value::of_longs(array.values()[range].to_vec()),
            Self::Bools(array) => Value::Ints(range.map(|at| array.value(at).into()).collect()),
            Self::Singles(array) => {
                Value::Floats(array.values()[range].iter().map(|&v| v.into()).collect())
            }
            Self::Floats(array) => Value::Floats(array.values()[range].to_vec()),
            Self::Null => Value::Ints(Vec::new()),
            Self::Dictionary { keys, values, .. } if values.kind().0 != "text" => {
                let longs = range.map(|at| match values.value(keys[at]) {
                    Ok(Some(Value::Int(value))) => Ok(value),
                    _ => Err("is a dictionary of numbers that are not whole".to_string()),
                });
                Value::of_longs(longs.collect::<Result<_, _>>()?)
            }
            _ => {
                let texts = range.map(|at| self.text(at).map(str::to_string));
                Value::Texts(texts.collect::<Result<_, _>>()?)
            }
        })
    }
}
