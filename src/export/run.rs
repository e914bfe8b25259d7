//! Writes the folder of an export.

use serde_json::{Map, Value, json};

use crate::checkpoint::{DType, Format, HuggingFaceOptions, Stored, Weights, export_hugging_face};
use crate::models::decoding::DecodeFn;
use crate::models::{HUGGING_FACE, PredictionSpec, open};
use crate::session::check::UnfitSpec;
use crate::session::error::SessionError;
use crate::storage::Path;
use crate::telemetry;

use super::check::{check, checkpoint};
use super::functions::WarmupWriter;
use super::spec::{Save, WarmupExample};
use super::vocabulary::state_vocabulary;

/// The file of warm-up examples.
const WARMUP: &str = "warmup_examples.json";

/// Writes the folder, and returns its path. The weights become visible last.
///
/// # Errors
/// The checkpoint does not hold a T5, the folder holds a model already, reading or writing fails.
pub fn export(spec: &Save) -> Result<Path, SessionError> {
    check(spec)?;
    let from = open(&checkpoint(spec)?)?;
    telemetry::notice(&format!("taking {}", from.path()));
    let to = Path::parse(&spec.output_dir.0)?;
    let options = options(spec, &*from)?;
    let is_there = to.join(options.weights.file_name()).exists()?;
    if let (Some(examples), false) = (&spec.warmup_examples, is_there) {
        to.create_dir_all()?;
        let request = warmup_request(spec, examples);
        to.join(WARMUP).write_atomic(format!("{request:#}\n").as_bytes())?;
    }
    export_hugging_face(&*from, &to, &options, HUGGING_FACE)?;
    Ok(to)
}

fn options(spec: &Save, from: &dyn Stored) -> Result<HuggingFaceOptions, SessionError> {
    let mut options = HuggingFaceOptions {
        weights: Weights::Safetensors,
        dtype: spec.restore_checkpoint_cfg.dtype.map(DType::from),
        folder: (from.format() == Format::HuggingFace).then(|| from.path().clone()),
        without_tokenizer: spec.tokenized_inputs,
        ..spec.model.hugging_face().map_err(UnfitSpec)?
    };
    let predictions = spec.model.prediction_spec()?;
    options.generation.extend(generation(spec, &predictions));
    if !spec.tokenized_inputs {
        state_vocabulary(&predictions, &mut options)?;
    }
    Ok(options)
}

/// Returns the decoding under transformers' names. Their beam search normalizes scores by another function of the length
/// than T5X's, which has no counterpart.
fn generation(spec: &Save, predictions: &PredictionSpec) -> Map<String, Value> {
    // The end token's id is in the configuration already.
    let prediction = predictions.prediction(1);
    let mut out = Map::new();
    if let Some(length) = spec.task_feature_lengths.get("targets") {
        let length = longest(&prediction.decode_fn).map_or(*length, |limit| limit.min(*length));
        // Their lengths count the padding with which decoding starts.
        out.insert("max_length".to_string(), json!(length + 1));
    }
    let num_returned = if predictions.returns_all_decodes { prediction.num_decodes } else { 1 };
    let decoding = match &prediction.decode_fn {
        DecodeFn::Generate(own) => {
            out.extend(own.fields());
            return out;
        }
        DecodeFn::BeamSearch(_) => vec![("num_beams", json!(prediction.num_decodes))],
        DecodeFn::TemperatureSample(sample) if sample.topk == 1 || sample.temperature <= 1e-4 => {
            vec![("do_sample", json!(false))]
        }
        DecodeFn::TemperatureSample(sample) => {
            let topp = if sample.topp == 0.0 { 1.0 } else { sample.topp };
            vec![
                ("do_sample", json!(true)),
                ("temperature", json!(sample.temperature)),
                ("top_k", json!(sample.topk)),
                ("top_p", json!(topp)),
            ]
        }
    };
    out.extend(decoding.into_iter().map(|(name, value)| (name.to_string(), value)));
    out.insert("num_return_sequences".to_string(), json!(num_returned));
    out
}

/// The greatest number of tokens to which a function of T5X is bound.
fn longest(decode_fn: &DecodeFn) -> Option<usize> {
    match decode_fn {
        DecodeFn::BeamSearch(search) => search.max_decode_len,
        DecodeFn::TemperatureSample(sample) => sample.check(usize::MAX).ok().flatten(),
        DecodeFn::Generate(_) => None,
    }
}

/// Returns the request that T5X writes for TensorFlow's server, as JSON.
fn warmup_request(spec: &Save, examples: &[WarmupExample]) -> Value {
    let WarmupWriter::Own(writer) = &spec.write_warmup_example_fn.0;
    let value = |example: &WarmupExample| match example {
        WarmupExample::Text(text) => json!(text),
        WarmupExample::Tokens(tokens) => json!(tokens),
    };
    let count = spec.batch_size.unwrap_or(examples.len());
    let batch: Vec<Value> = examples.iter().map(value).cycle().take(count).collect();
    let mut inputs = Map::new();
    inputs.insert(writer.input_tensor_name.clone(), json!(batch));
    json!([{
        "model_spec": {"name": spec.model_name, "signature_name": spec.signature_name},
        "inputs": inputs,
    }])
}
