//! A feature converter as one of a task's steps.

use std::collections::BTreeMap;

use super::{Context, Preprocess, Step};
use crate::convert::{ConverterClass, FeatureConverter, Packing};
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Converts the task's features to the model's, packed or not. It depends on the run's lengths, so
/// it comes after a `CacheDatasetPlaceholder`, as in SeqIO, and no cache holds its rows. The run
/// then names `PassThroughFeatureConverter`. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.apply_feature_converter")]
pub struct ApplyFeatureConverter {
    /// The converter.
    pub feature_converter: ConverterClass,
    /// Packs several examples into a row. In SeqIO this is a parameter of the converter.
    #[gin(default = false)]
    pub pack: bool,
    /// Packs with less padding than SeqIO does.
    #[gin(default = false)]
    pub use_custom_packing_ops: bool,
    /// The decoder's first input.
    #[gin(default = 0)]
    pub bos_id: i32,
}

impl Preprocess for ApplyFeatureConverter {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let packing = match (self.pack, self.use_custom_packing_ops) {
            (false, _) => Packing::None,
            (true, false) => Packing::Greedy,
            (true, true) => Packing::Dense,
        };
        // The run's lengths may name the model's features too, for the converter that passes them on.
        let is_models = |name: &str| name.starts_with("encoder_") || name.starts_with("decoder_");
        let lengths: BTreeMap<String, usize> = (cx.lengths.into_iter().flatten())
            .filter(|(name, _)| !is_models(name))
            .map(|(name, length)| (name.clone(), *length))
            .collect();
        let class = &self.feature_converter;
        let converter = FeatureConverter::new(class, &lengths, packing, self.bos_id)?;
        Ok(vec![Step::Convert(converter)])
    }

    fn needs_lengths(&self) -> bool {
        true
    }
}
