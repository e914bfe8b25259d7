//! L1: paths and files; the only place that will know buckets.
