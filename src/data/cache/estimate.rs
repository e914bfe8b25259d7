//! Estimates of a split's cache, from a sample of one of its files.

use std::time::{Duration, Instant};

use super::plan::SplitPlan;
use super::share::weights;
use super::write::{CacheOptions, task_plan};
use crate::error::DataError;
use crate::pipeline::{Listing, Pull, TaskPlan, precache_stage};
use crate::source::{Reader, SplitFiles, encode, frame};
use crate::task::Task;

/// Maximum time for which a file is read.
const SAMPLING: Duration = Duration::from_secs(1);

/// The estimated cache of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Examples in the sample.
    pub num_sampled: u64,
    /// Examples in the cache.
    pub num_examples: u64,
    /// Bytes of its shards.
    pub bytes: u64,
    /// Time to write the cache with the same number of threads.
    pub time: Duration,
}

/// Estimates a split's cache, if a sample suffices: `num_examples` of its first file that is not
/// empty are preprocessed, or as many as one second yields, together with examples that its steps
/// hold back. The estimate assumes that the rest is similar.
///
/// # Errors
/// Any error in the data that were read.
pub fn estimate(
    task: &Task,
    plan: &SplitPlan,
    options: &CacheOptions,
    num_examples: u64,
) -> Result<Option<Estimate>, DataError> {
    let split = task.source.split(task.task_name(), &plan.split)?;
    let Some(weights) = weights(&split.files, plan)? else { return Ok(None) };
    let nothing = Estimate { num_sampled: 0, num_examples: 0, bytes: 0, time: Duration::ZERO };
    let Some(at) = weights.iter().position(|weight| *weight > 0.0) else {
        return Ok(Some(nothing));
    };
    let Some(file) = split.files.get(at).cloned() else { return Ok(None) };
    let most = split.most;
    let alone = SplitFiles { files: vec![file.clone()], ..split };
    let task_plan = TaskPlan {
        listing: Listing::of(task.task_name(), alone),
        ..task_plan(options, &plan.split)
    };
    let mut stage = precache_stage(task, &task_plan)?;
    let (mut num_sampled, mut framed, mut bytes) = (0, Vec::new(), 0);
    // A file that reached its end was read completely.
    let mut share = 1.0;
    let mut enough_at = None;
    let started = Instant::now();
    while let Some(example) = stage.pull()? {
        num_sampled += 1;
        framed.clear();
        frame(&encode(&example), &mut framed);
        bytes += framed.len();
        if num_sampled < num_examples && started.elapsed() < SAMPLING {
            continue;
        }
        // Examples come in chunks, and the position is the beginning of the last example's chunk.
        let position = Reader::file_position(&stage.save());
        if *enough_at.get_or_insert(position) != position {
            share = file.length()?.share_before(position);
            break;
        }
    }
    let scale = weights.iter().sum::<f64>() / (weights[at] * share);
    let scale =
        most.map_or(scale, |most| scale.min(most as f64 / f64::max(num_sampled as f64, 1.0)));
    Ok(Some(Estimate {
        num_sampled,
        num_examples: (num_sampled as f64 * scale) as u64,
        bytes: (bytes as f64 * scale) as u64,
        time: started.elapsed().mul_f64(scale),
    }))
}
