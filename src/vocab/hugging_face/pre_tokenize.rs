//! The `pre_tokenizer` and the `decoder` of a `tokenizer.json`. Sources: tokenizers `pre_tokenizers/`, `decoders/`.

use serde_json::Value;

use super::normalize::Pattern;
use crate::piece_text::byte_of;

/// The mark of a space.
const SPACE: char = '▁';

/// The parts of the text before which a space is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepend {
    Always,
    /// Only before the beginning of the whole text.
    First,
    Never,
}

/// A step that cuts normalized text.
#[derive(Debug)]
pub(super) enum PreTokenizer {
    /// At spaces, which vanish.
    WhitespaceSplit,
    /// Marks spaces, and cuts before each if `split`.
    Metaspace { prepend: Prepend, split: bool },
    /// Around each match.
    Isolated(Pattern),
}

impl PreTokenizer {
    /// The steps with which T5's tokenizer is built anew.
    pub(super) fn of_t5() -> Vec<Self> {
        vec![Self::WhitespaceSplit, Self::Metaspace { prepend: Prepend::Always, split: true }]
    }

    /// Reads the steps of a `pre_tokenizer`.
    ///
    /// # Errors
    /// A step is of another kind.
    pub(super) fn read_all(value: &Value) -> Result<Vec<Self>, String> {
        let steps = match value["type"].as_str() {
            None if value.is_null() => return Ok(Vec::new()),
            Some("Sequence") => {
                let steps = value["pretokenizers"].as_array().into_iter().flatten();
                steps.map(Self::read).collect::<Result<Vec<_>, _>>()?
            }
            _ => vec![Self::read(value)?],
        };
        let marks = steps.iter().filter(|step| matches!(step, Self::Metaspace { .. })).count();
        if marks > 1 {
            return Err(format!("its pre_tokenizer has {marks} steps Metaspace, expected one"));
        }
        Ok(steps)
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        match text("type") {
            "WhitespaceSplit" => Ok(Self::WhitespaceSplit),
            "Metaspace" if text("replacement") == "▁" => Ok(Self::Metaspace {
                prepend: prepend(value)?,
                split: value["split"].as_bool().unwrap_or(true),
            }),
            "Split" if text("behavior") == "Isolated" && value["invert"] != true => {
                Ok(Self::Isolated(Pattern::read(&value["pattern"])?))
            }
            _ => Err(format!(
                "its pre_tokenizer has a step {value}, expected WhitespaceSplit, Metaspace with `▁`, or Split that \
                 isolates"
            )),
        }
    }
}

fn prepend(value: &Value) -> Result<Prepend, String> {
    match (value["prepend_scheme"].as_str(), value["add_prefix_space"].as_bool()) {
        (Some("always"), _) | (None, None | Some(true)) => Ok(Prepend::Always),
        (Some("first"), _) => Ok(Prepend::First),
        (Some("never"), _) | (None, Some(false)) => Ok(Prepend::Never),
        (Some(other), _) => {
            Err(format!("its prepend_scheme is `{other}`, expected always, first or never"))
        }
    }
}

/// Passes the words of a text on.
pub(super) struct WordCutter<'a> {
    /// Memory for the text with marks.
    pub scratch: &'a mut String,
    /// Takes each word.
    pub emit: &'a mut dyn FnMut(&str),
}

impl WordCutter<'_> {
    /// Cuts normalized text. `is_first` says whether the whole text begins with it.
    pub(super) fn cut(&mut self, steps: &[PreTokenizer], text: &str, is_first: bool) {
        let Some((step, rest)) = steps.split_first() else {
            if !text.is_empty() {
                (self.emit)(text);
            }
            return;
        };
        match step {
            PreTokenizer::WhitespaceSplit => {
                for word in text.split(char::is_whitespace).filter(|word| !word.is_empty()) {
                    let begins = std::ptr::eq(word.as_ptr(), text.as_ptr());
                    self.cut(rest, word, is_first && begins);
                }
            }
            PreTokenizer::Metaspace { prepend, split } => {
                let prepends = match prepend {
                    Prepend::Always => true,
                    Prepend::First => is_first,
                    Prepend::Never => false,
                };
                let mut marked = std::mem::take(self.scratch);
                mark_spaces(text, prepends, &mut marked);
                let marks = marked.match_indices(SPACE).map(|(at, _)| at);
                let ends = marks.filter(|at| *split && *at > 0).chain([marked.len()]);
                let mut start = 0;
                for end in ends {
                    self.cut(rest, &marked[start..end], is_first && start == 0);
                    start = end;
                }
                *self.scratch = marked;
            }
            PreTokenizer::Isolated(pattern) => {
                let mut start = 0;
                for (from, to) in matches(pattern, text) {
                    self.cut(rest, &text[start..from], is_first && start == 0);
                    self.cut(rest, &text[from..to], is_first && from == 0);
                    start = to;
                }
                self.cut(rest, &text[start..], is_first && start == 0);
            }
        }
    }
}

fn mark_spaces(text: &str, prepends: bool, out: &mut String) {
    out.clear();
    if prepends && !text.starts_with(' ') && !text.starts_with(SPACE) {
        out.push(SPACE);
    }
    for (index, part) in text.split(' ').enumerate() {
        if index > 0 {
            out.push(SPACE);
        }
        out.push_str(part);
    }
}

fn matches(pattern: &Pattern, text: &str) -> Vec<(usize, usize)> {
    match pattern {
        Pattern::Text(part) => {
            text.match_indices(&part[..]).map(|(at, part)| (at, at + part.len())).collect()
        }
        Pattern::Regex(regex) => {
            regex.find_iter(text).flatten().map(|found| (found.start(), found.end())).collect()
        }
    }
}

/// A step that joins tokens.
#[derive(Debug)]
pub(super) enum DecoderStep {
    /// Turns marks into spaces; those of the first token vanish if `trims`.
    Metaspace {
        trims: bool,
    },
    Replace {
        pattern: Pattern,
        content: String,
    },
    /// Joins tokens such as `<0x41>` to text.
    ByteFallback,
    /// Joins all tokens.
    Fuse,
    /// Removes so many of a character at the beginning, and at the end, of each token.
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
}

impl DecoderStep {
    /// Reads the steps of a `decoder`.
    ///
    /// # Errors
    /// A step is of another kind.
    pub(super) fn read_all(value: &Value) -> Result<Vec<Self>, String> {
        match value["type"].as_str() {
            None if value.is_null() => Ok(Vec::new()),
            Some("Sequence") => {
                value["decoders"].as_array().into_iter().flatten().map(Self::read).collect()
            }
            _ => Ok(vec![Self::read(value)?]),
        }
    }

    fn read(value: &Value) -> Result<Self, String> {
        let number = |key: &str| value[key].as_u64().unwrap_or(0) as usize;
        let content = value["content"].as_str().unwrap_or_default();
        Ok(match value["type"].as_str().unwrap_or_default() {
            "Metaspace" => Self::Metaspace { trims: prepend(value)? != Prepend::Never },
            "Replace" => Self::Replace {
                pattern: Pattern::read(&value["pattern"])?,
                content: content.to_string(),
            },
            "ByteFallback" => Self::ByteFallback,
            "Fuse" => Self::Fuse,
            "Strip" => Self::Strip {
                content: content.chars().next().unwrap_or(' '),
                start: number("start"),
                stop: number("stop"),
            },
            other => {
                return Err(format!(
                    "its decoder has a step `{other}`, expected Metaspace, Replace, ByteFallback, Fuse or Strip"
                ));
            }
        })
    }

    /// Applies the step.
    pub(super) fn apply(&self, mut tokens: Vec<String>) -> Vec<String> {
        match self {
            Self::Metaspace { trims } => {
                for (index, token) in tokens.iter_mut().enumerate() {
                    *token = token.replace(SPACE, if index == 0 && *trims { "" } else { " " });
                }
            }
            Self::Replace { pattern, content } => {
                for token in &mut tokens {
                    *token = pattern.replaced(std::mem::take(token).into(), content).into_owned();
                }
            }
            Self::ByteFallback => return joined_bytes(tokens),
            Self::Fuse => return vec![tokens.concat()],
            Self::Strip { content, start, stop } => {
                for token in &mut tokens {
                    *token = stripped(token, *content, *start, *stop).to_string();
                }
            }
        }
        tokens
    }
}

fn stripped(mut token: &str, content: char, start: usize, stop: usize) -> &str {
    for _ in 0..start {
        token = token.strip_prefix(content).unwrap_or(token);
    }
    for _ in 0..stop {
        token = token.strip_suffix(content).unwrap_or(token);
    }
    token
}

/// Joins runs of bytes that are text; each byte of another run becomes a replacement character.
fn joined_bytes(tokens: Vec<String>) -> Vec<String> {
    let mut out = Vec::new();
    for run in tokens.chunk_by(|a, b| byte_of(a).is_some() == byte_of(b).is_some()) {
        let bytes: Option<Vec<u8>> = run.iter().map(|token| byte_of(token)).collect();
        match bytes.map(|bytes| String::from_utf8(bytes).map_err(|error| error.as_bytes().len())) {
            None => out.extend(run.iter().cloned()),
            Some(Ok(text)) => out.push(text),
            Some(Err(length)) => out.extend(vec!["\u{fffd}".to_string(); length]),
        }
    }
    out
}
