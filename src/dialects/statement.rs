//! The statements that a translation makes.

/// A statement of gin, and the place of the binding that it translates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The place, or the reason of a statement without one.
    pub place: String,
    /// The text.
    pub text: String,
}
