//! The families of models that transformers have too: the one list for all who read and write their checkpoints, and their
//! `config.json` as gin. `gimlet` reads every file of that name in this way, so that `--gin_file=DIR/config.json` names the model
//! of any command.

use super::adapter::gin_of_adapter;
use crate::checkpoint::{
    self, CheckpointError, Families, HuggingFaceConfig, HuggingFaceFamily, PeftConfig, Stored,
};
use crate::models::families::{bert, t5};
use crate::storage::Path;

/// The families, each with the names of its tensors.
pub const HUGGING_FACE: Families = &[&t5::hugging_face::FAMILY, &bert::hugging_face::FAMILY];

/// Opens a checkpoint of any format, and of Hugging Face's of any family.
///
/// # Errors
/// Those of [`checkpoint::open`].
pub fn open(path: &Path) -> Result<Box<dyn Stored>, CheckpointError> {
    checkpoint::open(path, HUGGING_FACE)
}

/// Returns the gin text that stands for a `config.json`, or an `adapter_config.json` of PEFT.
///
/// # Errors
/// The file describes a model of no family, or an adapter that is not supported, or the folder cannot be read: found, expected,
/// and a remedy.
pub fn gin_of(file: &Path, text: &str) -> Result<String, String> {
    match file.file_name() {
        PeftConfig::FILE => gin_of_adapter(file, text),
        _ => gin_of_model(file, text).map(|(gin, _)| gin),
    }
}

/// Returns the gin text that stands for a `config.json`, and the family of its model.
pub(super) fn gin_of_model(
    file: &Path,
    text: &str,
) -> Result<(String, &'static HuggingFaceFamily), String> {
    let config = HuggingFaceConfig::parse(file, text.as_bytes()).map_err(|error| {
        let names: Vec<&str> = HUGGING_FACE.iter().map(|family| family.name).collect();
        format!("it is not the config.json of {} of transformers: {error}", names.join(" or "))
    })?;
    let family = HuggingFaceFamily::of(&config, HUGGING_FACE)
        .map_err(|other| format!("its model_type is {other}"))?;
    let place = format!("{file}: ");
    let of_key = |error: String| error.strip_prefix(&place).unwrap_or(&error).to_string();
    family.check_keys(&config).map_err(of_key)?;
    let statements = (family.gin)(&config)?;
    let gin = format!("# {file} as gin.\nfrom __gin__ import dynamic_registration\n\n{statements}");
    Ok((gin, family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_families_are_refused_by_name() {
        for (text, part) in [
            (
                r#"{"model_type": "llama", "vocab_size": 3}"#,
                "`llama`, expected t5, mt5, umt5, longt5 or bert",
            ),
            (r#"{"model_type": "t5"}"#, "missing field `vocab_size`"),
            ("{", "not the config.json of a T5"),
        ] {
            let file = Path::parse("hub/config.json").expect("it is a path");
            let said = gin_of(&file, text).expect_err("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }
}
