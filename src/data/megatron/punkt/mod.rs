//! Division of texts into sentences by punkt (Kiss & Strunk 2006), as NLTK 3.9 applies its English model. Source: NLTK
//! `tokenize/punkt.py`.
//!
//! A period, question mark or exclamation mark may end a sentence. The words around it, and the [`Parameters`] of a language,
//! decide whether it does.

mod parameters;
mod tokens;

pub use parameters::Parameters;

use std::ops::Range;

use fancy_regex::Regex;

use self::tokens::{WordCutter, annotate, regex};

/// Marks that may end a sentence.
const MARKS: &[char] = &['.', '?', '!'];
/// Characters that stand for a word after a mark, without spaces before them.
const AFTER: &str = r#")";}]*:@'({[?!"#;
/// Closing marks after the end of a sentence, which belong to it.
const CLOSING: &str = r#"(?m)\A["')\]}]+?(?:\s+|(?=--)|$)"#;

/// The treatment of spaces between sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spaces {
    /// They belong to no sentence.
    Dropped,
    /// They belong to the sentence before them, as with `--keep-newlines` of Megatron's `preprocess_data.py`.
    Kept,
}

/// Divides texts into sentences.
#[derive(Debug)]
pub struct Punkt {
    parameters: Parameters,
    spaces: Spaces,
    closing: Regex,
    words: WordCutter,
}

/// A mark that may end a sentence, with its places in the text.
struct Candidate {
    start: usize,
    end: usize,
    /// The beginning of the word before the mark, where the part of the text begins that decides.
    word: usize,
    /// The end of the part that decides.
    after: usize,
    /// The beginning of the next word, if spaces stand before it.
    next: Option<usize>,
}

impl Punkt {
    /// A splitter by parameters.
    pub fn new(parameters: Parameters, spaces: Spaces) -> Self {
        Self { parameters, spaces, closing: regex(CLOSING), words: WordCutter::new() }
    }

    /// The sentences of a text in their order.
    ///
    /// # Errors
    /// The memory of a regular expression does not suffice for a word.
    pub fn sentences<'a>(&self, text: &'a str) -> Result<Vec<&'a str>, String> {
        let slices = self.slices(text).and_then(|slices| self.realigned(text, slices));
        let slices = slices.map_err(|error| format!("its sentences are not found: {error}"))?;
        Ok(slices.into_iter().map(|slice| &text[slice]).collect())
    }

    /// The ranges of sentences, before closing marks are moved.
    fn slices(&self, text: &str) -> Result<Vec<Range<usize>>, fancy_regex::Error> {
        let mut slices = Vec::new();
        let mut begin = 0;
        for candidate in self.candidates(text) {
            if self.ends_sentence(&text[candidate.word..candidate.after])? {
                slices.push(begin..candidate.end);
                begin = candidate.next.unwrap_or(candidate.end);
            }
        }
        slices.push(begin..text.trim_end().len().max(begin));
        Ok(slices)
    }

    /// The marks that may end a sentence. Of several within a word, such as `acting!!!`, only the last one is.
    fn candidates(&self, text: &str) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        for mark in marks(text, self.spaces) {
            let (last_word, last_end) = found.last().map_or((0, 0), |last| (last.word, last.start));
            let before = &text[last_end..mark.start];
            // A space at the very beginning does not count in the source.
            let space = before.rfind(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
            let word = match space.filter(|at| *at > 0) {
                Some(at) => last_end + at + 1,
                None => last_word,
            };
            if found.last().is_some_and(|last| last.start > word) {
                found.pop();
            }
            found.push(Candidate { word, ..mark });
        }
        found
    }

    /// Whether a sentence ends before the last token of a part of a text.
    fn ends_sentence(&self, part: &str) -> Result<bool, fancy_regex::Error> {
        let tokens = annotate(self.words.tokens(part)?, &self.parameters);
        let Some((_, before)) = tokens.split_last() else { return Ok(false) };
        Ok(before.iter().any(|token| token.ends_sentence))
    }

    /// Moves closing quotes and brackets to the sentence that they close, and drops empty sentences.
    fn realigned(
        &self,
        text: &str,
        slices: Vec<Range<usize>>,
    ) -> Result<Vec<Range<usize>>, fancy_regex::Error> {
        let mut aligned = Vec::new();
        let mut moved = 0;
        for (index, slice) in slices.iter().enumerate() {
            let slice = slice.start + moved..slice.end;
            let next = slices.get(index + 1).map_or(0..0, Range::clone);
            match self.closing.find(&text[next.clone()])? {
                Some(closing) => {
                    aligned.push(slice.start..next.start + closing.as_str().trim_end().len());
                    moved = closing.end();
                }
                None => {
                    moved = 0;
                    if !slice.is_empty() {
                        aligned.push(slice);
                    }
                }
            }
        }
        Ok(aligned)
    }
}

/// The marks with text after them, still without the beginning of the word. With kept spaces only the last one of each word
/// counts, and reaches from the beginning of the word to the end of the spaces.
fn marks(text: &str, spaces: Spaces) -> Vec<Candidate> {
    let mut marks = Vec::new();
    for place in words(text) {
        let word = &text[place.clone()];
        let candidate = |(at, _)| candidate(text, &place, place.start + at, spaces);
        match spaces {
            Spaces::Dropped => marks.extend(word.match_indices(MARKS).filter_map(candidate)),
            Spaces::Kept => marks.extend(word.rmatch_indices(MARKS).find_map(candidate)),
        }
    }
    marks
}

/// The mark at a byte of a word; `None` if it has no text after it that decides.
fn candidate(text: &str, word: &Range<usize>, mark: usize, spaces: Spaces) -> Option<Candidate> {
    let behind = &text[mark + 1..];
    let next = behind.trim_start();
    let (start, rest) = match spaces {
        Spaces::Dropped => (mark, behind),
        Spaces::Kept => (word.start, next),
    };
    let end = text.len() - rest.len();
    let found = |after, next| Some(Candidate { start, end, word: 0, after, next });
    if rest.starts_with(|c| AFTER.contains(c)) {
        return found(end + 1, None);
    }
    if next.is_empty() || (spaces == Spaces::Dropped && next.len() == behind.len()) {
        return None;
    }
    let begin = text.len() - next.len();
    let length = next.find(char::is_whitespace).unwrap_or(next.len());
    found(begin + length, Some(begin))
}

/// The places of the runs of characters that are no spaces.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text[at..].trim_start();
        let begin = text.len() - rest.len();
        at = begin + rest.find(char::is_whitespace).unwrap_or(rest.len());
        (begin < at).then_some(begin..at)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use gimlet_storage::Path;

    const FOLDER: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");

    /// Compared with real NLTK (`punkt_reference.py`).
    #[test]
    fn sentences_are_those_of_nltk_with_the_same_model() {
        let text = std::fs::read_to_string(format!("{FOLDER}/punkt.json")).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        let folder = Path::parse(&format!("{FOLDER}/punkt")).unwrap();
        for (name, spaces) in [("dropped", Spaces::Dropped), ("kept", Spaces::Kept)] {
            let punkt = Punkt::new(Parameters::read(&folder).unwrap(), spaces);
            for case in &cases {
                let expected: Vec<&str> = case[name]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|text| text.as_str().unwrap())
                    .collect();
                let found = punkt.sentences(case["text"].as_str().unwrap()).unwrap();
                assert_eq!(found, expected, "{name}");
            }
        }
    }

    #[test]
    fn english_is_divided_without_a_model() {
        let punkt = Punkt::new(Parameters::english(), Spaces::Dropped);
        let check = |sentences: &[&str]| {
            assert_eq!(punkt.sentences(&sentences.join(" ")).unwrap(), sentences);
        };
        check(&[
            "Dr. Smith paid approx. 3.5 dollars, e.g. to J. R. Jones.",
            "He left at 5 p.m.",
            "The rest stayed.",
        ]);
        check(&["\"Is it so?\"", "She asked.", "(It was.)", "See fig. 3!"]);
        check(&["It ended in 1990.", "Then came 1991... and so on."]);
    }

    /// NLTK's pattern of marks, and Megatron's with the word before and the spaces after them.
    const OF_NLTK: &str = r#"[.?!](?=(?P<after>[)";}\]*:@'({\[?!]|\s+(?P<next>\S+)))"#;
    const OF_MEGATRON: &str = r#"\S*[.?!]\s*(?=(?P<after>[)";}\]*:@'({\[?!]|(?P<next>\S+)))"#;

    #[test]
    fn marks_are_those_of_the_patterns() {
        let letters = [".", "?", "!", " ", "\n", "a", ")", "(", "\u{a0}", "\u{e9}"];
        // All texts of up to five letters.
        let mut texts = vec![String::new()];
        for length in 0..5 {
            let longest: Vec<String> =
                texts.iter().filter(|text| text.chars().count() == length).cloned().collect();
            texts.extend(
                longest.iter().flat_map(|text| letters.map(|letter| text.clone() + letter)),
            );
        }
        for (spaces, pattern) in [(Spaces::Dropped, OF_NLTK), (Spaces::Kept, OF_MEGATRON)] {
            let pattern = regex(pattern);
            for text in &texts {
                let expected: Vec<_> = (pattern.captures_iter(text).map(Result::unwrap))
                    .map(|found| {
                        let mark = found.get(0).unwrap();
                        let next = found.name("next").map(|next| next.start());
                        (mark.start(), mark.end(), found.name("after").unwrap().end(), next)
                    })
                    .collect();
                let found = marks(text, spaces);
                let found: Vec<_> = found
                    .iter()
                    .map(|mark| (mark.start, mark.end, mark.after, mark.next))
                    .collect();
                assert_eq!(found, expected, "{spaces:?} {text:?}");
            }
        }
    }

    #[test]
    fn long_texts_without_spaces_are_divided() {
        for spaces in [Spaces::Dropped, Spaces::Kept] {
            let punkt = Punkt::new(Parameters::english(), spaces);
            for part in ["a", "a.", "!", ")", "?)", "-", "1,", ". "] {
                let text = format!("It was {}. It ended. So did he.", part.repeat(100_000));
                let sentences = punkt.sentences(&text).unwrap();
                assert_eq!(sentences.last(), Some(&"So did he."), "{part}");
            }
        }
    }

    #[test]
    fn a_folder_without_a_model_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = Path::try_from(folder.path()).unwrap();
        let error = Parameters::read(&path).unwrap_err().to_string();
        assert!(error.contains("ortho_context.tab"), "{error}");
        for name in
            ["ortho_context.tab", "collocations.tab", "abbrev_types.txt", "sent_starters.txt"]
        {
            path.join(name).write_atomic(b"one word\n").unwrap();
        }
        let error = Parameters::read(&path).unwrap_err().to_string();
        assert!(error.contains("ortho_context.tab`") && error.contains("punkt"), "{error}");
    }
}
