//! The model with its parameters: decodes answers, scores targets.

use std::ops::ControlFlow;

use tch::{Device, Kind, Tensor};

use crate::checkpoint::{RestoreMode, chosen, latest};
use crate::data::{
    self, ConverterClass, Example, FeatureConverter, Key, Lengths, Packing,
    PrefixLMFeatureConverter, Value,
};
use crate::models::decoding::{Decodes, Observer};
use crate::models::{Batch, Predict, PredictionSpec};
use crate::nn::Params;
use crate::partition::Mesh;
use crate::session::check::UnfitSpec;
use crate::session::error::SessionError;
use crate::session::forward::{Forward, TokenScores};
use crate::session::restored_params::RestoredParams;
use crate::session::weights::{Restored, Weights};
use crate::storage::Path;
use crate::telemetry;
use crate::vocab::Vocabulary;

use super::decoding::{Decoding, DecodingOptions};
use super::encoder::Encoder;
use super::lines::Asked;
use super::spec::InteractiveModel;

/// The parts of a model that an engine borrows.
pub struct EngineParts {
    pub(super) forward: Forward,
    pub(super) params: Params,
    pub(super) step: u64,
}

impl EngineParts {
    /// Reads the parameters.
    ///
    /// # Errors
    /// The checkpoint is missing, damaged or another model's, or memory runs out.
    pub fn restore(spec: &InteractiveModel, mesh: &Mesh) -> Result<Self, SessionError> {
        let forward = Forward::new(&spec.model, None, mesh)?;
        let wanted = RestoredParams::new(&spec.model, &spec.restore_config());
        let weights = Weights::new(&spec.model, wanted, None, mesh.clone());
        let path = Path::parse(&spec.checkpoint_path)?;
        let newest = match spec.restore_mode {
            RestoreMode::Latest => latest(&path)?,
            _ => Some(chosen(&path)?),
        };
        let newest = newest.ok_or_else(|| {
            SessionError::Unfit(format!(
                "there is no checkpoint in `{path}`, expected one: give --checkpoint=PATH"
            ))
        })?;
        if newest != path {
            telemetry::notice(&format!("taking {newest}"));
        }
        let Restored { step, params } = weights.restore(&newest)?;
        Ok(Self { forward, params, step })
    }

    /// The step of the checkpoint.
    pub fn step(&self) -> u64 {
        self.step
    }
}

/// One answer to a text.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The score of the decoding: for a sample its log-probability.
    pub score: f64,
    /// The tokens, with the one that ends it.
    #[serde(skip)]
    pub ids: Vec<i32>,
}

/// A model that answers many batches.
pub struct Engine<'a> {
    spec: &'a InteractiveModel,
    parts: &'a EngineParts,
    encoder: Encoder,
    predictions: PredictionSpec,
    converter: ConverterClass,
    predict: Box<dyn Predict + 'a>,
}

impl<'a> Engine<'a> {
    /// Lays the parameters out for batches of so many texts.
    ///
    /// # Errors
    /// A vocabulary cannot be built or takes no text; out of memory.
    pub fn new(
        spec: &'a InteractiveModel,
        parts: &'a EngineParts,
        texts: usize,
    ) -> Result<Self, SessionError> {
        let encoder = Encoder::new(spec)?;
        let predictions = spec.model.prediction_spec()?;
        let hypotheses = texts * predictions.prediction(1).num_decodes;
        let EngineParts { forward, params, step } = parts;
        let predict =
            forward.guarded(*step, || forward.predicting().predictor(params, hypotheses))?;
        let converter = converter(&predictions);
        Ok(Self { spec, parts, encoder, predictions, converter, predict })
    }

    /// The spec of the model.
    pub fn spec(&self) -> &InteractiveModel {
        self.spec
    }

    /// Converts texts to ids, in any thread.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The step of the checkpoint.
    pub fn step(&self) -> u64 {
        self.parts.step
    }

    /// The vocabulary of answers.
    pub fn vocabulary(&self) -> &dyn Vocabulary {
        self.encoder.vocabulary()
    }

    /// Fills options in with those of the model.
    ///
    /// # Errors
    /// See [`DecodingOptions::over`].
    pub fn decoding(&self, options: &DecodingOptions) -> Result<Decoding, String> {
        self.encoder.decoding(options)
    }

    /// The seed of the first samples: that of the request, or the model's.
    pub fn seed(&self, decoding: &Decoding) -> i64 {
        decoding.seed.unwrap_or(self.spec.init_random_seed)
    }

    /// Decodes the answers to each text, the best first. `watch` gets the tokens of each step, if they are final, and
    /// may end the decoding.
    ///
    /// # Errors
    /// libtorch fails.
    pub fn generate(
        &self,
        texts: &[&Asked],
        decoding: &Decoding,
        watch: &mut dyn FnMut(&[Option<i32>]) -> ControlFlow<()>,
    ) -> Result<Vec<Vec<Answer>>, SessionError> {
        let prompts = decoding.prediction.prompt_with_targets;
        let examples = texts.iter().map(|asked| {
            let mut prompt = asked.targets.clone().filter(|_| prompts).unwrap_or_default();
            // The prompt's own end would end the answer.
            prompt.retain(|id| i64::from(*id) != decoding.prediction.eos_id);
            (asked.inputs.clone(), prompt)
        });
        let batch = self.batch(examples, Some(decoding.max_tokens))?;
        let mut steps = Steps {
            skipped: self.skipped(texts),
            num_decodes: decoding.prediction.num_decodes,
            watch,
        };
        let (parts, prediction) = (self.parts, &decoding.prediction);
        let decodes = parts.forward.guarded(parts.step, || {
            let batch = Batch::from_host(&batch).to_device(parts.forward.device);
            self.predict.predict_observed(&batch, prediction, &mut steps)
        })?;
        let decodes = decodes.map_err(|error| SessionError::Spec(UnfitSpec(error.to_string())))?;
        Ok(self.answers(&decodes, decoding))
    }

    /// Computes the log-likelihood of each text's targets.
    ///
    /// # Errors
    /// libtorch fails.
    ///
    /// # Panics
    /// A text has no targets.
    pub fn score(&self, texts: &[&Asked]) -> Result<Vec<f64>, SessionError> {
        let examples = texts.iter().map(|asked| {
            let targets = asked.targets.clone().expect("the caller asks for targets");
            (asked.inputs.clone(), targets)
        });
        let batch = self.batch(examples, None)?;
        self.parts.forward.score(&self.parts.params, self.parts.step, &batch)
    }

    /// Computes the log-likelihood of each token of each text's targets, and of the `count` most probable tokens in its place.
    ///
    /// # Errors
    /// libtorch fails.
    ///
    /// # Panics
    /// A text has no targets.
    pub fn score_tokens(
        &self,
        texts: &[&Asked],
        count: usize,
    ) -> Result<Vec<Vec<TokenScores>>, SessionError> {
        let targets = |asked: &Asked| asked.targets.clone().expect("the caller asks for targets");
        let examples = texts.iter().map(|asked| (asked.inputs.clone(), targets(asked)));
        let batch = self.batch(examples, None)?;
        let EngineParts { forward, params, step } = self.parts;
        let rows = forward.scored_targets(params, *step, &batch, count)?;
        let own = |(asked, places): (&&Asked, Vec<TokenScores>)| {
            // A decoder alone has inputs and targets in one row.
            let joined = self.predictions.continues_inputs;
            let start = if joined { asked.inputs.len() } else { 0 };
            places.into_iter().skip(start).take(targets(asked).len()).collect()
        };
        Ok(texts.iter().zip(rows).map(own).collect())
    }

    /// Converts ids to the model's features; answers have so many positions, or those of the longest targets.
    fn batch(
        &self,
        examples: impl Iterator<Item = (Vec<i32>, Vec<i32>)>,
        targets_length: Option<usize>,
    ) -> Result<data::Batch, SessionError> {
        let examples: Vec<(Vec<i32>, Vec<i32>)> = examples.collect();
        let longest = |length: fn(&(Vec<i32>, Vec<i32>)) -> usize| {
            examples.iter().map(length).max().unwrap_or(0).max(1)
        };
        let (inputs, targets) = (longest(|it| it.0.len()), longest(|it| it.1.len()));
        let lengths = [("inputs", inputs), ("targets", targets_length.unwrap_or(targets))];
        let lengths: Lengths = lengths.map(|(name, length)| (name.to_string(), length)).into();
        let converter = FeatureConverter::new(
            &self.converter,
            &lengths,
            Packing::None,
            self.predictions.bos_id,
        )?;
        let examples: Vec<Example> = examples
            .into_iter()
            .map(|(inputs, targets)| {
                let features = [("inputs", inputs), ("targets", targets)];
                Example::from_iter(features.map(|(name, ids)| (Key::from(name), Value::Ints(ids))))
            })
            .collect();
        Ok(converter.batch(&examples, examples.len())?)
    }

    /// Tokens of each text that a decoder alone reads again at its first steps, because another text is shorter.
    fn skipped(&self, texts: &[&Asked]) -> Vec<usize> {
        if !self.predictions.continues_inputs {
            return vec![0; texts.len()];
        }
        let least = texts.iter().map(|asked| asked.inputs.len()).min().unwrap_or(0);
        texts.iter().map(|asked| asked.inputs.len() - least).collect()
    }

    fn answers(&self, decodes: &Decodes, decoding: &Decoding) -> Vec<Vec<Answer>> {
        let (batch, count, length) = decodes.sequences.size3().expect("sequences have three axes");
        let rows = host(&decodes.sequences.reshape([batch * count, length]));
        let scores = decodes.scores.to_kind(Kind::Double).to_device(Device::Cpu).reshape([-1]);
        let scores = Vec::<f64>::try_from(scores).expect("scores become a vector");
        let count = count as usize;
        let answer = |at: usize| {
            let ids = &rows[at][..rows[at].len().min(decoding.max_tokens)];
            let num_tokens = ids.iter().rposition(|id| *id != 0).map_or(0, |last| last + 1);
            let ids = &ids[..num_tokens];
            let text = decoding.prediction.text_of(ids, self.vocabulary());
            Answer { text, score: scores[at], ids: ids.to_vec() }
        };
        // The best is the last.
        let is_answer = |at: &usize| {
            decoding.prediction.constraint.is_none() || Decodes::is_answer(scores[*at])
        };
        let of_text = |text: usize| {
            let best_first = (0..count).rev().map(|at| text * count + at).filter(is_answer);
            best_first.take(decoding.num_answers).map(answer).collect()
        };
        (0..batch as usize).map(of_text).collect()
    }
}

/// Converts the tokens of steps to those of texts.
struct Steps<'a> {
    skipped: Vec<usize>,
    num_decodes: usize,
    watch: &'a mut dyn FnMut(&[Option<i32>]) -> ControlFlow<()>,
}

impl Observer for Steps<'_> {
    fn observe(&mut self, tokens: Option<&Tensor>) -> ControlFlow<()> {
        let Some(tokens) = tokens.filter(|_| self.num_decodes == 1) else {
            return (self.watch)(&[]);
        };
        let tokens = tokens.to_kind(Kind::Int).to_device(Device::Cpu).reshape([-1]);
        let tokens = Vec::<i32>::try_from(tokens).expect("tokens become a vector");
        let own = |(token, skipped): (i32, &mut usize)| {
            let is_inputs = *skipped > 0;
            *skipped = skipped.saturating_sub(1);
            Some(token).filter(|token| !is_inputs && *token != 0)
        };
        let tokens: Vec<Option<i32>> = tokens.into_iter().zip(&mut self.skipped).map(own).collect();
        (self.watch)(&tokens)
    }
}

/// The converter of texts: a decoder alone always continues inputs.
fn converter(predictions: &PredictionSpec) -> ConverterClass {
    match predictions.continues_inputs {
        false => predictions.converter.clone(),
        true => PrefixLMFeatureConverter { loss_on_targets_only: true, pack_before_joining: false }
            .into(),
    }
}

/// Returns the rows of an int64 matrix.
fn host(matrix: &Tensor) -> Vec<Vec<i32>> {
    let matrix = matrix.to_kind(Kind::Int).to_device(Device::Cpu);
    let row = |index| Vec::<i32>::try_from(matrix.get(index)).expect("rows are vectors");
    (0..matrix.size()[0]).map(row).collect()
}
