//! The pieces that come into a vocabulary, and the reasons why some cannot.

use std::collections::HashMap;

use anyhow::anyhow;

use crate::run::checkpoint::{parse_path, storage_failure};
use crate::run::failure::Failure;
use crate::vocab::Vocabulary;

/// A piece, and the place where it was given.
pub(super) struct NewPiece {
    pub text: String,
    pub place: String,
}

impl NewPiece {
    fn refused(&self, reason: &str) -> Failure {
        Failure::usage(anyhow!("{}: the piece `{}` {reason}", self.place, self.text))
    }
}

/// Returns the pieces of the command line, or those of a file.
///
/// # Errors
/// The file cannot be read; a piece is empty, has line breaks, or is given twice.
pub(super) fn given(file: Option<&str>, words: &[String]) -> Result<Vec<NewPiece>, Failure> {
    let pieces: Vec<NewPiece> = match file {
        Some(file) => {
            let text = parse_path(file)?.read_to_string().map_err(storage_failure)?;
            let place = |line: usize| format!("{file}:{line}");
            let lines = text.lines().zip(1..);
            lines.map(|(line, at)| NewPiece { text: line.to_string(), place: place(at) }).collect()
        }
        None => {
            let place = |at: usize| format!("PIECE {at}");
            let words = words.iter().zip(1..);
            words.map(|(word, at)| NewPiece { text: word.clone(), place: place(at) }).collect()
        }
    };
    if let (true, Some(file)) = (pieces.is_empty(), file) {
        return Err(Failure::usage(anyhow!("{file}: it is empty, expected a piece in each line")));
    }
    let mut places: HashMap<&str, &str> = HashMap::new();
    for piece in &pieces {
        if piece.text.is_empty() {
            return Err(Failure::usage(anyhow!(
                "{}: the piece is empty, expected a text",
                piece.place
            )));
        }
        if piece.text.contains(['\n', '\r']) {
            return Err(piece.refused("has a line break, expected one line"));
        }
        if let Some(first) = places.insert(&piece.text, &piece.place) {
            return Err(piece.refused(&format!("is that of {first}, expected each piece once")));
        }
    }
    Ok(pieces)
}

/// Returns the id of a piece.
pub(super) fn id_of(piece: &str, vocabulary: &dyn Vocabulary) -> Result<usize, Failure> {
    ids(vocabulary).find(|id| vocabulary.piece(*id) == piece).map(|id| id as usize).ok_or_else(|| {
        Failure::usage(anyhow!(
            "--like: `{piece}` is no piece of {}, which cuts it into {}; expected a single piece, as `gimlet vocab show` \
             prints it",
            vocabulary.name(),
            cut(vocabulary, piece)
        ))
    })
}

/// Checks that the vocabulary has none of the pieces yet.
///
/// # Errors
/// It has one, with its id.
pub(super) fn check_new(pieces: &[NewPiece], vocabulary: &dyn Vocabulary) -> Result<(), Failure> {
    let known: HashMap<String, i32> =
        ids(vocabulary).map(|id| (vocabulary.piece(id), id)).collect();
    for piece in pieces {
        // SeqIO's sentinels have a space before them.
        let sentinel = Some(format!("▁{}", piece.text)).filter(|text| text.contains("<extra_id_"));
        let found = known.get(&piece.text).or_else(|| known.get(&sentinel?));
        if let Some(id) = found {
            let name = vocabulary.name();
            return Err(piece.refused(&format!("has the id {id} in {name} already; leave it out")));
        }
    }
    Ok(())
}

/// Checks that the new vocabulary finds the pieces in texts, and has every old piece.
///
/// # Errors
/// It cuts a piece into others, or changes it before it is looked for.
///
/// # Panics
/// An old piece has another id than it should.
pub(super) fn check_known(
    pieces: &[NewPiece],
    first: usize,
    old: &dyn Vocabulary,
    new: &dyn Vocabulary,
) -> Result<(), Failure> {
    for id in ids(old) {
        let now = if (id as usize) < first { id } else { id + pieces.len() as i32 };
        assert_eq!(new.piece(now), old.piece(id), "the piece {id} of {} is {now}", old.name());
    }
    for (piece, id) in pieces.iter().zip(first as i32..) {
        let text = new.piece(id);
        if text != piece.text {
            return Err(piece.refused(&format!(
                "becomes `{text}` when texts are normalized, and every `{text}` would be this piece; expected normalized text"
            )));
        }
        // A piece that continues a word is found in none alone.
        let is_continuing = piece.text.starts_with("##");
        let is_own = |found: &&i32| **found == id;
        let is_space = |found: &i32| new.piece(*found) == "▁";
        let cut_into = new.encode(&piece.text);
        let own = cut_into.iter().filter(is_own).count();
        let others = cut_into.iter().filter(|found| **found != id);
        if !is_continuing && (own != 1 || !others.into_iter().all(is_space)) {
            return Err(piece.refused(&format!(
                "would never be found in texts: they are normalized and divided first, and `{}` is then {}; expected one word \
                 as the vocabulary writes it, without spaces, and in lower case where it folds case",
                piece.text,
                cut(new, &piece.text)
            )));
        }
    }
    Ok(())
}

fn ids(vocabulary: &dyn Vocabulary) -> std::ops::Range<i32> {
    0..i32::try_from(vocabulary.vocab_size()).unwrap_or(i32::MAX)
}

/// Shows the pieces of a text.
fn cut(vocabulary: &dyn Vocabulary, text: &str) -> String {
    let pieces =
        vocabulary.encode(text).into_iter().map(|id| format!("`{}`", vocabulary.piece(id)));
    pieces.collect::<Vec<_>>().join(" ")
}
