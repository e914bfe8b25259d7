//! The facts that the `config.json` of a folder of Hugging Face's states about its network and that no array shows,
//! compared with the model that reads the weights: a run that ignores them would get other numbers without a word.

use crate::checkpoint::{CheckpointError, Format, HuggingFaceConfig, HuggingFaceFamily, Stored};
use crate::gin::FromGin;
use crate::models::decoding::{DecodeFn, Prediction};
use crate::models::{HUGGING_FACE, Model};
use crate::nn::Activation;
use crate::storage::Path;
use crate::telemetry;

/// The facts of a model, with the parameters that set them.
pub struct ModelFacts {
    activations: Fact,
    layer_norm_epsilon: (String, f64),
    bos_id: i32,
    /// The tokens that end an answer, unless the model decodes by the parameters of transformers.
    other_ends: Option<Vec<i64>>,
}

/// A parameter and its value as gin prints it.
type Fact = (String, String);

impl ModelFacts {
    /// Returns those of a model.
    pub fn of(model: &Model) -> Self {
        let (network, names) = (model.transformer(), model.dimensions());
        let dims = &network.last.dims;
        let activations: Vec<String> = dims.mlp_activations.iter().map(name).collect();
        let activations: Vec<&str> = activations.iter().map(String::as_str).collect();
        let prediction = model.predicts().map(|predictions| predictions.prediction(1));
        let ends_itself =
            |prediction: &Prediction| !matches!(prediction.decode_fn, DecodeFn::Generate(_));
        Self {
            other_ends: prediction.filter(ends_itself).map(|prediction| prediction.ends()),
            activations: (names.parameter("mlp_activations"), tuple(&activations)),
            layer_norm_epsilon: (names.parameter("layer_norm_epsilon"), dims.layer_norm_epsilon),
            bos_id: model.bos_id(),
        }
    }

    /// Compares them with those of the `config.json` that belongs to a checkpoint, if there is one, and warns of parameters
    /// of decoding beside it that the model does not use.
    ///
    /// # Errors
    /// A fact differs, or the file describes a network that no model has: both values, and a remedy.
    pub fn check(&self, stored: &dyn Stored) -> Result<(), CheckpointError> {
        if !matches!(stored.format(), Format::HuggingFace | Format::Torch) {
            return Ok(());
        }
        let Some(config) = HuggingFaceConfig::beside(stored.path())? else { return Ok(()) };
        let refused =
            |reason| CheckpointError::OtherFacts { path: stored.path().to_string(), reason };
        let family = HuggingFaceFamily::of(&config, HUGGING_FACE).map_err(refused)?;
        family.check_keys(&config).map_err(refused)?;
        let unused = self.other_ends.iter().filter_map(|ends| config.unused_decoding(ends));
        unused.for_each(|notice| telemetry::warn_once(&notice));
        let expected = (family.facts)(&config).map_err(refused)?;
        let (parameter, epsilon) = &self.layer_norm_epsilon;
        let facts = [
            (self.activations.clone(), tuple(&expected.mlp_activations)),
            ((parameter.clone(), epsilon.to_string()), expected.layer_norm_epsilon.to_string()),
            (
                ("models.EncoderDecoderModel.bos_id".to_string(), self.bos_id.to_string()),
                expected.bos_id.to_string(),
            ),
        ];
        let differing = facts.into_iter().filter(|((_, found), expected)| found != expected);
        let rows: Vec<String> = differing
            .map(|((parameter, found), expected)| {
                format!("{parameter} = {expected}, and the run has {found}")
            })
            .collect();
        match rows.is_empty() {
            true => Ok(()),
            false => Err(refused(remedied(&config.file, &rows))),
        }
    }
}

fn remedied(file: &Path, rows: &[String]) -> String {
    format!(
        "{file} stands for {}; bind these values, or read the model from it: --gin_file={file}",
        rows.join("; ")
    )
}

/// The activation's name in gin.
fn name(activation: &Activation) -> String {
    let shown = activation.to_gin().map(|kind| kind.to_string()).unwrap_or_default();
    shown.trim_matches('\'').to_string()
}

/// Names as gin writes a tuple, of two names of a function always the same.
fn tuple(activations: &[&str]) -> String {
    let names = activations.iter().map(|name| if *name == "swish" { "silu" } else { *name });
    Activation::tuple(&names.collect::<Vec<&str>>())
}
