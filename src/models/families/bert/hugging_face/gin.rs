//! A BERT of transformers as gin: its `config.json` gives the dimensions, the files beside it the vocabulary.

use serde::Deserialize;

use super::config::Config;
use crate::checkpoint::HuggingFaceConfig;
use crate::storage::Path;

/// The list of pieces, one a line.
const PIECES: &str = "vocab.txt";
/// The piece that stands for a masked token.
const MASK: &str = "[MASK]";

/// The entries of `tokenizer_config.json` that change ids.
#[derive(Debug, Default, Deserialize)]
struct Tokenizer {
    do_lower_case: Option<bool>,
}

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
         {}\n\
         bert.BertConfig.dtype = '{}'\n\
         {}",
        network.join("\n"),
        config.dtype()?,
        vocabulary(&file.file.folder())?,
    ))
}

/// Returns the lines that bind VOCABULARY and MASK_ID. A folder without a list of pieces leaves them to the user.
fn vocabulary(folder: &Path) -> Result<String, String> {
    let file = folder.join(PIECES);
    let text = match file.read() {
        Ok(bytes) => {
            String::from_utf8(bytes).map_err(|_| format!("{file} is not text in UTF-8"))?
        }
        Err(error) if error.is_not_found() => {
            return Ok(format!(
                "VOCABULARY = %gin.REQUIRED  # there is no {PIECES} in {folder}: copy the model's there\n"
            ));
        }
        Err(error) => return Err(error.to_string()),
    };
    let mask = text.lines().position(|piece| piece.trim_end_matches('\r') == MASK);
    let mask =
        mask.ok_or_else(|| format!("{file} has no piece {MASK}, expected one for masked tokens"))?;
    let config = folder.join("tokenizer_config.json");
    let tokenizer = match config.read() {
        Ok(bytes) => serde_json::from_slice::<Tokenizer>(&bytes)
            .map_err(|error| format!("{config} cannot be read: {error}"))?,
        Err(error) if error.is_not_found() => Tokenizer::default(),
        Err(error) => return Err(error.to_string()),
    };
    let lower_case = if tokenizer.do_lower_case.unwrap_or(true) { "True" } else { "False" };
    let file = serde_json::to_string(file.as_str()).expect("a text becomes JSON");
    Ok(format!(
        "VOCABULARY = @seqio.BertWordPieceVocabulary()\n\
         seqio.BertWordPieceVocabulary:\n  vocab_lookup_table = {file}\n  lower_case = {lower_case}\n\
         MASK_ID = {mask}\n"
    ))
}
