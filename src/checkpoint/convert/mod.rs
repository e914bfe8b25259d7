//! From a checkpoint of any format to one of another, block by block: no more than some blocks of
//! [`super::for_each_block`] are in memory. What is written is seen when it is whole, and not before.

mod native;
mod staged;

use super::array::DType;

pub use native::to_t5x;

/// How a checkpoint is converted.
pub struct Conversion<'a> {
    /// The type that parameters are rounded to; `None` keeps each its own.
    pub dtype: Option<DType>,
    /// Is told of the bytes done, by several threads.
    pub tell: &'a (dyn Fn(u64) + Sync),
}
