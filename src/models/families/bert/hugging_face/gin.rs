//! A BERT of transformers as gin: its `config.json` gives the dimensions, the files beside it the vocabulary.

use super::FAMILY;
use super::config::Config;
use crate::checkpoint::{HuggingFaceConfig, open};
use crate::storage::Path;
use crate::vocab::bert_folds_case;

/// The list of pieces, one a line.
const PIECES: &str = "vocab.txt";
/// The array of the head for the order of two texts.
const ORDER: &str = "target/classes/kernel";

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
    Ok(format!(
        "import bert\n\
         import seqio\n\n\
         include \"gimlet/bert/model.gin\"\n\n\
         MODEL = @bert.{}()\n\
         {}\n\
         bert.BertConfig.dtype = '{}'\n\
         {}",
        model(&file.file.folder())?,
        network.join("\n"),
        config.dtype()?,
        vocabulary(&file.file.folder())?,
    ))
}

/// Returns the model that has the arrays of a folder. Only one whose data have the order of two texts reads that head.
fn model(folder: &Path) -> Result<&'static str, String> {
    let stored = open(folder, &[&FAMILY]).map_err(|error| error.to_string())?;
    let has_order = stored.leaves().iter().any(|leaf| leaf.name == ORDER);
    Ok(if has_order { "BertForPreTraining" } else { "BertForMaskedLM" })
}

/// Returns the lines that bind VOCABULARY. A folder without a list of pieces leaves it to the user.
fn vocabulary(folder: &Path) -> Result<String, String> {
    let file = folder.join(PIECES);
    if !file.exists().map_err(|error| error.to_string())? {
        return Ok(format!(
            "VOCABULARY = %gin.REQUIRED  # there is no {PIECES} in {folder}: copy the model's there\n"
        ));
    }
    let folds_case = bert_folds_case(folder).map_err(|error| error.to_string())?;
    let lower_case = if folds_case { "True" } else { "False" };
    let file = serde_json::to_string(file.as_str()).expect("a text becomes JSON");
    Ok(format!(
        "VOCABULARY = @seqio.BertWordPieceVocabulary()\n\
         seqio.BertWordPieceVocabulary:\n  vocab_lookup_table = {file}\n  lower_case = {lower_case}\n"
    ))
}
