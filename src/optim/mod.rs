//! L3: optimizers.
