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

use self::tokens::{WordCutter, annotate};

/// A mark that may end a sentence, and the beginning of the text after it that decides.
const END: &str = r#"[.?!](?=(?P<after>[)";}\]*:@'({\[?!]|\s+(?P<next>\S+)))"#;
/// The same with the word before the mark and the spaces after it, which stay in the sentence.
const END_WITH_SPACES: &str = r#"\S*[.?!]\s*(?=(?P<after>[)";}\]*:@'({\[?!]|(?P<next>\S+)))"#;
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
    end: Regex,
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
        let end = match spaces {
            Spaces::Dropped => END,
            Spaces::Kept => END_WITH_SPACES,
        };
        let regex = |pattern| Regex::new(pattern).expect("the pattern is valid");
        Self { parameters, end: regex(end), closing: regex(CLOSING), words: WordCutter::new() }
    }

    /// The sentences of a text in their order.
    pub fn sentences<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let slices = self.realigned(text, self.slices(text));
        slices.into_iter().map(|slice| &text[slice]).collect()
    }

    /// The ranges of sentences, before closing marks are moved.
    fn slices(&self, text: &str) -> Vec<Range<usize>> {
        let mut slices = Vec::new();
        let mut begin = 0;
        for candidate in self.candidates(text) {
            if self.ends_sentence(&text[candidate.word..candidate.after]) {
                slices.push(begin..candidate.end);
                begin = candidate.next.unwrap_or(candidate.end);
            }
        }
        slices.push(begin..text.trim_end().len().max(begin));
        slices
    }

    /// The marks that may end a sentence. Of several within a word, such as `acting!!!`, only the last one is.
    fn candidates(&self, text: &str) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        for captures in self.end.captures_iter(text).map_while(Result::ok) {
            let Some(mark) = captures.get(0) else { continue };
            let (last_word, last_end) = found.last().map_or((0, 0), |last| (last.word, last.start));
            let before = &text[last_end..mark.start()];
            // A space at the very beginning does not count in the source.
            let space = before.rfind(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
            let word = match space.filter(|at| *at > 0) {
                Some(at) => last_end + at + 1,
                None => last_word,
            };
            if found.last().is_some_and(|last| last.start > word) {
                found.pop();
            }
            found.push(Candidate {
                start: mark.start(),
                end: mark.end(),
                after: captures.name("after").map_or(mark.end(), |after| after.end()),
                next: captures.name("next").map(|next| next.start()),
                word,
            });
        }
        found
    }

    /// Whether a sentence ends before the last token of a part of a text.
    fn ends_sentence(&self, part: &str) -> bool {
        let tokens = annotate(self.words.tokens(part), &self.parameters);
        let Some((_, before)) = tokens.split_last() else { return false };
        before.iter().any(|token| token.ends_sentence)
    }

    /// Moves closing quotes and brackets to the sentence that they close, and drops empty sentences.
    fn realigned(&self, text: &str, slices: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let mut aligned = Vec::new();
        let mut moved = 0;
        for (index, slice) in slices.iter().enumerate() {
            let slice = slice.start + moved..slice.end;
            let next = slices.get(index + 1);
            let closing = next.and_then(|next| {
                let closing = self.closing.find(&text[next.clone()]).ok().flatten()?;
                Some((next.start, closing))
            });
            match closing {
                Some((start, closing)) => {
                    aligned.push(slice.start..start + closing.as_str().trim_end().len());
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
        aligned
    }
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
                assert_eq!(punkt.sentences(case["text"].as_str().unwrap()), expected, "{name}");
            }
        }
    }

    #[test]
    fn english_is_divided_without_a_model() {
        let punkt = Punkt::new(Parameters::english(), Spaces::Dropped);
        let check = |sentences: &[&str]| {
            assert_eq!(punkt.sentences(&sentences.join(" ")), sentences);
        };
        check(&[
            "Dr. Smith paid approx. 3.5 dollars, e.g. to J. R. Jones.",
            "He left at 5 p.m.",
            "The rest stayed.",
        ]);
        check(&["\"Is it so?\"", "She asked.", "(It was.)", "See fig. 3!"]);
        check(&["It ended in 1990.", "Then came 1991... and so on."]);
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
