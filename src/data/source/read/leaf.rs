//! The values of a column of a record batch, read according to their type.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Int8Type, Int16Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow_schema::DataType;

use super::super::row_options::NULL;
use crate::value::Value;

/// The kind of a column of lists of lists of texts, which are cut dimension by dimension.
pub(super) const TEXT_ROWS: &str = "a list of lists of texts";

/// The range of a list's items among the items of all lists.
pub(super) fn range_of(lists: &ArrayRef, row: usize) -> Range<usize> {
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

/// Values of one type, as far as features distinguish types.
pub(super) enum Leaf {
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

impl Leaf {
    pub(super) fn of(array: &ArrayRef) -> Result<Self, String> {
        // Reads the same bytes as another type of the same width.
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
            // Times are read as stored: units since 1970, or since midnight.
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

    /// Names of its values in messages: a single value, a list, and a list of lists.
    pub(super) fn kind(&self) -> (&'static str, &'static str, &'static str) {
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

    /// A value; `None` if it is null.
    pub(super) fn value(&self, at: usize) -> Result<Option<Value>, String> {
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
    pub(super) fn rows(&self, rows: &ArrayRef, range: Range<usize>) -> Result<Value, String> {
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
    pub(super) fn list(&self, range: Range<usize>) -> Result<Value, String> {
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
