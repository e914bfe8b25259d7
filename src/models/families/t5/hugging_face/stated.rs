//! The part of a T5's gin that transformers' `config.json` needs and the arrays of a checkpoint do not show.

use serde_json::{Map, Value, json};

use crate::checkpoint::HuggingFaceOptions;
use crate::models::parts::{Reach, RowsKind};
use crate::models::transformer::{StackSpec, TransformerSpec};
use crate::models::{BaseModel, PredictionSpec};
use crate::nn::Activation;
use crate::vocab::VocabularySpec;

/// Part of the paths of mT5's vocabulary, which distinguishes it from T5: the networks are the same.
const MT5_VOCABULARY: &str = "mc4.250000";

/// Returns the options with which a model is written for transformers.
///
/// # Errors
/// Transformers have no such network: what it has, and the remedy.
pub fn stated(model: &dyn BaseModel) -> Result<HuggingFaceOptions, String> {
    let spec = model.transformer();
    let encoder = encoder(&spec)?;
    let predictions = model.prediction_spec().map_err(|error| error.to_string())?;
    let names = |stack: &StackSpec| -> Vec<String> {
        let names = stack.dims.mlp_activations.iter().map(Activation::as_str);
        names.map(str::to_string).collect()
    };
    let activations = names(encoder);
    if activations != names(&spec.last) {
        return refused("activations in the encoder that are not the decoder's");
    }
    let epsilon = encoder.dims.layer_norm_epsilon;
    if epsilon != spec.last.dims.layer_norm_epsilon {
        return refused("norms in the encoder with another epsilon than the decoder's");
    }
    let ids = [
        ("decoder_start_token_id", json!(predictions.bos_id)),
        // The end token of every T5 is 1, unless the model has its own.
        ("eos_token_id", json!(predictions.prediction(1).eos_id)),
    ];
    let generation: Map<String, Value> =
        ids.into_iter().map(|(key, id)| (key.to_string(), id)).collect();
    let mut config = generation.clone();
    config.insert("layer_norm_epsilon".to_string(), json!(epsilon));
    let radius = encoder.reach.radius();
    let is_long = encoder.reach != Reach::All;
    let is_mt5 = vocabulary_file(&predictions).is_some_and(|file| file.contains(MT5_VOCABULARY))
        && !encoder.position.is_some_and(|position| position.per_layer);
    let model_type = match () {
        () if is_long => Some("longt5"),
        () if is_mt5 && spec.tokens.logits.is_some() => Some("mt5"),
        () => None,
    };
    Ok(HuggingFaceOptions {
        mlp_activations: Some(activations),
        logits_via_embedding: Some(spec.tokens.logits.is_none()),
        num_heads: Some(encoder.dims.num_heads),
        model_type: model_type.map(str::to_string),
        local_radius: radius,
        global_block_size: encoder.reach.tokens_per_block(),
        config,
        generation,
        ..HuggingFaceOptions::default()
    })
}

fn vocabulary_file(predictions: &PredictionSpec) -> Option<&str> {
    match &predictions.vocabulary {
        VocabularySpec::SentencePiece(spec) => Some(&spec.sentencepiece_model_file),
        _ => None,
    }
}

/// Returns the encoder of a network that transformers have.
fn encoder(spec: &TransformerSpec) -> Result<&StackSpec, String> {
    let Some(encoder) = &spec.encoder else {
        return refused("a decoder and no encoder");
    };
    if spec.stacks().any(|stack| stack.sparse.is_some()) {
        return refused("layers of experts");
    }
    if encoder.name == spec.last.name {
        return refused(
            "an encoder that reads the decoder's parameters (tie_encoder_decoder = True)",
        );
    }
    if let Some(rows) = &spec.learned_rows {
        return refused(match rows.kind {
            RowsKind::Memory => "memory tokens (num_memory_tokens)",
            RowsKind::Prompt => "a soft prompt",
        });
    }
    if encoder.dims.style.has_scales {
        return refused("the scales of IA3 (k_conv, v_conv, intermediate_conv)");
    }
    if encoder.dims.num_cdq_heads > 0 {
        return refused("heads whose queries depend on the row (num_cdq_heads)");
    }
    if spec.stacks().any(|stack| stack.dims.adapter_dim.is_some()) {
        return refused("task adapters (adapter_dim)");
    }
    if spec.stacks().any(|stack| stack.dims.scale_attn_logits) {
        return refused(
            "attention scores that are divided by sqrt(head_dim) (scale_attn_logits = True)",
        );
    }
    Ok(encoder)
}

fn refused<T>(what: &str) -> Result<T, String> {
    Err(format!(
        "the model has {what}, and transformers has no such T5: generate and infer with Gimlet, or convert --to t5x"
    ))
}
