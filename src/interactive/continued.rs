//! A prompt that an answer continues, as ids. Of a model with an encoder, the inputs are those up to the first end token, and
//! the answer begins with the rest; a decoder alone continues all of them.

use super::lines::Asked;

/// The end of the inputs in the text of a prompt.
pub const END_OF_INPUTS: &str = "</s>";

/// A prompt as it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenPrompt {
    /// A text.
    Text(String),
    /// Token ids.
    Ids(Vec<i64>),
}

/// A prompt that the model does not take.
#[derive(Debug, thiserror::Error)]
pub enum BadPrompt {
    /// An id is not one of the vocabulary.
    #[error("the prompt has the id {id}, expected ids from 1 to {most}")]
    Id {
        /// The id.
        id: i64,
        /// The greatest id.
        most: i64,
    },
    /// It is longer than the model's inputs, or than answers may be.
    #[error(
        "the {part} of the prompt has {found} tokens, expected at most {most}: shorten it, or start the server with a \
         TASK_FEATURE_LENGTHS whose \"{feature}\" are {found}"
    )]
    Long {
        /// The part for the encoder or for the decoder.
        part: &'static str,
        /// The feature with the limit.
        feature: &'static str,
        /// Its tokens.
        found: usize,
        /// The limit.
        most: usize,
    },
}

/// The way in which a model reads a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptReading {
    /// An encoder reads so many of the ids, and the answer begins with the others.
    Encoded(usize),
    /// A decoder predicts them one after another.
    Predicted,
    /// A decoder lets all of them attend to each other.
    Joined,
}

/// A prompt as ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    /// The ids as they are given, without an end token that the model adds.
    pub ids: Vec<i32>,
    /// The ids that the model reads before it answers, with an end token if it adds one.
    pub(super) inputs: Vec<i32>,
    pub(super) reading: PromptReading,
    /// The id that ends a sequence.
    pub(super) end: Option<i32>,
}

impl Continued {
    /// The number of ids that are given to the model and not predicted by it.
    pub fn num_given(&self) -> usize {
        match self.reading {
            PromptReading::Encoded(count) => count,
            PromptReading::Predicted => 0,
            PromptReading::Joined => self.ids.len(),
        }
    }

    /// The ids with which an answer begins that a model with an encoder decodes.
    pub fn begun(&self) -> &[i32] {
        match self.reading {
            PromptReading::Encoded(count) => &self.ids[count..],
            PromptReading::Predicted | PromptReading::Joined => &[],
        }
    }

    /// The ids, up to the answer, whose text it continues.
    pub fn before(&self) -> &[i32] {
        let ids = match self.reading {
            PromptReading::Encoded(count) => &self.ids[count..],
            PromptReading::Predicted | PromptReading::Joined => &self.ids[..],
        };
        let last_end = ids.iter().rposition(|id| Some(*id) == self.end);
        &ids[last_end.map_or(0, |end| end + 1)..]
    }

    /// Whether the beginning of the answer has an end, so that nothing follows.
    pub fn has_ended(&self) -> bool {
        self.begun().iter().any(|id| Some(*id) == self.end)
    }

    /// The text from which an answer is decoded.
    pub fn to_answer(&self) -> Asked {
        let begun = Some(self.begun().to_vec()).filter(|begun| !begun.is_empty());
        Asked { inputs: self.inputs.clone(), targets: begun, is_cut: false }
    }

    /// The text whose targets are the ids that are not given, and those of an answer.
    pub fn to_score(&self, answer: &[i32]) -> Asked {
        let targets = [&self.ids[self.num_given()..], answer].concat();
        let inputs = match self.reading {
            PromptReading::Predicted => Vec::new(),
            PromptReading::Encoded(_) | PromptReading::Joined => self.inputs.clone(),
        };
        Asked { inputs, targets: Some(targets), is_cut: false }
    }
}
