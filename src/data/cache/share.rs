//! The weights of files relative to each other, and the share of them that has been read.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::plan::SplitPlan;
use crate::error::DataError;
use crate::pipeline::{Pull, Stage, StageState};
use crate::source::{Length, Reader, SourceFile, SplitFiles};
use crate::task::Task;

/// Time for which a computed share stays valid: computing it asks all stages for their positions.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);

/// The weight of each of a split's files: its bytes; if only parts of files are read, the number of
/// records to read, and `None` if not all files tell that number.
pub(super) fn weights(
    files: &[SourceFile],
    plan: &SplitPlan,
) -> Result<Option<Vec<f64>>, DataError> {
    if files.iter().all(|file| file.records.is_none()) {
        return Ok(Some(plan.files.iter().map(|(_, size)| *size as f64).collect()));
    }
    let records = |file: &SourceFile| match file.length()? {
        Length::Records { count, .. } => Ok(Some(count as f64)),
        Length::Bytes(_) => Ok(None),
    };
    files.iter().map(records).collect()
}

/// Reports the share of a split's source that has been read.
pub(super) struct Gauge {
    files: Option<ShareRead>,
    known: Option<(Instant, Option<f64>)>,
}

impl Gauge {
    pub(super) fn new(task: &Task, plan: &SplitPlan) -> Result<Self, DataError> {
        let split = task.source.split(task.task_name(), &plan.split)?;
        Ok(Self { files: ShareRead::new(split, plan)?, known: None })
    }

    /// The share from 0 to 1, if the files tell it.
    pub(super) fn share(&mut self, stage: &Stage) -> Result<Option<f64>, DataError> {
        if let Some((since, share)) = self.known
            && since.elapsed() < SHARE_INTERVAL
        {
            return Ok(share);
        }
        let share = match &mut self.files {
            Some(files) => files.before(&stage.save())?,
            None => None,
        };
        self.known = Some((Instant::now(), share));
        Ok(share)
    }
}

/// Tells the share of a split's files that has been read; each file is read once, in order.
struct ShareRead {
    files: Vec<SourceFile>,
    /// Maximum number of records that are read.
    most: Option<u64>,
    weights: Vec<f64>,
    /// The lengths of files that were open, which are found by reading the files.
    lengths: HashMap<usize, Length>,
}

impl ShareRead {
    /// `None` if the files do not tell their lengths.
    fn new(split: SplitFiles, plan: &SplitPlan) -> Result<Option<Self>, DataError> {
        let SplitFiles { files, most, .. } = split;
        let weights = weights(&files, plan)?.filter(|weights| weights.len() == files.len());
        Ok(weights.map(|weights| Self { files, most, weights, lengths: HashMap::new() }))
    }

    /// The share before a position, from 0 to 1.
    fn before(&mut self, state: &StageState) -> Result<Option<f64>, DataError> {
        let Some(reached) = Reader::reached(state) else { return Ok(None) };
        let mut read: f64 = self.weights.iter().take(reached.num_opened).sum();
        for (index, position) in reached.open {
            let Some(file) = self.files.get(index) else { return Ok(None) };
            let length = match self.lengths.get(&index) {
                Some(length) => *length,
                None => *self.lengths.entry(index).insert_entry(file.length()?).get(),
            };
            read -= self.weights[index] * (1.0 - length.share_before(position));
        }
        let total: f64 = self.weights.iter().sum();
        let of_most = self.most.map_or(0.0, |most| reached.records as f64 / most.max(1) as f64);
        Ok((total > 0.0).then(|| (read / total).max(of_most).clamp(0.0, 1.0)))
    }
}
