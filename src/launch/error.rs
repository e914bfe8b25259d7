//! A mistake in what a launcher or a user says about the processes.

use std::fmt::Display;

use thiserror::Error;

/// A variable or flag that contradicts others, is missing or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{name}` is {found}, expected {expected}: {remedy}")]
pub struct WorldError {
    /// The variable or flag.
    pub name: String,
    /// The value, or `not set`.
    pub found: String,
    /// The values that would be valid.
    pub expected: String,
    /// The user's next step.
    pub remedy: String,
}

impl WorldError {
    /// Creates an error for a value that cannot be right.
    pub fn unfit(
        name: &str,
        found: impl Display,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let found = format!("`{found}`");
        Self { name: name.into(), found, expected: expected.into(), remedy: remedy.into() }
    }

    /// Creates an error for a value that nobody gave.
    pub fn missing(name: &str, expected: impl Into<String>, remedy: impl Into<String>) -> Self {
        let found = "not set".to_string();
        Self { name: name.into(), found, expected: expected.into(), remedy: remedy.into() }
    }
}
