//! The facts of a fine-tuning that its flags do not say: where model, tokenizer and data are.

use crate::dialects::t5_experiments::{
    Arguments, EncoderFamily, Facts, SCROLLS_FOLDER, Tuning, encoder, scrolls_file,
};
use crate::gin::Diagnostic;
use crate::run::failure::Failure;
use crate::storage::Path;

use super::bert::network_and_pieces;
use super::{failure, init_step};

/// Files of a tokenizer of transformers, the first of which counts.
const TOKENIZERS: [&str; 3] = ["tokenizer.json", "tokenizer_config.json", "spiece.model"];

/// Finds the files.
///
/// # Errors
/// A file is missing.
pub(super) fn facts(arguments: &Arguments, num_processes: usize) -> Result<Facts, Failure> {
    data(arguments)?;
    let pretrained = arguments.text("from_pretrained").map(|name| pretrained(arguments, &name));
    let pretrained = pretrained.transpose()?;
    let (mut tokenizer, mut model_config, mut bert) = (None, None, None);
    match (&pretrained, encoder(arguments)) {
        (Some(_), _) => {}
        (None, Some(EncoderFamily::Bert)) => bert = Some(network_and_pieces(arguments)?),
        (None, _) => {
            tokenizer = Some(self::tokenizer(arguments)?);
            model_config = Some(super::model_config(arguments)?);
        }
    }
    let init_step = init_step(arguments)?;
    let tuning = Some(Tuning { pretrained, tokenizer });
    Ok(Facts { num_processes, model_config, shards: Vec::new(), init_step, tuning, bert })
}

/// Returns the folder of a model: one on the disk, else that of its name on the hub.
fn pretrained(arguments: &Arguments, name: &str) -> Result<String, Failure> {
    let folder = arguments.in_working_dir(name.to_string());
    let is_found = exists(&format!("{folder}/config.json"))?;
    Ok(if is_found || folder.contains("://") { folder } else { format!("hf://{name}") })
}

fn tokenizer(arguments: &Arguments) -> Result<String, Failure> {
    let folder = arguments.path("tokenizer").unwrap_or_default();
    for name in TOKENIZERS {
        let file = format!("{folder}/{name}");
        if exists(&file)? {
            return Ok(file);
        }
    }
    let message = format!(
        "`--tokenizer` is `{folder}`, expected a folder with one of {}",
        TOKENIZERS.join(", ")
    );
    Err(failure(vec![Diagnostic::nowhere(message)]))
}

/// Ensures that the files of examples are there.
fn data(arguments: &Arguments) -> Result<(), Failure> {
    let mut mistakes = Vec::new();
    for flag in ["data_path", "valid_data_path", "test_data_path"] {
        let Some(file) = arguments.path(flag) else { continue };
        if !exists(&file)? {
            let message = format!("`--{flag}` is `{file}`, which is missing");
            let help =
                "expected a file of JSON lines with `text` and `label`, which is 'true' or 'false'";
            mistakes.push(Diagnostic::nowhere(message).help(help));
        }
    }
    if let Some(name) = arguments.text("task_name") {
        for split in ["train", "validation"] {
            let file = scrolls_file(arguments, &name, split);
            if !exists(&file)? {
                mistakes.push(missing_of_scrolls(&name, &file));
            }
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(failure(mistakes)) }
}

fn missing_of_scrolls(name: &str, file: &str) -> Diagnostic {
    let message = format!(
        "`--task_name {name}` reads `{file}`, which is missing: expected {SCROLLS_FOLDER}/TASK/train.jsonl and \
         validation.jsonl, whose lines have `id`, `input` and `output`"
    );
    Diagnostic::nowhere(message).help(format!(
        "unpack {name}.zip of the data set {SCROLLS_FOLDER} of the hub there, or name its folder: --path_map \
         {SCROLLS_FOLDER}=FOLDER"
    ))
}

pub(super) fn exists(file: &str) -> Result<bool, Failure> {
    let path = Path::parse(file).map_err(Failure::usage)?;
    path.exists().map_err(Failure::world)
}
