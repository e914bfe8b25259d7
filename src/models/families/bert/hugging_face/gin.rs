//! A BERT of transformers as gin: its `config.json` gives the dimensions, the files beside it the vocabulary.

use super::FAMILY;
use super::config::Config;
use crate::checkpoint::{HuggingFaceConfig, open};
use crate::storage::Path;
use crate::vocab::BertFolder;

/// The arrays of the heads for the order of two texts, and for classes.
const ORDER: &str = "target/classes/kernel";
const CLASSES: &str = "target/classifier/kernel";

/// Returns the statements that bind the network of a file, each with the key from which it follows.
///
/// # Errors
/// No model here has the network.
pub fn network(file: &HuggingFaceConfig) -> Result<Vec<(&'static str, String)>, String> {
    Config::of(file)?.statements()
}

/// Returns the statements that bind the model.
///
/// # Errors
/// No model here has the network, or a file beside it cannot be read.
pub(super) fn gin(file: &HuggingFaceConfig) -> Result<String, String> {
    let config = Config::of(file)?;
    let network: Vec<String> = config.statements()?.into_iter().map(|(_, text)| text).collect();
    let heads = heads(&file.file.folder())?;
    let (wiring, model) = match heads {
        Heads::Classes(count) => ("classifier", config.classes(count)?.join("\n")),
        Heads::MaskedTokens => ("model", "MODEL = @bert.BertForMaskedLM()".to_string()),
        Heads::MaskedTokensAndOrder => ("model", "MODEL = @bert.BertForPreTraining()".to_string()),
    };
    Ok(format!(
        "import bert\n\
         import gimlet\n\n\
         include \"gimlet/bert/{wiring}.gin\"\n\n\
         {model}\n\
         {}\n\
         bert.BertConfig.dtype = '{}'\n\
         {}",
        network.join("\n"),
        config.dtype()?,
        vocabulary(&file.file.folder())?,
    ))
}

/// The heads of the weights in a folder.
enum Heads {
    MaskedTokens,
    MaskedTokensAndOrder,
    Classes(usize),
}

/// Returns the heads whose arrays a folder has. Only a model whose data have the order of two texts reads that head.
fn heads(folder: &Path) -> Result<Heads, String> {
    let stored = open(folder, &[&FAMILY]).map_err(|error| error.to_string())?;
    let leaves = stored.leaves();
    let leaf = |name: &str| leaves.iter().find(|leaf| leaf.name == name);
    Ok(match (leaf(CLASSES), leaf(ORDER)) {
        (Some(classes), _) => Heads::Classes(classes.shape.last().copied().unwrap_or(0)),
        (None, Some(_)) => Heads::MaskedTokensAndOrder,
        (None, None) => Heads::MaskedTokens,
    })
}

/// Returns the lines that bind VOCABULARY. A folder without pieces leaves it to the user.
fn vocabulary(folder: &Path) -> Result<String, String> {
    let Some(BertFolder { pieces, folds_case }) =
        BertFolder::at(folder).map_err(|error| error.to_string())?
    else {
        return Ok(format!(
            "VOCABULARY = %gin.REQUIRED  # there is no vocab.txt and no tokenizer.json in {folder}: copy the model's there\n"
        ));
    };
    let lower_case = if folds_case { "True" } else { "False" };
    let file = serde_json::to_string(pieces.as_str()).expect("a text becomes JSON");
    Ok(format!(
        "VOCABULARY = @gimlet.BertVocabulary()\n\
         gimlet.BertVocabulary:\n  vocab_file = {file}\n  lower_case = {lower_case}\n"
    ))
}
