//! The `config.json` beside weights: how their tensors are read, and the facts of the network that tensors do not show.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::config_keys::check_config_keys;
use super::generation_keys::{GENERATION_KEYS, changing_keys, generation_fields};
use super::{Foreign, RawTensors};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::hugging_face_keys::check_keys;
use crate::names::hugging_face::activations::mlp_activations;
use crate::names::hugging_face::{Traits, entries};
use gimlet_storage::Path;

/// The name of the file.
const CONFIG: &str = "config.json";

/// The facts of a `config.json` that change results, and that no tensor shows.
#[derive(Clone, Debug, Deserialize)]
pub struct HuggingFaceConfig {
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
    eos_token_id: Option<Value>,
    #[serde(skip)]
    keys: Map<String, Value>,
}

impl HuggingFaceConfig {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// It is not the file of a T5: what was found, and what was expected.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        let keys: Map<String, Value> = serde_json::from_slice(text)?;
        let config = serde_json::from_value(Value::Object(keys.clone()))?;
        Ok(Self { keys, ..config })
    }

    /// Reads the file that belongs to a folder or a file of weights, if there is one, and returns its place too.
    ///
    /// # Errors
    /// The file cannot be read, or is not that of a T5.
    pub fn beside(weights: &Path) -> Result<Option<(Path, Self)>, CheckpointError> {
        let folder = if weights.is_dir()? { weights.clone() } else { weights.folder() };
        let file = folder.join(CONFIG);
        Ok(read_config(&file)?.map(|config| (file, config)))
    }

    /// Checks every key, and returns a warning about those that are not known.
    ///
    /// # Errors
    /// A value would change results and cannot be used: the file, the key, the value, and the reason.
    pub fn check_keys(&self, file: &Path) -> Result<Option<String>, String> {
        check_config_keys(file, &self.keys)
    }

    /// Warns of the keys of the file, and of those of the `generation_config.json` beside it, that are not known. Values that
    /// are refused are told by the commands that run the model.
    fn warn_of_unknown_keys(&self, file: &Path) {
        let of_generation = || {
            let (place, fields) = generation_fields(file, &self.keys).ok()?;
            check_keys(&place, &fields, &[GENERATION_KEYS]).ok()?
        };
        let notices = [self.check_keys(file).ok().flatten(), of_generation()];
        notices.iter().flatten().for_each(|notice| gimlet_telemetry::warn_once(notice));
    }

    /// Returns a warning about the parameters of decoding beside the weights, for a model that decodes in another way until
    /// one of `ends`.
    pub fn unused_decoding(&self, file: &Path, ends: &[i64]) -> Option<String> {
        let (place, fields) = generation_fields(file, &self.keys).ok()?;
        let keys = changing_keys(&fields, ends);
        (!keys.is_empty()).then(|| {
            format!(
                "{place} is not used: the model decodes as its gin says, without {} of this file; \
                 --gin_file={file} decodes with them",
                gimlet_telemetry::quoted_names(&keys, 8)
            )
        })
    }

    /// The activations of feed-forward blocks, by T5X's names.
    ///
    /// # Errors
    /// T5X has no such block: the value, and the expected ones.
    pub fn mlp_activations(&self) -> Result<Vec<&'static str>, String> {
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

    /// The addend of the mean square in norms.
    pub fn layer_norm_epsilon(&self) -> f64 {
        self.layer_norm_epsilon.unwrap_or(1e-6)
    }

    /// The id that the decoder reads before a sequence.
    pub fn bos_id(&self) -> i32 {
        self.decoder_start_token_id.or(self.bos_token_id).unwrap_or(0)
    }

    /// The ids that end a decoded sequence, if the file says some.
    ///
    /// # Errors
    /// It says something else: what was found, and what was expected.
    pub fn eos_ids(&self) -> Result<Vec<i64>, String> {
        let Some(found) = &self.eos_token_id else { return Ok(Vec::new()) };
        let ids = found.as_array().map_or(std::slice::from_ref(found), Vec::as_slice);
        ids.iter()
            .map(Value::as_i64)
            .collect::<Option<_>>()
            .ok_or_else(|| format!("`eos_token_id` is {found}, expected an id or a list of ids"))
    }

    fn is_one_of(&self, families: &[&str]) -> bool {
        families.contains(&self.model_type.as_deref().unwrap_or("t5"))
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

    fn traits(&self, path: &Path) -> Result<Traits, CheckpointError> {
        let model_type = self.model_type.as_deref().unwrap_or("t5");
        if !self.is_one_of(&["t5", "mt5", "umt5", "longt5"]) {
            return Err(CheckpointError::Unsupported {
                path: path.to_string(),
                reason: format!(
                    "its config.json has model_type `{model_type}`, expected t5, mt5, umt5 or longt5"
                ),
            });
        }
        Ok(Traits {
            // Transformers 5 calls every T5 tied, but ties a head to an embedding only if both are equal.
            is_untied: self.tie_word_embeddings == Some(false),
            divides: Some(self.divides()),
            bias_per_layer: Some(model_type == "umt5"),
        })
    }
}

/// Number of bytes of two tensors that are compared at a time.
const COMPARED_BYTES: usize = 1 << 20;

/// Opens the tensors of one or several files in `dir` under their mapped names.
pub(super) fn with_config(
    path: &Path,
    dir: &Path,
    format: Format,
    raw: Box<dyn RawTensors>,
) -> Result<Foreign, CheckpointError> {
    let file = dir.join(CONFIG);
    let traits = match read_config(&file)? {
        Some(config) => {
            config.warn_of_unknown_keys(&file);
            config.traits(path)?
        }
        None => Traits::default(),
    };
    if raw.tensors().is_empty() {
        let (path, reason) = (path.to_string(), "it holds no tensors".to_string());
        return Err(CheckpointError::NotACheckpoint { path, reason });
    }
    let is_same =
        |name: &str, other: &str| raw.is_same(name, other) || are_equal(&*raw, name, other);
    let entries = entries(raw.tensors(), raw.layout(), traits, &is_same);
    Ok(Foreign::new(path, format, raw, entries))
}

/// Whether two tensors hold the same values; a tensor that cannot be read equals no other.
fn are_equal(raw: &dyn RawTensors, name: &str, other: &str) -> bool {
    let info = &raw.tensors()[name];
    if *info != raw.tensors()[other] {
        return false;
    }
    let num_rows = info.shape.first().copied().unwrap_or(1);
    let step = (COMPARED_BYTES / info.row_bytes().max(1)).max(1);
    (0..num_rows).step_by(step).all(|start| {
        let rows = start..(start + step).min(num_rows);
        let read = |name: &str| raw.read_rows(name, rows.clone()).ok();
        read(name).is_some_and(|bytes| read(other) == Some(bytes))
    })
}

fn read_config(file: &Path) -> Result<Option<HuggingFaceConfig>, CheckpointError> {
    let text = match file.read() {
        Err(error) if error.is_not_found() => return Ok(None),
        text => text?,
    };
    let config = HuggingFaceConfig::parse(&text);
    config.map(Some).map_err(|error| match error.is_data() {
        true => CheckpointError::Unsupported { path: file.to_string(), reason: error.to_string() },
        false => CheckpointError::damaged(file, error.to_string()),
    })
}
