//! Models with experts that read inputs and write targets.

use super::experts::{RoutingLossFactors, as_without_experts, check_experts};
use crate::data::{ConverterClass, DataError, Lengths};
use crate::gin::Configurable;
use crate::models::decoding::Prediction;
use crate::models::encoder_decoder::{EncoderDecoderParameters, ScoreBatch};
use crate::models::loss::LossSpec;
use crate::models::memory::StepShape;
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::models::{BaseModel, EncoderDecoderModel, PredictBatchWithAux};
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

const NAME: &str = "models.MoeEncoderDecoderModel";

/// An encoder-decoder model with experts: `EncoderDecoderModel` with the losses of routers. Source: T5X
/// `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.models.MoeEncoderDecoderModel")]
pub struct MoeEncoderDecoderModel {
    /// Parameters of the model without experts.
    #[gin(flatten)]
    pub shared: EncoderDecoderParameters,
    /// Weights of the losses of routers.
    #[gin(flatten)]
    pub routing: RoutingLossFactors,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictWithExperts,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreBatch,
}

/// Options of decoding a batch. Source: T5X `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.contrib.moe.models.MoeEncoderDecoderModel.predict_batch_with_aux",
    ignored(decoder_params = "bind the decoding function's own parameters")
)]
pub struct PredictWithExperts {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Beams, or samples, per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
    /// Whether sequences begin with the targets, for completing them.
    #[gin(default = false)]
    pub prompt_with_targets: bool,
}

impl MoeEncoderDecoderModel {
    /// The same model without the losses of routers.
    pub fn model(&self) -> EncoderDecoderModel {
        let predict = &self.predict_batch_with_aux;
        EncoderDecoderModel {
            shared: self.shared.clone(),
            bos_id: 0,
            eos_id: None,
            default_decoder_params: None,
            predict_batch_with_aux: PredictBatchWithAux {
                return_all_decodes: Some(predict.return_all_decodes),
                num_decodes: Some(predict.num_decodes),
                prompt_with_targets: predict.prompt_with_targets,
            },
            score_batch: self.score_batch.clone(),
        }
    }
}

impl BaseModel for MoeEncoderDecoderModel {
    as_without_experts!();

    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        vec![("inputs", &self.shared.input_vocabulary), ("targets", &self.shared.output_vocabulary)]
    }

    fn output_vocabulary(&self) -> &VocabularySpec {
        &self.shared.output_vocabulary
    }
}
