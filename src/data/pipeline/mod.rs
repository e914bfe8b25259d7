//! The stages between files and examples, each pulled by the next.
//!
//! ```text
//! Reader -> ParallelMap (parse, tokenize, ...) -> Concat -> Split -> Map -> Map (validate, trim)
//!        -> Shuffle -> Mix
//! ```
//!
//! Every stage can [`save`](Pull::save) its position and restore it. Stages that look ahead do not
//! save the items they hold but the position of these items: they pull them again.

mod chunks;
mod convert;
mod cuts;
mod extent;
mod few_shot;
mod listing;
mod map;
mod mix;
mod parallel;
mod pool;
mod pull;
mod rebatch;
mod share;
mod shuffle;
mod take;
mod task;
pub(crate) mod testing;
mod validate;

pub use pull::StageState;
pub use validate::KnownIds;

pub(crate) use cuts::Cuts;
pub(crate) use extent::{file_names, num_bytes, plain_file_names};
pub(crate) use listing::Listing;
pub(crate) use mix::{Mix, MixEnds, MixPlan, MixtureParts, mixture_parts, mixture_tasks};
pub(crate) use pool::Workers;
pub(crate) use pull::{Counters, Pull, Pulled, Stage, Within};
pub(crate) use share::{RecordShare, take_block};
pub(crate) use task::{TaskPlan, first_stages, precache_part, precache_stage, task_stage};
