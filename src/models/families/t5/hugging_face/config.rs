//! The facts of a T5's `config.json` that no tensor shows.

use serde::Deserialize;

use crate::checkpoint::{ConfigFacts, HeadFacts, HuggingFaceConfig};
use crate::models::hugging_face::mlp_activations;

/// The entries that say them.
#[derive(Debug, Deserialize)]
struct Fields {
    model_type: Option<String>,
    transformers_version: Option<String>,
    tie_word_embeddings: Option<bool>,
    /// Whether the decoder's result is divided before the head. Transformers 5 writes it, and calls every T5 tied.
    scale_decoder_outputs: Option<bool>,
    feed_forward_proj: Option<String>,
    /// The function and the kind of feed-forward blocks, which replace those of `feed_forward_proj`.
    dense_act_fn: Option<String>,
    is_gated_act: Option<bool>,
    layer_norm_epsilon: Option<f64>,
    decoder_start_token_id: Option<i32>,
    bos_token_id: Option<i32>,
}

/// Returns the properties of the map to logits.
pub(super) fn head(config: &HuggingFaceConfig) -> Result<HeadFacts, serde_json::Error> {
    let fields: Fields = config.fields()?;
    Ok(HeadFacts {
        // Transformers 5 calls every T5 tied, but ties a head to an embedding only if both are equal.
        is_untied: fields.tie_word_embeddings == Some(false),
        divides: Some(fields.divides()),
    })
}

/// Returns the facts of the network.
pub(super) fn facts(config: &HuggingFaceConfig) -> Result<ConfigFacts, String> {
    let unfit = |error| format!("it is not the config.json of a T5 of transformers: {error}");
    let fields: Fields = config.fields().map_err(unfit)?;
    Ok(ConfigFacts {
        mlp_activations: fields.mlp_activations()?,
        layer_norm_epsilon: fields.layer_norm_epsilon.unwrap_or(1e-6),
        bos_id: fields.decoder_start_token_id.or(fields.bos_token_id).unwrap_or(0),
    })
}

impl Fields {
    fn mlp_activations(&self) -> Result<Vec<&'static str>, String> {
        let default = if self.is_one_of(&["t5", "longt5"]) { "relu" } else { "gated-gelu" };
        let proj = self.feed_forward_proj.as_deref().unwrap_or(default);
        let function = match &self.dense_act_fn {
            Some(function) => mlp_activations(function)
                .map_err(|error| error.replace("feed_forward_proj", "dense_act_fn"))?[0],
            None => mlp_activations(proj)?[0],
        };
        Ok(match self.is_gated_act.unwrap_or_else(|| proj.starts_with("gated-")) {
            true => vec![function, "linear"],
            false => vec![function],
        })
    }

    fn is_one_of(&self, model_types: &[&str]) -> bool {
        model_types.contains(&self.model_type.as_deref().unwrap_or("t5"))
    }

    /// Whether a version 5 of transformers wrote the file.
    fn is_of_version_5(&self) -> bool {
        let major = |version: &String| version.split('.').next()?.parse::<u32>().ok();
        self.transformers_version.as_ref().and_then(major).is_some_and(|major| major >= 5)
    }

    /// Whether the decoder's result is divided by the square root of its width before the head. Source: transformers 5.24,
    /// `modeling_t5.py` and `modeling_mt5.py`, and 4.57 for an mT5 that version 4 wrote.
    fn divides(&self) -> bool {
        match self.is_one_of(&["mt5"]) {
            true => self.tie_word_embeddings == Some(true) && !self.is_of_version_5(),
            false => {
                let is_tied = self.tie_word_embeddings != Some(false);
                self.scale_decoder_outputs.unwrap_or(is_tied)
            }
        }
    }
}
