//! L3: the model families.
