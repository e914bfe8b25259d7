//! Derived values: arithmetic and texts over macros (docs/decisions/0009).
//!
//! `%(EMB_DIM * 4)` computes with Python's rules: integers are exact, `/` gives a float, `//` and `%`
//! round down. `f'{MODEL_DIR}/eval'` puts values into a text as Python's `str` writes them.

use std::fmt::{Display, Formatter, Result as Written};

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::repr::repr_str;
use super::value::{Value, ValueKind};

/// Results with more bits are refused: macros that square each other grow without bound.
const MAX_BITS: u64 = 14_284;

/// Longer texts are refused, for the same reason.
const MAX_TEXT: usize = 1 << 20;

/// The error message for an integer outside the range of floats.
const TOO_LARGE: &str = "an integer is too large for a float";

/// The expression from which a derived value is computed.
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

/// An operator between two operands.
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
    /// Returns the operator with this spelling.
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

    /// Returns the precedence: operators that bind tighter have a higher one.
    fn precedence(self) -> u8 {
        match self {
            Self::Add | Self::Subtract => 1,
            _ => 2,
        }
    }
}

impl Expression {
    /// Passes every number, macro and piece of text in the expression to `visit`.
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

    /// Does the same as [`Expression::for_each`], but lets `visit` change the values.
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

    /// Computes the value; `read` gives the values of macros.
    ///
    /// # Errors
    /// Those of `read`; else the reason why the value cannot be computed, in words.
    pub fn compute<E: From<String>>(
        &self,
        read: &mut impl FnMut(&Value) -> Result<ValueKind, E>,
    ) -> Result<ValueKind, E> {
        match self {
            Self::Value(value) => read(value),
            Self::Negative(inner) => Ok(match number(inner.compute(read)?, "-")? {
                Number::Int(value) => ValueKind::Int(-value),
                Number::Float(value) => ValueKind::Float(-value),
            }),
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
            if let Self::Value(value) = piece
                && let ValueKind::Str(plain) = &value.kind
            {
                text.push_str(&plain.replace('{', "{{").replace('}', "}}"));
            } else {
                text.push_str(&format!("{{{}}}", Inner(piece)));
            }
        }
        write!(f, "f{}", repr_str(&text))
    }
}

/// An expression to print without its `%(` and `)`.
struct Inner<'a>(&'a Expression);

impl Display for Inner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        self.0.write(f, 0)
    }
}

/// A number in a computation.
enum Number {
    Int(BigInt),
    Float(f64),
}

impl Number {
    fn as_float(&self) -> Result<f64, String> {
        match self {
            Self::Int(value) => {
                let float = value.to_f64().filter(|float| float.is_finite());
                float.ok_or_else(|| TOO_LARGE.to_string())
            }
            Self::Float(value) => Ok(*value),
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
    match (left, right) {
        (Number::Int(left), Number::Int(right)) if operator == Operator::Divide => {
            quotient(&left, &right).map(ValueKind::Float)
        }
        (Number::Int(left), Number::Int(right)) => {
            on_integers(&left, operator, &right).map(ValueKind::Int)
        }
        (left, right) => {
            on_floats(left.as_float()?, operator, right.as_float()?).map(ValueKind::Float)
        }
    }
}

fn on_integers(left: &BigInt, operator: Operator, right: &BigInt) -> Result<BigInt, String> {
    let result = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        _ if right.is_zero() => return Err("division by zero".to_string()),
        Operator::Modulo => left.mod_floor(right),
        _ => left.div_floor(right),
    };
    match result.bits() > MAX_BITS {
        true => Err("the result has too many digits".to_string()),
        false => Ok(result),
    }
}

fn on_floats(left: f64, operator: Operator, right: f64) -> Result<f64, String> {
    Ok(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        _ if right == 0.0 => return Err("division by zero".to_string()),
        Operator::Divide => left / right,
        Operator::FloorDivide => {
            // `1 // 0.1` is 9, although `1 / 0.1` rounds to 10: the remainder decides.
            let floor = ((left - modulo(left, right)) / right).round();
            if floor == 0.0 { floor.copysign(left / right) } else { floor }
        }
        Operator::Modulo => modulo(left, right),
    })
}

/// Returns `left / right`, rounded once: either may have more digits than a float.
fn quotient(left: &BigInt, right: &BigInt) -> Result<f64, String> {
    if right.is_zero() {
        return Err("division by zero".to_string());
    }
    let shift = (right.bits() + 66).saturating_sub(left.bits());
    let (mut digits, rest) = (left.magnitude() << shift).div_rem(right.magnitude());
    // The remainder is more than zero, which decides a tie.
    digits.set_bit(0, digits.bit(0) || !rest.is_zero());
    let half = 2_f64.powi(-(shift as i32 / 2));
    let float = digits.to_f64().unwrap_or(f64::INFINITY) * half * half;
    let float = if shift % 2 == 1 { float / 2.0 } else { float };
    if float.is_infinite() {
        return Err(TOO_LARGE.to_string());
    }
    Ok(if left.is_negative() == right.is_negative() { float } else { -float })
}

/// Returns the remainder, with the sign of the divisor.
fn modulo(left: f64, right: f64) -> f64 {
    match left % right {
        0.0 => 0.0_f64.copysign(right),
        rest if (rest < 0.0) != (right < 0.0) => rest + right,
        rest => rest,
    }
}

/// Converts a value to text as Python's `str` does.
fn as_text(kind: ValueKind) -> Result<String, String> {
    match kind {
        ValueKind::Str(text) => Ok(text),
        ValueKind::Float(value) if value.is_infinite() => {
            Ok(if value > 0.0 { "inf" } else { "-inf" }.to_string())
        }
        ValueKind::None | ValueKind::Bool(_) | ValueKind::Int(_) | ValueKind::Float(_) => {
            Ok(kind.to_string())
        }
        kind => Err(format!("{} cannot stand in a text", kind.type_name())),
    }
}
