//! The `config.gin` of a run whose vocabulary has new pieces.

use super::unfit;
use crate::interactive::InteractiveModel;
use crate::run::checkpoint::Extended;
use crate::run::failure::Failure;
use crate::storage::Path;
use crate::vocab::VocabularySpec;

/// The last parts of the names of bindings that give the number of rows.
const SIZES: [&str; 4] = ["vocab_size", "VOCAB_SIZE", "num_embeddings", "NUM_EMBEDDINGS"];

/// The folder of a run.
const MODEL_DIR: &str = "MODEL_DIR";

/// The break before a long value, as Gimlet writes it.
const CONTINUATION: &str = "\\\n    ";

/// Returns the text of a `config.gin` with the new file of the vocabulary, the new number of rows, and the new MODEL_DIR.
pub(super) fn rewritten(
    text: &str,
    [old_file, file]: [&str; 2],
    extended: &Extended,
    output: &Path,
) -> String {
    let Extended { rows, old_rows } = extended;
    let text = text.replace(CONTINUATION, "");
    let lines = text.lines().map(|line| {
        let line = line.replace(&quoted(old_file), &quoted(file));
        match line.split_once(" = ") {
            Some((MODEL_DIR, _)) => format!("{MODEL_DIR} = {}", quoted(output.as_str())),
            Some((name, value)) if is_size(name) && value == old_rows.to_string() => {
                format!("{name} = {rows}")
            }
            _ => line,
        }
    });
    lines.map(|line| line + "\n").collect()
}

fn is_size(name: &str) -> bool {
    SIZES.contains(&name.rsplit('.').next().unwrap_or(name))
}

fn quoted(text: &str) -> String {
    crate::gin::repr_str(text)
}

/// Checks that a configuration that was written names the new vocabulary and as many rows.
///
/// # Errors
/// It names others.
pub(super) fn verify(
    model: &InteractiveModel,
    vocabulary: Option<&VocabularySpec>,
    rows: usize,
    output: &Path,
) -> Result<(), Failure> {
    let found = model.model.num_ids();
    if found != rows {
        return Err(unfit(format!(
            "the configuration for `{output}` has {found} rows, expected {rows}: no binding of vocab_size or NUM_EMBEDDINGS says \
             their number; add the pieces with the checkpoint in a folder without config.gin and --vocabulary, and bind the size"
        )));
    }
    let Some(vocabulary) = vocabulary else { return Ok(()) };
    let file = vocabulary.file();
    if !model.model.vocabularies().iter().any(|(_, spec)| spec.file() == file) {
        return Err(unfit(format!(
            "the configuration for `{output}` does not name the vocabulary `{}`: its path is not a text of one line; add the pieces \
             with the checkpoint in a folder without config.gin and --vocabulary, and bind the path",
            file.unwrap_or_default()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_line_of_their_own_are_rewritten_too() {
        let text = "MODEL_DIR = \\\n    'old'\nVOCAB = \\\n    'a.model'\nnetwork.T5Config.vocab_size = 128\n";
        let extended = Extended { rows: 256, old_rows: 128 };
        let output = Path::parse("new").expect("it is a path");
        let found = rewritten(text, ["a.model", "new/a.model"], &extended, &output);
        let expected =
            "MODEL_DIR = 'new'\nVOCAB = 'new/a.model'\nnetwork.T5Config.vocab_size = 256\n";
        assert_eq!(found, expected);
    }
}
