//! The values of one feature of a proto: collecting, counting and shaping.

use super::tf_example::{Partition, TfFeature, TfKind, TfShape};
use super::wire::{Field, Wire};
use crate::value::Value;

/// Collected values of a feature.
#[derive(Debug)]
pub(super) enum Values {
    Ints(Vec<i32>),
    /// Used from the first value on that does not fit in 32 bits.
    Longs(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
}

impl Values {
    pub(super) fn new(kind: TfKind) -> Self {
        match kind {
            TfKind::Ints => Self::Ints(Vec::new()),
            TfKind::Floats => Self::Floats(Vec::new()),
            TfKind::Texts => Self::Texts(Vec::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Longs(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// The values, converted to lengths of rows.
    pub(super) fn as_lengths(&self) -> Option<Vec<usize>> {
        match self {
            Self::Ints(ids) => ids.iter().map(|id| usize::try_from(*id).ok()).collect(),
            _ => None,
        }
    }

    /// Adds a single value of a list, or packed values.
    pub(super) fn push(&mut self, (number, field): (u64, Field<'_>)) -> Result<(), String> {
        if number != 1 {
            return Ok(());
        }
        match (&mut *self, field) {
            (Self::Ints(_) | Self::Longs(_), Field::Varint(number)) => self.push_int(number),
            (Self::Ints(ids), Field::Bytes(packed)) => {
                ids.reserve(packed.len() / 2);
                self.push_ints(packed)?;
            }
            (Self::Longs(_), Field::Bytes(packed)) => self.push_ints(packed)?,
            (Self::Floats(values), Field::Fixed32(bytes)) => {
                values.push(f32::from_le_bytes(bytes).into());
            }
            (Self::Floats(values), Field::Bytes(packed)) => {
                let (floats, rest) = packed.as_chunks();
                if !rest.is_empty() {
                    return Err("holds floats that are cut short".to_string());
                }
                values.extend(floats.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))));
            }
            (Self::Texts(values), Field::Bytes(bytes)) => {
                let text = String::from_utf8(bytes.to_vec());
                values.push(text.map_err(|_| "is not UTF-8".to_string())?);
            }
            _ => return Err("holds a value of another type than its own".to_string()),
        }
        Ok(())
    }

    fn push_ints(&mut self, packed: &[u8]) -> Result<(), String> {
        let mut numbers = Wire::new(packed);
        while !numbers.is_empty() {
            self.push_int(numbers.varint()?);
        }
        Ok(())
    }

    fn push_int(&mut self, number: u64) {
        let number = number.cast_signed();
        match (&mut *self, i32::try_from(number)) {
            (Self::Ints(ids), Ok(id)) => ids.push(id),
            (Self::Ints(ids), Err(_)) => {
                let mut longs: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
                longs.push(number);
                *self = Self::Longs(longs);
            }
            (Self::Longs(longs), _) => longs.push(number),
            _ => unreachable!("ints are pushed to ints"),
        }
    }
}

/// The feature's value in an example, if the number of values is right. `lengths_of` returns the
/// lengths of rows by their stored name.
pub(super) fn value_of(
    feature: &TfFeature,
    values: Option<Values>,
    lengths_of: impl Fn(&str) -> Option<Vec<usize>>,
) -> Result<Value, String> {
    let Some(values) = values else {
        return match (&feature.default, &feature.shape) {
            (Some(default), _) => Ok(default.clone()),
            (None, TfShape::List) => Ok(list_of(Values::new(feature.kind))),
            (None, TfShape::Rows { count: None, inner }) => {
                rows_of(Values::new(feature.kind), inner, |_| Some(Vec::new()))
            }
            (None, _) => Err("is missing".to_string()),
        };
    };
    let found = values.len();
    match &feature.shape {
        TfShape::List => Ok(list_of(values)),
        TfShape::Fixed(length) if *length == found => Ok(list_of(values)),
        TfShape::Fixed(length) => Err(format!("holds {found} values, expected {length}")),
        TfShape::Rows { count, inner } => {
            let rows = rows_of(values, inner, lengths_of);
            let num_rows = rows.as_ref().ok().and_then(Value::len);
            match count {
                Some(count) if num_rows != Some(*count) => {
                    Err(format!("holds {found} values, expected {count} x {}", shown(inner)))
                }
                _ => rows,
            }
        }
        TfShape::One => match values {
            Values::Ints(ids) => single(ids).map(|id| Value::Int(id.into())),
            Values::Longs(longs) => single(longs).map(Value::Int),
            Values::Floats(floats) => single(floats).map(Value::Float),
            Values::Texts(texts) => single(texts).map(Value::Text),
        },
    }
}

fn list_of(values: Values) -> Value {
    match values {
        Values::Ints(ids) => Value::Ints(ids),
        Values::Longs(longs) => Value::Longs(longs),
        Values::Floats(floats) => Value::Floats(floats),
        Values::Texts(texts) => Value::Texts(texts),
    }
}

/// Cuts values into rows, the innermost dimension first.
fn rows_of(
    values: Values,
    inner: &[Partition],
    lengths_of: impl Fn(&str) -> Option<Vec<usize>>,
) -> Result<Value, String> {
    let found = values.len();
    let mut value = list_of(values);
    for partition in inner.iter().rev() {
        let lengths = match partition {
            Partition::Uniform(length) => {
                let count = value.len().unwrap_or(0).checked_div(*length).unwrap_or(0);
                vec![*length; count]
            }
            Partition::Lengths(name) => lengths_of(name)
                .ok_or_else(|| format!("lacks the lengths of its rows, '{name}'"))?,
        };
        let unfit = || format!("holds {found} values, expected rows of {}", shown(inner));
        value = value.cut(&lengths).ok_or_else(unfit)?;
    }
    Ok(value)
}

/// The shape in messages: `3 x 2`, or the features with the lengths.
fn shown(inner: &[Partition]) -> String {
    let one = |partition: &Partition| match partition {
        Partition::Uniform(length) => length.to_string(),
        Partition::Lengths(name) => format!("the lengths in '{name}'"),
    };
    inner.iter().map(one).collect::<Vec<_>>().join(" x ")
}

fn single<T>(values: Vec<T>) -> Result<T, String> {
    let found = values.len();
    let [value] =
        <[T; 1]>::try_from(values).map_err(|_| format!("holds {found} values, expected one"))?;
    Ok(value)
}
