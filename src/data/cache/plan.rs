//! Plans for caches.

/// The plan for the cache of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPlan {
    /// The split.
    pub split: String,
    /// Files of the source, each with its size in bytes.
    pub files: Vec<(String, u64)>,
    /// Files of the cache.
    pub num_shards: usize,
}
