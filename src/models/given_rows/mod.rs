//! Initial values of learned rows that are not drawn: an array of a file or of a checkpoint, or rows of an embedding.
//! `spec` describes them without reading anything; `values` reads them. `anchor` describes rows from which learned ones are kept near.

mod anchor;
mod array;
mod error;
mod open_array;
mod spec;
mod values;

#[cfg(feature = "torch")]
mod anchored;

pub use anchor::Anchor;
pub use array::{NpLoad, StoredArray, T5xLoad};
pub use error::GivenRowsError;
pub use spec::GivenRows;
pub use values::FirstRows;

#[cfg(feature = "torch")]
pub use anchored::Anchored;
