//! Slices of rows whose logits are computed at once.

/// Bytes of their logits; larger slices make matrix products faster.
const BYTES: usize = 128 << 20;
/// Smallest number of rows of a slice: the weight's gradient is read and written once per slice.
const MIN_ROWS: usize = 256;

/// Number of rows of a slice, where so many processes divide a vocabulary of that size. Logits are float32.
pub fn slice_rows(vocab_size: usize, num_processes: usize) -> usize {
    (BYTES * num_processes / (size_of::<f32>() * vocab_size)).max(MIN_ROWS)
}
