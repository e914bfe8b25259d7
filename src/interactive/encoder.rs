//! Converts texts to the ids that a model reads, in any thread.

use std::ops::Range;
use std::sync::Arc;

use crate::models::Model;
use crate::models::decoding::{ConstraintError, Constraints, Prediction, Target};
use crate::session::error::SessionError;
use crate::telemetry;
use crate::vocab::Vocabulary;

use super::continued::{BadPrompt, Continued, END_OF_INPUTS, GivenPrompt, PromptReading};
use super::decoding::{Decoding, DecodingOptions, most_tokens};
use super::lines::{Asked, Text};
use super::spec::InteractiveModel;

/// The refusal of options of decoding by a model of classes.
const CLASSES: &str = "the model names classes by their probability and decodes no text, so it takes no option of sampling, \
                       of a search or of a set of answers; `num_decodes` classes are named";

/// The vocabularies of a model, its lengths and its own decoding.
#[derive(Clone, Debug)]
pub struct Encoder {
    inputs: Arc<dyn Vocabulary>,
    targets: Arc<dyn Vocabulary>,
    inputs_length: usize,
    targets_length: usize,
    /// The id that begins inputs.
    begin_of_inputs: Option<i32>,
    /// The ids that end inputs and targets.
    end_of_inputs: Option<i32>,
    end_of_targets: Option<i32>,
    /// The ids with which inputs begin, if the first token names their task.
    first_of_inputs: Option<Range<i32>>,
    prediction: Prediction,
    names_classes: bool,
    constraints: Arc<Constraints>,
    continues_inputs: bool,
    joins_inputs: bool,
}

impl Encoder {
    /// Builds the vocabularies.
    ///
    /// # Errors
    /// One cannot be built, takes no text, or has more ids than the model.
    pub fn new(spec: &InteractiveModel) -> Result<Self, SessionError> {
        let predictions = spec.model.prediction_spec()?;
        let vocabularies = spec.model.vocabularies();
        let vocabulary = |feature: &str| {
            let found = vocabularies.iter().find(|(name, _)| *name == feature);
            found.expect("every model has vocabularies of inputs and targets").1.build()
        };
        let (inputs, targets) = (vocabulary("inputs")?, vocabulary("targets")?);
        check_vocabulary(&spec.model, &*inputs)?;
        check_vocabulary(&spec.model, &*targets)?;
        let ends_inputs = spec.add_eos.unwrap_or(!predictions.continues_inputs);
        let eos_id = targets.eos_id();
        Ok(Self {
            inputs_length: predictions
                .max_inputs
                .map_or(spec.inputs_length(), |most| most.min(spec.inputs_length())),
            targets_length: spec.targets_length(),
            begin_of_inputs: inputs.bos_id().filter(|_| predictions.begins_inputs),
            end_of_inputs: inputs.eos_id().filter(|_| ends_inputs),
            end_of_targets: eos_id.filter(|_| spec.add_eos.unwrap_or(true)),
            first_of_inputs: spec.model.known_ids().first_of_inputs,
            names_classes: predictions.names_classes,
            prediction: predictions.prediction_in(&*targets)?,
            constraints: Arc::default(),
            continues_inputs: predictions.continues_inputs,
            joins_inputs: predictions.joins_inputs,
            inputs,
            targets,
        })
    }

    /// The vocabulary of answers.
    pub fn vocabulary(&self) -> &dyn Vocabulary {
        &*self.targets
    }

    /// Greatest numbers of tokens of inputs, and of an answer for which a request gives none.
    pub fn lengths(&self) -> [usize; 2] {
        [self.inputs_length, self.targets_length]
    }

    /// Whether a decoder alone lets all inputs attend to each other, so that it does not predict them.
    pub fn joins_inputs(&self) -> bool {
        self.joins_inputs
    }

    /// Converts ids that the model reads to text.
    pub fn decoded_inputs(&self, ids: &[i32]) -> String {
        self.inputs.decode(ids)
    }

    /// The vocabulary of inputs.
    pub fn input_vocabulary(&self) -> &dyn Vocabulary {
        &*self.inputs
    }

    /// Whether answers are names of classes.
    pub fn names_classes(&self) -> bool {
        self.names_classes
    }

    /// Fills options in with those of the model, except its set of answers: for the scores of texts that are given.
    ///
    /// # Errors
    /// See [`DecodingOptions::over`].
    pub fn free_decoding(&self, options: &DecodingOptions) -> Result<Decoding, String> {
        let mut decoding = options.over(&self.prediction, self.targets_length)?;
        decoding.prediction.constraint = None;
        Ok(decoding)
    }

    /// Fills options in with those of the model.
    ///
    /// # Errors
    /// See [`DecodingOptions::over`]; options of decoding for a model that names classes; a set of answers that cannot be
    /// decoded.
    pub fn decoding(&self, options: &DecodingOptions) -> Result<Decoding, String> {
        if self.names_classes && options.changes_decoding() {
            return Err(CLASSES.to_string());
        }
        let mut decoding = options.over(&self.prediction, self.targets_length)?;
        let text = |error: ConstraintError| error.to_string();
        if let Some(set) = options.answers()? {
            let ends = decoding.prediction.ends();
            let target = Target { vocabulary: &*self.targets, ends: &ends };
            if self.prediction.prompt_with_targets {
                return Err(text(ConstraintError::Prompted));
            }
            let constraint = self.constraints.of(&set, &target).map_err(text)?;
            decoding.prediction.constraint = Some(constraint);
        }
        if let Some(constraint) = &decoding.prediction.constraint {
            constraint.check_room(decoding.max_tokens).map_err(text)?;
        }
        Ok(decoding)
    }

    /// Fills in the options of a request to a server, whose answers have a greatest length.
    ///
    /// # Errors
    /// See [`DecodingOptions::over`] and [`DecodingOptions::check_room`].
    pub fn requested(&self, options: &DecodingOptions) -> Result<Decoding, String> {
        options.check_room(self.targets_length)?;
        self.decoding(options)
    }

    /// Converts a text to ids. Inputs beyond the greatest length are cut.
    pub fn encode(&self, text: &Text) -> Asked {
        let mut ids: Vec<i32> = self.begin_of_inputs.into_iter().collect();
        self.inputs.encode_into(&text.inputs, &mut ids);
        self.warn_of_first(&ids);
        let room = self.inputs_length.saturating_sub(self.end_of_inputs.iter().count());
        let is_cut = ids.len() > room;
        ids.truncate(room);
        ids.extend(self.end_of_inputs);
        let targets = text.targets.as_ref().map(|text| {
            let mut ids = self.targets.encode(text);
            ids.extend(self.end_of_targets);
            ids
        });
        Asked { inputs: ids, targets, is_cut }
    }

    /// Warns of inputs that do not begin with a token that names their task, if the model reads one there.
    fn warn_of_first(&self, ids: &[i32]) {
        let Some(known) = &self.first_of_inputs else { return };
        if !ids.first().is_some_and(|id| known.contains(id)) {
            telemetry::warn_once(&format!(
                "inputs do not begin with one of the ids from {} to {}, the last being <extra_id_0>, which name the task: they take \
                 the prompt of the task with the nearest id",
                known.start,
                known.end - 1
            ));
        }
    }

    /// Converts a prompt to ids. Nothing is cut.
    ///
    /// # Errors
    /// An id is not one of the vocabulary, or there are too many.
    pub fn continued(&self, prompt: &GivenPrompt) -> Result<Continued, BadPrompt> {
        let end = self.targets.eos_id();
        let ids = match prompt {
            GivenPrompt::Ids(ids) => self.checked(ids)?,
            GivenPrompt::Text(text) => self.ids_of(text),
        };
        if self.continues_inputs {
            check_length("text", "inputs", ids.len(), self.inputs_length)?;
            let reading =
                if self.joins_inputs { PromptReading::Joined } else { PromptReading::Predicted };
            return Ok(Continued { inputs: ids.clone(), ids, reading, end });
        }
        let read = ids.iter().position(|id| Some(*id) == self.inputs.eos_id());
        let mut inputs = ids[..read.unwrap_or(ids.len())].to_vec();
        inputs.extend(self.end_of_inputs);
        let reading = PromptReading::Encoded(read.map_or(ids.len(), |end| end + 1));
        let continued = Continued { ids, inputs, reading, end };
        check_length("inputs", "inputs", continued.inputs.len(), self.inputs_length)?;
        let most = most_tokens(self.targets_length);
        check_length("beginning of the answer", "targets", continued.begun().len(), most)?;
        Ok(continued)
    }

    /// The ids of a prompt's text. With an encoder, the beginning of the answer follows the first end of inputs.
    fn ids_of(&self, text: &str) -> Vec<i32> {
        let mut ids: Vec<i32> = self.begin_of_inputs.into_iter().collect();
        match (text.split_once(END_OF_INPUTS), self.inputs.eos_id()) {
            (Some((inputs, begun)), Some(end)) if !self.continues_inputs => {
                self.inputs.encode_into(inputs, &mut ids);
                ids.push(end);
                self.targets.encode_into(begun, &mut ids);
            }
            _ => self.inputs.encode_into(text, &mut ids),
        }
        ids
    }

    fn checked(&self, ids: &[i64]) -> Result<Vec<i32>, BadPrompt> {
        let most = self.inputs.vocab_size().min(self.targets.vocab_size()) as i64 - 1;
        match ids.iter().find(|id| !(1..=most).contains(*id)) {
            Some(id) => Err(BadPrompt::Id { id: *id, most }),
            None => Ok(ids.iter().map(|id| *id as i32).collect()),
        }
    }
}

fn check_length(
    part: &'static str,
    feature: &'static str,
    found: usize,
    most: usize,
) -> Result<(), BadPrompt> {
    match found > most {
        true => Err(BadPrompt::Long { part, feature, found, most }),
        false => Ok(()),
    }
}

fn check_vocabulary(model: &Model, vocabulary: &dyn Vocabulary) -> Result<(), SessionError> {
    let (name, size, rows) = (vocabulary.name(), vocabulary.vocab_size(), model.num_ids());
    if vocabulary.takes_ids() {
        return Err(SessionError::Unfit(format!(
            "{name} encodes no text, and texts are asked; expected the vocabulary with which the ids were made: \
             bind VOCABULARY"
        )));
    }
    if size > rows {
        return Err(SessionError::Unfit(format!(
            "{name} has {size} ids, and the model's embedding {rows} rows; expected the vocabulary with which the \
             model was trained: bind VOCABULARY"
        )));
    }
    Ok(())
}
