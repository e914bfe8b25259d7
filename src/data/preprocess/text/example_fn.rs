//! Replacements for Python's functions of an example: `inputs_fn = @gimlet.example.get()`.

use super::strings::strip;
use super::{int_of, texts_of, value_of};
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::{Configurable, Evaluator, FromGin, Registry, Reported, ValueKind};

gimlet_gin::slot! {
    /// A function of an example, in called form.
    pub enum ExampleFn: ExampleFunction {
        Constant,
        Equal,
        Feature,
        Fill,
        OneHot,
    }
}

impl ExampleFn {
    /// The value for an example, or an error.
    pub(super) fn call(&self, example: &Example) -> Result<Value, String> {
        self.spec().call(example)
    }
}

/// A function of an example.
trait ExampleFunction {
    fn call(&self, example: &Example) -> Result<Value, String>;
}

/// The value of a feature.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.example.get")]
pub struct Feature {
    /// The feature.
    pub key: String,
}

impl ExampleFunction for Feature {
    fn call(&self, example: &Example) -> Result<Value, String> {
        value_of(example, &self.key).cloned()
    }
}

/// A text, repeated as often as another feature has items. Python's `tf.fill`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.example.fill")]
pub struct Fill {
    /// The feature that holds the text.
    pub key: String,
    /// The feature that holds the list.
    pub like: String,
}

impl ExampleFunction for Fill {
    fn call(&self, example: &Example) -> Result<Value, String> {
        let text = super::text_of(example, &self.key)?;
        Ok(Value::Texts(vec![text.to_string(); texts_of(example, &self.like)?.len()]))
    }
}

/// For each item of a list of texts, 1 if the item equals the text of another feature, else 0.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.example.equal")]
pub struct Equal {
    /// The feature that holds the list.
    pub key: String,
    /// The feature that holds the text; spaces around the text are ignored.
    pub to: String,
}

impl ExampleFunction for Equal {
    fn call(&self, example: &Example) -> Result<Value, String> {
        let text = strip(super::text_of(example, &self.to)?);
        let equal = texts_of(example, &self.key)?.iter().map(|item| i32::from(item == text));
        Ok(Value::Ints(equal.collect()))
    }
}

/// A vector with 1 at the index of a label and 0 elsewhere; for several labels, 1 at the index of
/// each.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.example.one_hot")]
pub struct OneHot {
    /// The feature that holds a label, or several.
    pub key: String,
    /// Number of classes.
    pub num_classes: usize,
}

impl ExampleFunction for OneHot {
    fn call(&self, example: &Example) -> Result<Value, String> {
        let labels = match value_of(example, &self.key)? {
            Value::Ints(labels) => labels.iter().map(|label| i64::from(*label)).collect(),
            _ => vec![int_of(example, &self.key)?],
        };
        let hot = |class: usize| i32::from(labels.contains(&(class as i64)));
        Ok(Value::Ints((0..self.num_classes).map(hot).collect()))
    }
}

/// The same value for all examples.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.example.constant")]
pub struct Constant {
    /// The value.
    pub value: Value,
}

impl ExampleFunction for Constant {
    fn call(&self, _: &Example) -> Result<Value, String> {
        Ok(self.value.clone())
    }
}

/// Converts texts, numbers and lists of either; True and False are 1 and 0.
impl FromGin for Value {
    fn expected() -> String {
        "a str, an int, a float, or a list of one of them".to_string()
    }

    fn from_gin(value: &gimlet_gin::Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(text) => Ok(Self::Text(text.clone())),
            ValueKind::Bool(truth) => Ok(Self::Int(i64::from(*truth))),
            ValueKind::Int(_) => cx.read(value).map(Self::Int),
            ValueKind::Float(number) => Ok(Self::Float(*number)),
            ValueKind::List(items) | ValueKind::Tuple(items) => match items.first() {
                Some(gimlet_gin::Value { kind: ValueKind::Str(_), .. }) => {
                    cx.read(value).map(Self::Texts)
                }
                _ if items.iter().any(|item| matches!(item.kind, ValueKind::Float(_))) => {
                    cx.read(value).map(Self::Floats)
                }
                _ => {
                    let numbers: Vec<i64> = cx.read(value)?;
                    let ids: Result<Vec<i32>, _> = numbers.into_iter().map(i32::try_from).collect();
                    ids.map(Self::Ints).map_err(|_| cx.mismatch(value, "ints of 32 bits"))
                }
            },
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        match self {
            Self::Ints(ids) => ids.iter().map(|id| i64::from(*id)).collect::<Vec<i64>>().to_gin(),
            Self::Longs(numbers) => numbers.to_gin(),
            Self::Int(number) => number.to_gin(),
            Self::Float(number) => number.to_gin(),
            Self::Text(text) => text.to_gin(),
            Self::Floats(numbers) => numbers.to_gin(),
            Self::Texts(texts) => texts.to_gin(),
            Self::FloatRows(rows) => rows.to_gin(),
            // No function makes values of this kind.
            Self::Lists(_) => None,
            Self::IntRows(rows) => {
                let wide = |row: &Vec<i32>| row.iter().map(|id| i64::from(*id)).collect();
                rows.iter().map(wide).collect::<Vec<Vec<i64>>>().to_gin()
            }
        }
    }

    fn register(_: &mut Registry) {}
}
