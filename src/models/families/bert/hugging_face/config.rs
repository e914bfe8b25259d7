//! The `config.json` of a BERT.

use serde::Deserialize;

use crate::checkpoint::{ConfigFacts, HuggingFaceConfig};
use crate::models::hugging_face::mlp_activations;

/// The entries that describe the network, with the values that transformers take for those that are missing.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    #[serde(default = "vocab_size")]
    pub vocab_size: usize,
    #[serde(default = "hidden_size")]
    pub hidden_size: usize,
    #[serde(default = "layers")]
    pub num_hidden_layers: usize,
    #[serde(default = "layers")]
    pub num_attention_heads: usize,
    #[serde(default = "intermediate_size")]
    pub intermediate_size: usize,
    #[serde(default = "hidden_act")]
    hidden_act: String,
    #[serde(default = "dropout")]
    pub hidden_dropout_prob: f64,
    #[serde(default = "dropout")]
    pub attention_probs_dropout_prob: f64,
    #[serde(default = "positions")]
    pub max_position_embeddings: usize,
    #[serde(default = "types")]
    pub type_vocab_size: usize,
    #[serde(default = "range")]
    pub initializer_range: f64,
    #[serde(default = "epsilon")]
    pub layer_norm_eps: f64,
    position_embedding_type: Option<String>,
    rotary_base: Option<f64>,
    rotary_dim: Option<usize>,
    relative_attention_num_buckets: Option<usize>,
    relative_last_bucket_distance: Option<usize>,
    #[serde(default)]
    pub pre_layer_norm: bool,
    pub last_layer_norm: Option<bool>,
    dtype: Option<String>,
    /// The older name of `dtype`.
    torch_dtype: Option<String>,
}

fn vocab_size() -> usize {
    30_522
}

fn hidden_size() -> usize {
    768
}

fn layers() -> usize {
    12
}

fn intermediate_size() -> usize {
    3072
}

fn hidden_act() -> String {
    "gelu".to_string()
}

fn dropout() -> f64 {
    0.1
}

fn positions() -> usize {
    512
}

fn types() -> usize {
    2
}

fn range() -> f64 {
    0.02
}

fn epsilon() -> f64 {
    1e-12
}

impl Config {
    /// Reads the entries.
    ///
    /// # Errors
    /// One has another type.
    pub(super) fn of(file: &HuggingFaceConfig) -> Result<Self, String> {
        let unfit = |error| format!("it is not the config.json of a BERT: {error}");
        file.fields().map_err(unfit)
    }

    /// Returns T5X's name of the activation.
    ///
    /// # Errors
    /// There is no such activation here.
    pub(super) fn activation(&self) -> Result<&'static str, String> {
        let found = mlp_activations(&self.hidden_act);
        let found = found.map_err(|error| error.replace("feed_forward_proj", "hidden_act"))?;
        match found[..] {
            [activation] => Ok(activation),
            _ => Err(format!("its hidden_act is `{}`, expected one function", self.hidden_act)),
        }
    }

    /// Returns the lines that bind the positions: a reference, and the parameters of what it names.
    ///
    /// # Errors
    /// There are no such positions here.
    pub(super) fn positions(&self) -> Result<(&'static str, String), String> {
        let bound = |name: &str, value: Option<String>| {
            value.map(|value| format!("  {name} = {value}\n")).unwrap_or_default()
        };
        match self.position_embedding_type.as_deref().unwrap_or("absolute") {
            "absolute" => Ok(("@bert.absolute()", String::new())),
            "rotary" => {
                let base = self.rotary_base.ok_or(
                    "its position_embedding_type is `rotary`, which needs a rotary_base, such as 10000: t5-experiments \
                     cannot start without one either",
                )?;
                let dim = bound("dim", self.rotary_dim.map(|dim| dim.to_string()));
                Ok(("@bert.rotary()", format!("bert.rotary:\n  base = {base:?}\n{dim}")))
            }
            "relative_attention_bias" => {
                let lines = [
                    bound(
                        "num_buckets",
                        self.relative_attention_num_buckets.map(|n| n.to_string()),
                    ),
                    bound(
                        "last_bucket_distance",
                        self.relative_last_bucket_distance.map(|n| n.to_string()),
                    ),
                ]
                .concat();
                let block = match lines.is_empty() {
                    true => lines,
                    false => format!("bert.relative_attention_bias:\n{lines}"),
                };
                Ok(("@bert.relative_attention_bias()", block))
            }
            other => Err(format!(
                "its position_embedding_type is `{other}`, expected absolute, rotary or relative_attention_bias: \
                 `relative_key` and `relative_key_query` crash in t5-experiments, and transformers removed them"
            )),
        }
    }

    /// Returns the format of activations.
    ///
    /// # Errors
    /// There is no such format here.
    pub(super) fn dtype(&self) -> Result<&'static str, String> {
        match self.dtype.as_deref().or(self.torch_dtype.as_deref()).unwrap_or("float32") {
            "float32" => Ok("float32"),
            // Weights in half precision are widened; float16 has no activations here.
            "bfloat16" | "float16" => Ok("bfloat16"),
            other => Err(format!("its dtype is `{other}`, expected float32, bfloat16 or float16")),
        }
    }
}

/// Returns the facts of the network that no tensor shows.
///
/// # Errors
/// No model here has them.
pub(super) fn facts(file: &HuggingFaceConfig) -> Result<ConfigFacts, String> {
    let config = Config::of(file)?;
    Ok(ConfigFacts {
        mlp_activations: vec![config.activation()?],
        layer_norm_epsilon: config.layer_norm_eps,
        bos_id: 0,
    })
}
