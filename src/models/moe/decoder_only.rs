//! Models with experts that predict the tokens after those before them.

use super::experts::{RoutingLossFactors, as_without_experts, check_experts};
use crate::data::{ConverterClass, DataError, Lengths};
use crate::gin::Configurable;
use crate::models::decoder_only::{DecoderOnlyParameters, PredictWithPrefix, ScoreTargets};
use crate::models::decoding::Prediction;
use crate::models::loss::LossSpec;
use crate::models::memory::StepShape;
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::models::{BaseModel, DecoderOnlyModel};
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

const NAME: &str = "models.MoeDecoderOnlyModel";

/// A decoder-only model with experts: `DecoderOnlyModel` with the losses of routers. Source: T5X
/// `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.models.MoeDecoderOnlyModel")]
pub struct MoeDecoderOnlyModel {
    /// Parameters of the model without experts.
    #[gin(flatten)]
    pub shared: DecoderOnlyParameters,
    /// Weights of the losses of routers.
    #[gin(flatten)]
    pub routing: RoutingLossFactors,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictPrefixWithExperts,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreTargets,
}

/// Options of decoding a batch. Source: T5X `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.contrib.moe.models.MoeDecoderOnlyModel.predict_batch_with_aux",
    ignored(decoder_params = "bind the decoding function's own parameters")
)]
pub struct PredictPrefixWithExperts {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Samples, or beams, per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
}

impl MoeDecoderOnlyModel {
    /// The same model without the losses of routers.
    pub fn model(&self) -> DecoderOnlyModel {
        let predict = &self.predict_batch_with_aux;
        DecoderOnlyModel {
            shared: self.shared.clone(),
            predict_batch_with_aux: PredictWithPrefix {
                return_all_decodes: predict.return_all_decodes,
                num_decodes: predict.num_decodes,
            },
            score_batch: self.score_batch.clone(),
        }
    }
}

impl BaseModel for MoeDecoderOnlyModel {
    as_without_experts!();

    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        ["inputs", "targets"].map(|feature| (feature, &self.shared.vocabulary)).into()
    }

    fn output_vocabulary(&self) -> &VocabularySpec {
        &self.shared.vocabulary
    }
}
