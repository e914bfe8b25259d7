//! SeqIO's task cache: examples as they are before `CacheDatasetPlaceholder`, written once by
//! `gimlet cache` and read by every run with `USE_CACHED_TASKS = True`.
//!
//! ```text
//! DIR/task:of:mine -> DIR/task/of/mine/
//!   train.tfrecord-00000-of-00064   tf.Example protos
//!   info.train.json                 features and number of shards
//!   stats.train.json                examples and tokens
//!   .recipe.json                    the values with which it was made, Gimlet's own
//!   COMPLETED                       written last: readers ignore a folder without it
//! ```
//!
//! Source of the layout: SeqIO `beam_utils.py` and `dataset_providers.py`; each can read the
//! other's caches.

mod divided;
mod estimate;
mod find;
mod folder;
mod info;
mod part;
mod plan;
mod progress;
mod read;
mod recipe;
mod shards;
mod share;
mod staged;
mod stats;
mod step;
mod write;

pub use estimate::{Estimate, estimate};
pub use find::Caches;
pub use folder::CacheFolder;
pub use part::CacheProcess;
pub use plan::SplitPlan;
pub use write::{CacheOptions, Written, split_plans, write_cache};

pub(crate) use read::{cached_count, cached_split, has_cached_split};
pub use step::{CacheStep, cache_step};
