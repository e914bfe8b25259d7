//! The model of a server, by the work that it does.

use crate::interactive::{Asked, Encoder, Engine, FillEncoder, Filler, InteractiveModel, Text};

use super::refusal::Refusal;

/// A model with its parameters.
pub enum Served<'a> {
    /// One that answers texts and scores targets.
    Answers(&'a Engine<'a>),
    /// One that restores masked tokens.
    Fills(&'a Filler<'a>),
}

impl Served<'_> {
    /// The spec of the model.
    pub fn spec(&self) -> &InteractiveModel {
        match self {
            Self::Answers(engine) => engine.spec(),
            Self::Fills(filler) => filler.spec(),
        }
    }

    /// Returns the part that converts texts to ids.
    pub(super) fn encoder(&self) -> ServedEncoder {
        let model = self.spec().model.name();
        match self {
            Self::Answers(engine) => {
                ServedEncoder::Answers(model, Box::new(engine.encoder().clone()))
            }
            Self::Fills(filler) => ServedEncoder::Fills(model, filler.encoder().clone()),
        }
    }
}

/// The encoder of a model, with the model's name.
pub enum ServedEncoder {
    /// Of one that answers.
    Answers(&'static str, Box<Encoder>),
    /// Of one that restores masked tokens.
    Fills(&'static str, FillEncoder),
}

impl ServedEncoder {
    /// The path of the page's requests.
    pub fn path(&self) -> &'static str {
        match self {
            Self::Answers(..) => "v1/generate",
            Self::Fills(..) => "v1/fill",
        }
    }

    /// The encoder of a model that answers.
    ///
    /// # Errors
    /// It restores masked tokens.
    pub fn answering(&self) -> Result<&Encoder, Refusal> {
        match self {
            Self::Answers(_, encoder) => Ok(encoder),
            Self::Fills(model, _) => Err(Refusal::OtherWork { model, expected: "POST /v1/fill" }),
        }
    }

    /// Checks that the model restores masked tokens.
    ///
    /// # Errors
    /// It answers texts.
    pub fn filling(&self) -> Result<(), Refusal> {
        match self {
            Self::Fills(..) => Ok(()),
            Self::Answers(model, _) => {
                let expected = "POST /v1/generate or POST /v1/score";
                Err(Refusal::OtherWork { model, expected })
            }
        }
    }

    /// Converts the texts of a request to ids.
    ///
    /// # Errors
    /// The model does not read one of them.
    pub fn encode(&self, texts: &[Text]) -> Result<Vec<Asked>, Refusal> {
        let numbered = |(number, text): (usize, &Text)| match self {
            Self::Answers(_, encoder) => Ok(encoder.encode(text)),
            Self::Fills(_, encoder) => encoder
                .encode(&text.inputs)
                .map_err(|reason| Refusal::Malformed(format!("`inputs`[{number}]: {reason}"))),
        };
        texts.iter().enumerate().map(numbered).collect()
    }
}
