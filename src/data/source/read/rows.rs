//! Rows of Arrow record batches: nested columns are flattened, and each value is read by its type.
//!
//! A struct's fields become separate columns (`answers/text`), as do those of a list of structs,
//! whose values are lists. Lists of lists become features with the same number of dimensions.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::super::row_options::RowOptions;
use super::leaf::{Leaf, TEXT_ROWS, range_of};
use crate::example::Example;
use crate::value::{Key, Value};

/// Rows decoded at once: few, as a row may be a whole document and many files are open.
pub(super) const BATCH_ROWS: usize = 128;

/// The rows of a batch as features.
pub(crate) struct Rows {
    columns: Vec<Column>,
    pub(super) len: usize,
    /// Approximate size of all rows, in bytes.
    pub(super) bytes: usize,
}

struct Column {
    name: Key,
    /// Structs around the column: the column is null if one of them is null.
    parents: Vec<ArrayRef>,
    kind: Kind,
}

enum Kind {
    One(Leaf),
    /// Lists, with the range of each list's items.
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
    /// Lists of lists of texts, and columns with more dimensions, with the ranges of each
    /// dimension's items.
    Nested {
        lists: ArrayRef,
        inner: Vec<ArrayRef>,
        items: Leaf,
    },
}

impl Rows {
    /// The features of a batch, or an error about a column that cannot be a feature.
    pub(super) fn new(batch: &RecordBatch, options: &RowOptions) -> Result<Self, String> {
        let mut columns = Vec::new();
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            flatten(field.name().clone(), array, &[], &[], options, &mut columns)?;
        }
        let sizes = batch.columns().iter().map(|array| array.to_data().get_slice_memory_size());
        let bytes = sizes.map(Result::unwrap_or_default).sum();
        Ok(Self { columns, len: batch.num_rows(), bytes })
    }

    /// The features and the kinds of their values.
    pub(super) fn kinds(&self) -> Vec<(Key, &'static str)> {
        let kind = |column: &Column| match &column.kind {
            Kind::One(leaf) => leaf.kind().0,
            Kind::Many { items, .. } => items.kind().1,
            Kind::Rows { items, .. } | Kind::Nested { items, .. } => items.kind().2,
        };
        self.columns.iter().map(|column| (column.name.clone(), kind(column))).collect()
    }

    /// The example of a row; null values are omitted.
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
                Kind::Nested { lists, .. } if lists.is_null(row) => Ok(None),
                Kind::Nested { lists, inner, items } => {
                    nested(inner, items, range_of(lists, row)).map(Some)
                }
            };
            if let Some(value) = value.map_err(|reason| format!("'{name}' {reason}"))? {
                example.set(name.clone(), value);
            }
        }
        Ok(example)
    }
}

/// The values of lists of lists, dimension by dimension.
fn nested(inner: &[ArrayRef], items: &Leaf, range: Range<usize>) -> Result<Value, String> {
    let [lists, inner @ ..] = inner else { return items.list(range) };
    let list = |at: usize| match lists.is_null(at) {
        true => Err("holds null within lists".to_string()),
        false => nested(inner, items, range_of(lists, at)),
    };
    let rows: Vec<Value> = range.map(list).collect::<Result<_, _>>()?;
    Value::of_rows(rows).ok_or_else(|| "holds lists of several types".to_string())
}

/// Adds the columns of an array, below the `lists` that hold its values.
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
            // Within a list, a struct cannot be missing from a row.
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
                [lists, inner @ ..] => {
                    Kind::Nested { lists: lists.clone(), inner: inner.to_vec(), items: leaf }
                }
            };
            columns.push(Column { name: name.into(), parents: parents.to_vec(), kind });
            return Ok(());
        }
    };
    let lists = [lists, std::slice::from_ref(array)].concat();
    flatten(name, items, parents, &lists, options, columns)
}
