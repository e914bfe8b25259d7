//! An `adapter_config.json`: the kind of an adapter, and the base model that it belongs to.

use serde_json::{Map, Value};

use super::keys::{CHANGES_BASE, LORA, OTHER_BASE, PROMPT_TUNING};
use crate::error::CheckpointError;
use crate::hugging_face_keys::check_keys;
use gimlet_storage::Path;

/// An `adapter_config.json`.
#[derive(Clone, Debug)]
pub struct PeftConfig {
    /// The place of the file.
    pub file: Path,
    /// The adapter.
    pub adapter: Adapter,
    /// The name or path of the base model, as the file has it.
    base: Option<String>,
}

/// An adapter, as far as its arrays do not show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Adapter {
    /// Additions of low rank to kernels.
    Lora {
        /// Width between the two factors.
        rank: usize,
        /// An addition is multiplied by it, and divided by the rank.
        alpha: f64,
        /// Probability that an input is dropped in training.
        dropout_rate: f64,
    },
    /// Learned rows before the encoder's tokens.
    Prompt {
        /// Number of rows.
        length: usize,
    },
}

impl PeftConfig {
    /// The name of the file.
    pub const FILE: &'static str = "adapter_config.json";

    /// Reads the file of a folder.
    ///
    /// # Errors
    /// The file cannot be read, or describes an adapter that is not supported: the key, its value, and the reason.
    pub fn of_folder(folder: &Path) -> Result<Self, CheckpointError> {
        let file = folder.join(Self::FILE);
        let text = file.read()?;
        Self::parse(&file, &text)
            .map_err(|reason| CheckpointError::Unsupported { path: folder.to_string(), reason })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`PeftConfig::of_folder`], the reason alone.
    pub fn parse(file: &Path, text: &[u8]) -> Result<Self, String> {
        let keys: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| format!("{file}: it is not a JSON object: {error}"))?;
        let expected = |key: &str, expected: &str| {
            let found = keys.get(key).unwrap_or(&Value::Null);
            format!("{file}: `{key}` is {found}, expected {expected}")
        };
        let number = |key: &str| keys.get(key).and_then(Value::as_f64);
        let count = |key: &str| {
            let found = keys.get(key).and_then(Value::as_u64).filter(|count| *count > 0);
            found.map(|count| count as usize).ok_or_else(|| expected(key, "a number from 1 on"))
        };
        let (adapter, tables) = match keys.get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {
                let init =
                    keys.get("init_lora_weights").and_then(Value::as_str).unwrap_or_default();
                if CHANGES_BASE.iter().any(|kind| init.starts_with(kind)) {
                    return Err(expected("init_lora_weights", &format!("true: {OTHER_BASE}")));
                }
                let rank = count("r")?;
                let alpha =
                    number("lora_alpha").ok_or_else(|| expected("lora_alpha", "a number"))?;
                // Rank-stabilized LoRA divides by the root of the rank.
                let is_stabilized = keys.get("use_rslora") == Some(&Value::Bool(true));
                let factor = if is_stabilized { (rank as f64).sqrt() } else { 1.0 };
                let dropout_rate = number("lora_dropout").unwrap_or(0.0);
                (Adapter::Lora { rank, alpha: alpha * factor, dropout_rate }, LORA)
            }
            Some("PROMPT_TUNING") => {
                (Adapter::Prompt { length: count("num_virtual_tokens")? }, PROMPT_TUNING)
            }
            _ => return Err(expected("peft_type", "LORA or PROMPT_TUNING")),
        };
        if let Some(notice) = check_keys(file, &keys, tables)? {
            gimlet_telemetry::warn_once(&notice);
        }
        let base = keys.get("base_model_name_or_path").and_then(Value::as_str);
        Ok(Self { file: file.clone(), adapter, base: base.map(str::to_string) })
    }

    /// Returns the folder of the base model: a path, or one from the adapter's own folder on, which comes first if it begins
    /// with a dot, or a name on Hugging Face's hub.
    ///
    /// # Errors
    /// The file names none, or the path is not valid.
    pub fn base(&self) -> Result<Path, CheckpointError> {
        let unsupported =
            |reason| CheckpointError::Unsupported { path: self.file.folder().to_string(), reason };
        let Some(name) = &self.base else {
            return Err(unsupported(format!(
                "`base_model_name_or_path` of {} is null, expected the folder of the base model: write it there",
                self.file
            )));
        };
        let mut places = [Path::parse(name).ok(), Some(self.file.folder().join(name))];
        if name.starts_with('.') {
            places.reverse();
        }
        for found in places.into_iter().flatten() {
            if found.is_dir()? {
                return Ok(found);
            }
        }
        let is_name = !name.contains(':') && !name.starts_with(['/', '.']);
        let hub = is_name.then(|| Path::parse(&format!("hf://{name}")).ok()).flatten();
        hub.or_else(|| Path::parse(name).ok()).ok_or_else(|| {
            unsupported(format!("`base_model_name_or_path` is `{name}`, expected a folder"))
        })
    }
}
