//! L4: the training step and its loop.
