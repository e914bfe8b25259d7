//! Derived values: arithmetic and texts over macros (docs/decisions/0009).
//!
//! `%(EMB_DIM * 4)` computes with Python's rules: integers are exact, `/` gives a float, `//` and `%`
//! round down. `f'{MODEL_DIR}/eval'` puts values into a text as Python's `str` writes them.

use std::fmt::{Display, Formatter, Result as Written};

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{ToPrimitive, Zero};

use super::repr::repr_str;
use super::value::{Value, ValueKind};

/// Results with more bits are refused: macros that square each other grow without bound.
const MAX_BITS: u64 = 14_284;

/// Longer texts are refused, for the same reason.
const MAX_TEXT: usize = 1 << 20;

/// What a derived value is computed from.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number, a macro or a piece of a text.
    Value(Box<Value>),
    /// `-x`
    Negative(Box<Expression>),
    /// `x + y`
    Operation(Box<Expression>, Operator, Box<Expression>),
    /// The pieces of a text, in order.
    Text(Vec<Expression>),
}

/// What stands between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, always a float
    Divide,
    /// `//`, rounded down
    FloorDivide,
    /// `%`, with the sign of the divisor
    Modulo,
}

impl Operator {
    /// The operator that is written so.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "//" => Self::FloorDivide,
            "%" => Self::Modulo,
            _ => return None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Modulo => "%",
        }
    }

    /// Operators that bind tighter have a higher one.
    pub(super) fn precedence(self) -> u8 {
        match self {
            Self::Add | Self::Subtract => 1,
            _ => 2,
        }
    }
}

impl Expression {
    /// Shows every number, macro and piece of text in it.
    pub fn for_each(&self, visit: &mut impl FnMut(&Value)) {
        match self {
            Self::Value(value) => value.for_each(visit),
            Self::Negative(inner) => inner.for_each(visit),
            Self::Operation(left, _, right) => {
                left.for_each(visit);
                right.for_each(visit);
            }
            Self::Text(pieces) => pieces.iter().for_each(|piece| piece.for_each(visit)),
        }
    }

    /// As [`Expression::for_each`], to change what is shown.
    pub fn for_each_mut(&mut self, visit: &mut impl FnMut(&mut Value)) {
        match self {
            Self::Value(value) => value.for_each_mut(visit),
            Self::Negative(inner) => inner.for_each_mut(visit),
            Self::Operation(left, _, right) => {
                left.for_each_mut(visit);
                right.for_each_mut(visit);
            }
            Self::Text(pieces) => pieces.iter_mut().for_each(|piece| piece.for_each_mut(visit)),
        }
    }

    /// The value, where `read` gives the values of macros.
    ///
    /// # Errors
    /// Those of `read`; else what cannot be computed, in words.
    pub fn compute<E: From<String>>(
        &self,
        read: &mut impl FnMut(&Value) -> Result<ValueKind, E>,
    ) -> Result<ValueKind, E> {
        match self {
            Self::Value(value) => read(value),
            Self::Negative(inner) => {
                let zero = Number::Int(BigInt::zero());
                let value = number(inner.compute(read)?, "-")?;
                Ok(operate(zero, Operator::Subtract, value)?)
            }
            Self::Operation(left, operator, right) => {
                let left = number(left.compute(read)?, operator.as_str())?;
                let right = number(right.compute(read)?, operator.as_str())?;
                Ok(operate(left, *operator, right)?)
            }
            Self::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    text.push_str(&as_text(piece.compute(read)?)?);
                    if text.len() > MAX_TEXT {
                        return Err(format!("the text is longer than {MAX_TEXT} bytes").into());
                    }
                }
                Ok(ValueKind::Str(text))
            }
        }
    }

    fn write(&self, f: &mut Formatter<'_>, outer: u8) -> Written {
        match self {
            Self::Value(value) => match &value.kind {
                ValueKind::Macro(used) if used.scope.is_empty() => f.write_str(&used.name),
                kind => kind.fmt(f),
            },
            Self::Negative(inner) => {
                f.write_str("-")?;
                inner.write(f, u8::MAX)
            }
            Self::Operation(left, operator, right) => {
                let precedence = operator.precedence();
                let (open, close) = if precedence < outer { ("(", ")") } else { ("", "") };
                f.write_str(open)?;
                left.write(f, precedence)?;
                write!(f, " {} ", operator.as_str())?;
                right.write(f, precedence + 1)?;
                f.write_str(close)
            }
            Self::Text(pieces) => pieces.iter().try_for_each(|piece| piece.write(f, 0)),
        }
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let Self::Text(pieces) = self else {
            f.write_str("%(")?;
            self.write(f, 0)?;
            return f.write_str(")");
        };
        // Whether `repr` quotes with `'` or `"` depends on the whole text.
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Self::Value(value) if matches!(value.kind, ValueKind::Str(_)) => {
                    let ValueKind::Str(piece) = &value.kind else { continue };
                    text.push_str(&piece.replace('{', "{{").replace('}', "}}"));
                }
                piece => text.push_str(&format!("{{{}}}", Inner(piece))),
            }
        }
        write!(f, "f{}", repr_str(&text))
    }
}

/// An expression without what marks it as one.
struct Inner<'a>(&'a Expression);

impl Display for Inner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        self.0.write(f, 0)
    }
}

/// What can be computed with.
enum Number {
    Int(BigInt),
    Float(f64),
}

impl Number {
    fn as_float(&self) -> f64 {
        match self {
            Self::Int(value) => value.to_f64().expect("every integer has a float"),
            Self::Float(value) => *value,
        }
    }
}

fn number(kind: ValueKind, operator: &str) -> Result<Number, String> {
    match kind {
        ValueKind::Int(value) => Ok(Number::Int(value)),
        ValueKind::Float(value) => Ok(Number::Float(value)),
        ValueKind::Bool(value) => Ok(Number::Int(BigInt::from(u8::from(value)))),
        kind => Err(format!("`{operator}` needs numbers, found {}", kind.type_name())),
    }
}

fn operate(left: Number, operator: Operator, right: Number) -> Result<ValueKind, String> {
    use Operator::{Add, Divide, FloorDivide, Modulo, Multiply, Subtract};
    if matches!(operator, Divide | FloorDivide | Modulo) && right.as_float() == 0.0 {
        return Err("division by zero".to_string());
    }
    if let (Number::Int(left), Number::Int(right)) = (&left, &right)
        && operator != Divide
    {
        let result = match operator {
            Add => left + right,
            Subtract => left - right,
            Multiply => left * right,
            FloorDivide => left.div_floor(right),
            _ => left.mod_floor(right),
        };
        return match result.bits() > MAX_BITS {
            true => Err("the result has too many digits".to_string()),
            false => Ok(ValueKind::Int(result)),
        };
    }
    let (left, right) = (left.as_float(), right.as_float());
    Ok(ValueKind::Float(match operator {
        Add => left + right,
        Subtract => left - right,
        Multiply => left * right,
        Divide => left / right,
        FloorDivide => (left / right).floor(),
        // As Python: the sign is the divisor's.
        Modulo => left - right * (left / right).floor(),
    }))
}

/// Python's `str`.
fn as_text(kind: ValueKind) -> Result<String, String> {
    match kind {
        ValueKind::Str(text) => Ok(text),
        ValueKind::None | ValueKind::Bool(_) | ValueKind::Int(_) | ValueKind::Float(_) => {
            Ok(kind.to_string())
        }
        kind => Err(format!("{} cannot stand in a text", kind.type_name())),
    }
}
