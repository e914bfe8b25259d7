//! The names of arrays in T5X's tree.

/// The prefix of the names of parameters.
pub const TARGET: &str = "target/";

/// The prefix of the names of all other arrays.
pub const STATE: &str = "state/";

/// The prefix of the names of the optimizer's arrays.
pub const PARAM_STATES: &str = "state/param_states/";

/// The number of updates, which T5X requires.
pub const STEP: &str = "state/step";
