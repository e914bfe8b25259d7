//! New pieces at the end of a WordPiece list, in `vocab.txt` and in the `tokenizer.json` beside it.

use serde_json::{Value, json};

use super::transformers::{PIECES, TOKENIZER, is_tokenizer, read as read_tokenizer};
use crate::VocabError;
use crate::more_pieces::NamedFiles;
use gimlet_storage::Path;

/// The files of a folder of transformers that are copied as they are.
const COPIED: [&str; 3] = ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"];

/// Returns the files with new pieces, and the id of the first: a list alone if it is named like none of transformers.
pub(in super::super) fn with_pieces(
    file: &Path,
    pieces: &[&str],
) -> Result<(NamedFiles, usize), VocabError> {
    let is_of_transformers = [PIECES, TOKENIZER].contains(&file.file_name());
    let names = if is_of_transformers { vec![PIECES, TOKENIZER] } else { vec![file.file_name()] };
    let mut files = NamedFiles::new();
    let mut first = 0;
    for name in names {
        let place = file.folder().join(name);
        if place.as_str() != file.as_str() && !place.exists()? {
            continue;
        }
        let (bytes, count) = match is_tokenizer(&place) {
            true => in_json(&place, pieces)?,
            false => in_list(&place, pieces)?,
        };
        if place.as_str() == file.as_str() {
            first = count;
        }
        files.push((name.to_string(), bytes));
    }
    for name in COPIED.iter().filter(|_| is_of_transformers) {
        match file.folder().join(name).read() {
            Ok(bytes) => files.push((name.to_string(), bytes)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((files, first))
}

/// Returns a list with more lines, and the number of those that it had.
fn in_list(file: &Path, pieces: &[&str]) -> Result<(Vec<u8>, usize), VocabError> {
    let mut text = String::from_utf8(file.read()?).map_err(|_| VocabError::WordPiece {
        path: file.to_string(),
        reason: "it is not text in UTF-8".to_string(),
    })?;
    let count = text.lines().count();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    pieces.iter().for_each(|piece| text.extend([piece, "\n"]));
    Ok((text.into_bytes(), count))
}

/// Returns a `tokenizer.json` with more pieces, and the number of those that it had.
fn in_json(file: &Path, pieces: &[&str]) -> Result<(Vec<u8>, usize), VocabError> {
    let mut tokenizer = read_tokenizer(file)?;
    let Some(Value::Object(ids)) = tokenizer.pointer_mut("/model/vocab") else {
        return Err(VocabError::HuggingFace {
            path: file.to_string(),
            reason: "it has no /model/vocab, expected pieces with ids".to_string(),
        });
    };
    let count = ids.len();
    ids.extend((count..).zip(pieces).map(|(id, piece)| (piece.to_string(), json!(id))));
    let mut text = serde_json::to_vec_pretty(&tokenizer).expect("plain data becomes JSON");
    text.push(b'\n');
    Ok((text, count))
}
