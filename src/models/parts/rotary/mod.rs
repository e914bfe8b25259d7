//! Rotary positions: queries and keys are turned by angles that grow with their position, so that scores depend on distances
//! (Su et al. 2021, arXiv:2104.09864).

mod spec;

#[cfg(feature = "torch")]
mod turn;

pub use spec::Rotary;
