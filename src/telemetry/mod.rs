//! L1: what a run tells its user: TensorBoard files, progress on the terminal.
