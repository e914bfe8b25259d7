//! One data set of samples, or several in proportions.

use std::sync::OnceLock;

use super::blend::Blend;
use super::samples::BertSamples;
use crate::error::DataError;
use crate::random::fnv1a;
use crate::value::{Key, Value};
use gimlet_storage::Path;

/// The proportions of data sets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Proportions {
    /// A share of all samples for each data set.
    Shares(Vec<f64>),
    /// A factor of the number of samples of each data set.
    Multiples(Vec<f64>),
}

/// The samples of one data set, or of several in proportions.
#[derive(Debug)]
pub(crate) struct Samples {
    datasets: Vec<BertSamples>,
    /// None for one data set.
    proportions: Option<Proportions>,
    blend: OnceLock<Blend>,
}

impl Samples {
    /// The samples of one data set.
    pub(crate) fn one(dataset: BertSamples) -> Self {
        Self { datasets: vec![dataset], proportions: None, blend: OnceLock::new() }
    }

    /// The samples of several data sets, with a number for each.
    pub(crate) fn blended(datasets: Vec<BertSamples>, proportions: Proportions) -> Self {
        Self { datasets, proportions: Some(proportions), blend: OnceLock::new() }
    }

    /// The place of the samples in messages: the file of the first data set and the number of the others. At its end, after
    /// a '#', stands a hash of all settings on which the samples depend, since a position in other samples has no meaning.
    pub(crate) fn place(&self) -> Path {
        let settings = self.datasets.iter().map(BertSamples::settings).collect::<Vec<_>>();
        let settings = format!("{}\n{:?}", settings.join("\n"), self.proportions);
        let others = match self.datasets.len() - 1 {
            0 => String::new(),
            count => format!("+{count}"),
        };
        let hash = fnv1a(settings.as_bytes()) as u32;
        self.datasets[0].bin().suffixed(&format!("{others}#{hash:08x}"))
    }

    /// The size of all files in bytes.
    pub(crate) fn size(&self) -> Result<u64, DataError> {
        self.datasets.iter().map(|dataset| Ok(dataset.bin().size()?)).sum()
    }

    /// Number of samples.
    pub(crate) fn num_samples(&self) -> Result<u64, DataError> {
        match &self.proportions {
            Some(proportions) => Ok(self.blend(proportions)?.len()),
            None => self.datasets[0].num_samples(),
        }
    }

    /// The features of a sample by its number, which is below [`Self::num_samples`].
    ///
    /// # Errors
    /// Those of [`BertSamples::features`].
    pub(crate) fn features(&self, number: u64) -> Result<Vec<(Key, Value)>, DataError> {
        let (dataset, number) = match &self.proportions {
            Some(proportions) => self.blend(proportions)?.get(number),
            None => (0, number),
        };
        self.datasets[dataset].features(number)
    }

    fn blend(&self, proportions: &Proportions) -> Result<&Blend, DataError> {
        if let Some(blend) = self.blend.get() {
            return Ok(blend);
        }
        let lengths = self.datasets.iter().map(BertSamples::num_samples);
        let lengths = lengths.collect::<Result<Vec<_>, _>>()?;
        Ok(self.blend.get_or_init(|| match proportions {
            Proportions::Shares(weights) => Blend::of_shares(&lengths, weights),
            Proportions::Multiples(weights) => Blend::of_multiples(&lengths, weights),
        }))
    }
}
