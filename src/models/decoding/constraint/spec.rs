//! The sets of answers, as flags, requests and gin files name them.

use std::str::FromStr;

use regex_automata::util::syntax;
use serde::Deserialize;
use thiserror::Error;

use crate::gin::Parameters;
use crate::storage::{Path, StorageError};
use crate::vocab::Vocabulary;

/// A state of an automaton over tokens.
pub type State = u32;

/// The answers that decoding may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerSet {
    /// Given answers.
    Choices(Choices),
    /// The texts that match a regular expression as a whole.
    Pattern(String),
}

/// Given answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<String>")]
pub enum Choices {
    /// The lines of a file, in any storage.
    File(String),
    /// Texts.
    Texts(Vec<String>),
}

impl From<Vec<String>> for Choices {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

impl FromStr for Choices {
    type Err = std::convert::Infallible;

    fn from_str(file: &str) -> Result<Self, Self::Err> {
        Ok(Self::File(file.to_string()))
    }
}

/// The set of answers that decoding may give: one of both, or all texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Parameters)]
pub struct AnswerSetParameters {
    /// Path of a file with one answer a line: every decoded sequence is one of them (De Cao et al. 2021, arXiv:2010.00904). None
    /// allows all texts.
    #[gin(default = None)]
    pub choices: Option<String>,
    /// Regular expression, in the syntax of the crate `regex`, that every decoded text matches as a whole. None allows all texts.
    #[gin(default = None)]
    pub pattern: Option<String>,
}

impl AnswerSetParameters {
    /// Returns the set, if one is bound.
    ///
    /// # Errors
    /// Both are bound, or the expression is not valid.
    pub fn set(&self) -> Result<Option<AnswerSet>, ConstraintError> {
        AnswerSet::new(self.choices.clone().map(Choices::File), self.pattern.clone())
    }
}

impl AnswerSet {
    /// Returns the set, if one is given.
    ///
    /// # Errors
    /// Both are given, or the expression is not valid.
    pub fn new(
        choices: Option<Choices>,
        pattern: Option<String>,
    ) -> Result<Option<Self>, ConstraintError> {
        match (choices, pattern) {
            (Some(_), Some(_)) => Err(ConstraintError::Both),
            (Some(choices), None) => Ok(Some(Self::Choices(choices))),
            (None, Some(pattern)) => {
                parse(&pattern)?;
                Ok(Some(Self::Pattern(pattern)))
            }
            (None, None) => Ok(None),
        }
    }
}

/// Checks the syntax of an expression.
///
/// # Errors
/// The place of the mistake.
pub(super) fn parse(pattern: &str) -> Result<(), ConstraintError> {
    let checked = syntax::parse(pattern).map(drop);
    checked.map_err(|error| ConstraintError::Invalid { reason: error.to_string() })
}

impl Choices {
    /// Reads the answers, with the place of each in messages.
    ///
    /// # Errors
    /// The file cannot be read, there are no answers, or one is empty.
    pub fn read(&self) -> Result<Vec<(String, String)>, ConstraintError> {
        let (name, texts) = match self {
            Self::Texts(texts) => ("choices", texts.clone()),
            Self::File(file) => {
                let bytes = Path::parse(file).and_then(|path| path.read())?;
                let text = String::from_utf8(bytes).map_err(|error| {
                    let at = error.utf8_error().valid_up_to();
                    ConstraintError::NotText { file: file.clone(), at }
                })?;
                (file.as_str(), text.lines().map(str::to_string).collect())
            }
        };
        if texts.is_empty() {
            return Err(ConstraintError::NoChoices { name: name.to_string() });
        }
        let place = |number: usize| match self {
            Self::File(file) => format!("{file}:{}", number + 1),
            Self::Texts(_) => format!("`choices`[{number}]"),
        };
        let placed = texts.into_iter().enumerate().map(|(number, text)| match text.is_empty() {
            true => Err(ConstraintError::EmptyChoice { place: place(number) }),
            false => Ok((place(number), text)),
        });
        placed.collect()
    }
}

/// The tokens of which answers consist.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The vocabulary of answers.
    pub vocabulary: &'a dyn Vocabulary,
    /// The tokens that end an answer.
    pub ends: &'a [i64],
}

impl Target<'_> {
    /// The tokens that end an answer and stand for no text.
    pub(super) fn silent_ends(&self) -> Vec<i64> {
        let is_silent = |end: &i64| {
            let id = i32::try_from(*end).unwrap_or(-1);
            Some(id) == self.vocabulary.eos_id() || !self.vocabulary.stands_for_text(id)
        };
        self.ends.iter().copied().filter(is_silent).collect()
    }

    /// Whether a token ends an answer.
    pub(super) fn is_end(&self, id: i32) -> bool {
        self.ends.contains(&i64::from(id))
    }
}

/// A set of answers that cannot be decoded.
#[derive(Debug, Error)]
pub enum ConstraintError {
    /// Two sets.
    #[error("`choices` and `pattern` are both given, expected one of them: drop the other")]
    Both,
    /// The file cannot be read.
    #[error("cannot read the choices: {0}")]
    Storage(#[from] StorageError),
    /// The file is not text.
    #[error("`{file}` is not UTF-8 text from byte {at} on, expected one answer a line")]
    NotText {
        /// The file.
        file: String,
        /// The first byte that is no text.
        at: usize,
    },
    /// No answers.
    #[error("`{name}` has no answers, expected at least one{}", if name == "choices" { "" } else { ": one a line" })]
    NoChoices {
        /// The file or the field.
        name: String,
    },
    /// An answer without text.
    #[error("{place} is empty, expected an answer: delete the line or write one")]
    EmptyChoice {
        /// The file and the line.
        place: String,
    },
    /// An answer that the vocabulary does not know.
    #[error(
        "{place}: `{text}` has parts that {vocabulary} does not know (`{read}` with them), expected text of this \
         vocabulary: change or delete the line"
    )]
    UnknownPiece {
        /// The file and the line.
        place: String,
        /// The answer.
        text: String,
        /// Its tokens as text.
        read: String,
        /// The vocabulary.
        vocabulary: String,
    },
    /// An answer that the vocabulary changes.
    #[error(
        "{place}: the tokens of `{text}` are the text `{read}`, expected the same text: write the line so, or delete it"
    )]
    Changed {
        /// The file and the line.
        place: String,
        /// The answer.
        text: String,
        /// Its tokens as text.
        read: String,
    },
    /// An answer whose tokens end it early.
    #[error(
        "{place}: the token {token} within `{text}` ends an answer of this model, expected a text without it: change or \
         delete the line"
    )]
    EndInside {
        /// The file and the line.
        place: String,
        /// The answer.
        text: String,
        /// The token.
        token: i32,
    },
    /// An answer that is too long.
    #[error(
        "{place} has {needed} tokens with its end, expected at most {room}, the greatest number of tokens of an answer: raise \
         it (`max_tokens`, or the targets' feature length), or delete the line"
    )]
    LongChoice {
        /// The file and the line.
        place: String,
        /// The tokens of the answer.
        needed: usize,
        /// Greatest number of tokens.
        room: usize,
    },
    /// Answers are too long.
    #[error(
        "the shortest answer of the set has {needed} tokens with its end, expected at most {room}, the greatest number of \
         tokens of an answer: raise it (`max_tokens`, or the targets' feature length), or allow shorter ones"
    )]
    NoRoom {
        /// The tokens of the shortest answer.
        needed: usize,
        /// Greatest number of tokens.
        room: usize,
    },
    /// No regular expression.
    #[error("`pattern` is not a regular expression that can be followed: {reason}")]
    Invalid {
        /// The place in it, and the mistake.
        reason: String,
    },
    /// No text matches.
    #[error(
        "`pattern` matches no text that the pieces of {vocabulary} can write: `{pattern}`; expected one of which at least \
         one text has pieces"
    )]
    NoMatch {
        /// The expression.
        pattern: String,
        /// The vocabulary.
        vocabulary: String,
    },
    /// An automaton that is too large.
    #[error(
        "`pattern` needs an automaton that is too large; expected fewer or shorter repetitions, or ASCII classes such as \
         `[a-z]` in place of `\\w`"
    )]
    TooLarge,
    /// A vocabulary whose ids cannot be followed.
    #[error(
        "`pattern` cannot be followed over {vocabulary}: {reason}; `choices` work with every vocabulary"
    )]
    NoPieces {
        /// The vocabulary.
        vocabulary: String,
        /// The reason.
        reason: String,
    },
    /// All ends stand for text.
    #[error(
        "`choices` and `pattern` need an end token that stands for no text, and answers of this model end in {ends:?}: \
         bind eos_id (of transformers eos_token_id)"
    )]
    NoEnd {
        /// The ends.
        ends: Vec<i64>,
    },
    /// Answers begin with targets.
    #[error(
        "`choices` and `pattern` say the whole answer, and this model begins it with the targets: bind prompt_with_targets = \
         False"
    )]
    Prompted,
}
