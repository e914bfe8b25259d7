//! L2: T5X's native checkpoint layout.
