//! The types of the columns of files without types.

use gimlet_gin::Configurable;

/// The type of a CSV column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum ColumnType {
    /// The text, unchanged.
    String,
    /// A whole number.
    Int,
    /// A number.
    Float,
}
