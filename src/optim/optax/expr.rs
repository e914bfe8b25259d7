//! Formulas for the numbers of one parameter, as data: `0.9 * slot(0) + 0.1 * gradient()`.
//!
//! An optimizer's file writes its formula without tensors, so that it compiles without torch;
//! `evaluate.rs` computes it. Parts that are cloned are computed once. All is float32.

use std::ops::{Add, Div, Mul, Sub};
use std::sync::Arc;

use super::threefry::Key;

/// A formula. Clones share it.
#[derive(Clone, Debug)]
pub struct Expr(pub Arc<Node>);

/// One operation of a formula.
#[derive(Debug)]
pub enum Node {
    /// The parameter's gradient.
    Gradient,
    /// The parameter before the update.
    Param,
    /// The array of the state with that index, before the update.
    Slot(usize),
    /// The array of the state with that index times a number, computed in its storage format as in
    /// optax.
    Scaled(usize, f64),
    /// The same number for all elements; the right side of a binary operation only.
    Number(f64),
    /// Numbers of the standard normal distribution, drawn with one of the keys that the key splits into: that of the
    /// parameter's place in JAX's order of all parameters.
    Normal(Key),
    /// An operation on two formulas.
    Binary(Binary, Expr, Expr),
    /// An operation on one.
    Unary(Unary, Expr),
    /// The first where `condition` is positive, else the number.
    IfPositive {
        /// The condition.
        condition: Expr,
        /// The value where it is positive.
        then: Expr,
        /// The value elsewhere.
        otherwise: f64,
    },
}

/// An operation on two formulas, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Their sum.
    Add,
    /// Their difference.
    Sub,
    /// Their product.
    Mul,
    /// Their quotient.
    Div,
}

/// An operation on one formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// The square of each element.
    Square,
    /// The square root of each element.
    Sqrt,
    /// -1, 0 or 1 for each element.
    Sign,
    /// The root of the sum of all squares, one number.
    Norm,
    /// The root of the mean of all squares, one number.
    RootMeanSquare,
    /// The greater of each element and the number.
    AtLeast(f64),
}

/// Returns the parameter's gradient.
pub(super) fn gradient() -> Expr {
    Expr(Arc::new(Node::Gradient))
}

/// Returns the parameter before the update.
pub(super) fn param() -> Expr {
    Expr(Arc::new(Node::Param))
}

/// Returns an array of the state by its index.
pub(super) fn slot(index: usize) -> Expr {
    Expr(Arc::new(Node::Slot(index)))
}

/// Returns an array of the state times a number, computed in the array's storage format.
pub(super) fn scaled_slot(index: usize, factor: f64) -> Expr {
    Expr(Arc::new(Node::Scaled(index, factor)))
}

/// Returns numbers of the standard normal distribution for all parameters with one key.
pub(super) fn normal(key: Key) -> Expr {
    Expr(Arc::new(Node::Normal(key)))
}

impl Expr {
    pub(super) fn square(&self) -> Self {
        self.unary(Unary::Square)
    }

    pub(super) fn sqrt(&self) -> Self {
        self.unary(Unary::Sqrt)
    }

    pub(super) fn sign(&self) -> Self {
        self.unary(Unary::Sign)
    }

    pub(super) fn norm(&self) -> Self {
        self.unary(Unary::Norm)
    }

    pub(super) fn root_mean_square(&self) -> Self {
        self.unary(Unary::RootMeanSquare)
    }

    pub(super) fn at_least(&self, number: f64) -> Self {
        self.unary(Unary::AtLeast(number))
    }

    /// This where `condition` is positive, else the number.
    pub(super) fn if_positive(self, condition: Expr, otherwise: f64) -> Self {
        Self(Arc::new(Node::IfPositive { condition, then: self, otherwise }))
    }

    fn unary(&self, operation: Unary) -> Self {
        Self(Arc::new(Node::Unary(operation, self.clone())))
    }

    fn binary(self, operation: Binary, right: Self) -> Self {
        Self(Arc::new(Node::Binary(operation, self, right)))
    }

    fn number(number: f64) -> Self {
        Self(Arc::new(Node::Number(number)))
    }
}

macro_rules! operator {
    ($operator:ident, $method:ident) => {
        impl $operator for Expr {
            type Output = Expr;
            fn $method(self, right: Expr) -> Expr {
                self.binary(Binary::$operator, right)
            }
        }

        impl $operator<f64> for Expr {
            type Output = Expr;
            fn $method(self, right: f64) -> Expr {
                self.binary(Binary::$operator, Expr::number(right))
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);
