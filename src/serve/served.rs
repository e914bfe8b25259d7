//! The model of a server, by the work that it does.

use std::fmt;

use crate::interactive::{Asked, Encoder, Engine, FillEncoder, Filler, InteractiveModel, Text};

use super::refusal::Refusal;

/// The model of a server, as its users see it.
#[derive(Clone, Debug)]
pub struct ServedModel {
    /// Its name: that of the folder of the checkpoint.
    pub name: String,
    /// The step of the checkpoint.
    pub step: u64,
    /// Greatest number of tokens of inputs.
    pub inputs_length: usize,
    /// Greatest number of tokens of an answer, unless a request gives one; `None` for a model that restores masked tokens.
    pub targets_length: Option<usize>,
}

impl fmt::Display for ServedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, step {}: {} tokens of inputs", self.name, self.step, self.inputs_length)?;
        self.targets_length.map_or(Ok(()), |length| write!(f, ", {length} of targets"))
    }
}

/// The name of the folder of a checkpoint, without that of the step.
fn name_of(checkpoint: &str) -> String {
    let is_step = |part: &str| {
        let step = part.strip_prefix("checkpoint_");
        step.is_some_and(|step| step.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut parts = checkpoint.rsplit('/').filter(|part| !part.is_empty());
    parts.find(|part| !is_step(part)).unwrap_or("model").to_string()
}

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

    /// Describes the model.
    pub(super) fn about(&self) -> ServedModel {
        let name = name_of(&self.spec().checkpoint_path);
        let (step, inputs_length, targets_length) = match self {
            Self::Answers(engine) => {
                let [inputs, targets] = engine.encoder().lengths();
                (engine.step(), inputs, Some(targets))
            }
            Self::Fills(filler) => (filler.step(), filler.encoder().max_tokens(), None),
        };
        ServedModel { name, step, inputs_length, targets_length }
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
                let expected = "POST /v1/generate, POST /v1/score or POST /v1/completions";
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

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_model_is_named_after_its_folder() {
        for (checkpoint, name) in [
            ("finetuned", "finetuned"),
            ("runs/finetuned/checkpoint_4000", "finetuned"),
            ("gs://bucket/t5/small/checkpoint_1000000/", "small"),
            ("checkpoint_7", "model"),
        ] {
            assert_eq!(name_of(checkpoint), name);
        }
    }
}
