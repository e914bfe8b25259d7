//! Samples for BERT from several data sets, in proportions.

use super::bert_dataset::{BertDataset, split_of};
use super::contract::{Source, unknown_split};
use super::split::SplitFiles;
use crate::error::DataError;
use crate::megatron::{Proportions, Samples};
use gimlet_gin::Configurable;

/// Most data sets of a blend. Source: t5-experiments `megatron/data/blendable_dataset.py`.
const MOST_DATASETS: usize = 254;

/// As many samples as several data sets have together, with a share for each data set. A data set that gives more samples
/// than it has starts over. Source: t5-experiments `megatron/data/blendable_dataset.py`, which fails there.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "megatron.BlendableDataset")]
pub struct BlendableDataset {
    /// The data sets.
    pub datasets: Vec<BertDataset>,
    /// The share of each data set, relative to the sum of all.
    pub weights: Vec<f64>,
}

/// The samples of several data sets, each as many times over as its weight says. A data set that gives more samples than it
/// has starts over. Source: t5-experiments `lm_experiments_tools/data.py`, which fails there.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "megatron.MixtureDataset")]
pub struct MixtureDataset {
    /// The data sets.
    pub datasets: Vec<BertDataset>,
    /// The factor of the number of samples of each data set; 1 for all by default.
    #[gin(default = None)]
    pub weights: Option<Vec<f64>>,
}

/// Checks that data sets can be blended.
fn check(name: &str, datasets: &[BertDataset], weights: &[f64]) -> Result<(), DataError> {
    let kind = |dataset: &BertDataset| (dataset.input_seq_len, dataset.use_nsp);
    let found = if datasets.is_empty() || datasets.len() > MOST_DATASETS {
        format!("has {} datasets, expected 1 to {MOST_DATASETS}", datasets.len())
    } else if datasets.len() != weights.len() {
        format!("has {} datasets and {} weights", datasets.len(), weights.len())
    } else if weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
        format!("has weights {weights:?}, expected none below 0")
    } else if weights.iter().all(|weight| *weight == 0.0) {
        "has no weight above 0".to_string()
    } else if datasets.iter().any(|dataset| kind(dataset) != kind(&datasets[0])) {
        "has datasets that differ in `input_seq_len` or `use_nsp`".to_string()
    } else {
        return Ok(());
    };
    Err(DataError::Config(format!("`{name}` {found}")))
}

/// The splits that all data sets have.
fn shared_splits(datasets: &[BertDataset]) -> Vec<String> {
    let Some((first, others)) = datasets.split_first() else { return Vec::new() };
    let is_shared =
        |split: &&String| others.iter().all(|other| other.split_to_prefix.contains_key(*split));
    first.split_to_prefix.keys().filter(is_shared).cloned().collect()
}

/// The files of a split of data sets in proportions.
fn split(
    (task, split): (&str, &str),
    datasets: &[BertDataset],
    proportions: Proportions,
) -> Result<SplitFiles, DataError> {
    let shared = shared_splits(datasets);
    if !shared.iter().any(|known| known == split) {
        return Err(unknown_split(task, split, shared.into_iter()));
    }
    let datasets = datasets.iter().map(|dataset| dataset.samples(task, split));
    let datasets = datasets.collect::<Result<_, _>>()?;
    Ok(split_of(Samples::blended(datasets, proportions)))
}

impl Source for BlendableDataset {
    fn splits(&self, _: &str) -> Result<Vec<String>, DataError> {
        Ok(shared_splits(&self.datasets))
    }

    fn written_splits(&self) -> Option<Vec<String>> {
        Some(shared_splits(&self.datasets))
    }

    fn split(&self, task: &str, name: &str) -> Result<SplitFiles, DataError> {
        check("megatron.BlendableDataset", &self.datasets, &self.weights)?;
        split((task, name), &self.datasets, Proportions::Shares(self.weights.clone()))
    }

    fn num_input_examples(&self, _: &str) -> Option<u64> {
        None
    }
}

impl Source for MixtureDataset {
    fn splits(&self, _: &str) -> Result<Vec<String>, DataError> {
        Ok(shared_splits(&self.datasets))
    }

    fn written_splits(&self) -> Option<Vec<String>> {
        Some(shared_splits(&self.datasets))
    }

    fn split(&self, task: &str, name: &str) -> Result<SplitFiles, DataError> {
        let weights = self.weights.clone().unwrap_or_else(|| vec![1.0; self.datasets.len()]);
        check("megatron.MixtureDataset", &self.datasets, &weights)?;
        split((task, name), &self.datasets, Proportions::Multiples(weights))
    }

    fn num_input_examples(&self, _: &str) -> Option<u64> {
        None
    }
}
