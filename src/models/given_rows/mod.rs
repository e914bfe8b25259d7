//! Initial values of learned rows that are not drawn: an array of a file or of a checkpoint, or rows of an embedding.
//! `spec` describes them without reading anything; `values` reads them.

mod array;
mod error;
mod open_array;
mod spec;
mod values;

pub use array::{NpLoad, StoredArray, T5xLoad};
pub use error::GivenRowsError;
pub use spec::GivenRows;
pub use values::FirstRows;
