//! L1: the learning-rate schedule grammar of T5X.
