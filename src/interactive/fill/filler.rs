//! The model with its parameters: finds the likeliest pieces for masks.

use serde::Serialize;
use tch::{Device, Kind, Tensor};

use crate::interactive::engine::EngineParts;
use crate::interactive::lines::Asked;
use crate::interactive::spec::InteractiveModel;
use crate::models::heads::Likeliest;
use crate::models::{Batch, feature};
use crate::session::error::SessionError;
use crate::vocab::PAD_ID;

use super::encoder::FillEncoder;

/// A piece for a mask.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Piece {
    /// The piece as the vocabulary lists it: one that continues a word begins with `##`.
    pub token: String,
    /// Its probability among all of the model's tokens.
    pub probability: f64,
}

/// A model that fills the masks of many batches.
pub struct Filler<'a> {
    spec: &'a InteractiveModel,
    parts: &'a EngineParts,
    encoder: FillEncoder,
}

impl<'a> Filler<'a> {
    /// A filler with the parameters and the tokenizer of a model.
    pub fn new(spec: &'a InteractiveModel, parts: &'a EngineParts, encoder: FillEncoder) -> Self {
        Self { spec, parts, encoder }
    }

    /// The spec of the model.
    pub fn spec(&self) -> &InteractiveModel {
        self.spec
    }

    /// The step of the checkpoint.
    pub fn step(&self) -> u64 {
        self.parts.step
    }

    /// Converts texts to ids, in any thread.
    pub fn encoder(&self) -> &FillEncoder {
        &self.encoder
    }

    /// Finds the `topk` likeliest pieces, or all if there are fewer, for each mask of each text, the likeliest first.
    ///
    /// # Errors
    /// libtorch fails.
    ///
    /// # Panics
    /// No text has a mask.
    pub fn fill(
        &self,
        texts: &[&Asked],
        topk: usize,
    ) -> Result<Vec<Vec<Vec<Piece>>>, SessionError> {
        let (ids, length) = padded(texts);
        let masks: Vec<Vec<usize>> =
            texts.iter().map(|asked| self.encoder.masks(asked).collect()).collect();
        let in_batch = |(row, places): (usize, &Vec<usize>)| {
            places.iter().map(|place| (row * length + place) as i64).collect::<Vec<_>>()
        };
        let positions: Vec<i64> = masks.iter().enumerate().flat_map(in_batch).collect();
        let tokens = Tensor::from_slice(&ids).to_kind(Kind::Int64);
        let tokens = tokens.view([texts.len() as i64, length as i64]);
        let count = topk.min(self.encoder.num_pieces());
        let mut pieces = self.likeliest(tokens, &positions, count)?.into_iter();
        let mut of_mask = || pieces.by_ref().take(count).collect();
        Ok(masks.iter().map(|places| places.iter().map(|_| of_mask()).collect()).collect())
    }

    /// The `count` likeliest pieces of each position, one position after another. `tokens` is int64 `[texts, length]`, and the
    /// positions are those of a batch as one row.
    fn likeliest(
        &self,
        tokens: Tensor,
        positions: &[i64],
        count: usize,
    ) -> Result<Vec<Piece>, SessionError> {
        let EngineParts { forward, params, step } = self.parts;
        let num_pieces = self.encoder.num_pieces() as i64;
        let found = forward.guarded(*step, || {
            tch::no_grad(|| {
                let features = [(feature::ENCODER_INPUT_TOKENS, tokens)];
                let batch = Batch::new(features).to_device(forward.device);
                let positions = Tensor::from_slice(positions).to_device(forward.device);
                let head = forward.filling().head_at(params, &batch, &positions);
                let Likeliest { probabilities, tokens } = head.likeliest(num_pieces, count as i64);
                [probabilities.to_kind(Kind::Double), tokens]
                    .map(|found| found.to_device(Device::Cpu).reshape(-1))
            })
        })?;
        let vector = "a tensor becomes a vector";
        let probabilities = Vec::<f64>::try_from(&found[0]).expect(vector);
        let tokens = Vec::<i64>::try_from(&found[1]).expect(vector);
        let piece = |(token, probability): (i64, f64)| Piece {
            token: self.encoder.piece(token as i32),
            probability,
        };
        Ok(tokens.into_iter().zip(probabilities).map(piece).collect())
    }
}

/// The ids of texts as one row each, padded to the longest.
fn padded(texts: &[&Asked]) -> (Vec<i32>, usize) {
    let length = texts.iter().map(|asked| asked.inputs.len()).max().unwrap_or(0);
    let row = |asked: &&Asked| {
        let mut row = asked.inputs.clone();
        row.resize(length, PAD_ID);
        row
    };
    (texts.iter().flat_map(row).collect(), length)
}
