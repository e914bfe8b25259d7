//! Batches of named tensors: the inputs of a model for one step, on its device.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::row_facts::RowFacts;
use crate::data::{self, BatchValues};
use crate::nn::RunsShape;

/// Names of model features, as SeqIO's converters write them. Tokens are int64 `[batch, length]`, and padding is 0.
pub mod feature {
    /// The encoder's tokens.
    pub const ENCODER_INPUT_TOKENS: &str = "encoder_input_tokens";
    /// The example of each of the encoder's positions in a packed row: 1, 2, ..., and 0 for padding.
    pub const ENCODER_SEGMENT_IDS: &str = "encoder_segment_ids";
    /// The tokens that an encoder predicts where its inputs are masked.
    pub const ENCODER_TARGET_TOKENS: &str = "encoder_target_tokens";
    /// The weight of each of them in the loss, float32.
    pub const ENCODER_LOSS_WEIGHTS: &str = "encoder_loss_weights";
    /// The type of each of an encoder's tokens, such as the first or the second text.
    pub const ENCODER_TOKEN_TYPES: &str = "encoder_token_types";
    /// Position of each of an encoder's tokens in its example, from 0 on, in packed batches.
    pub const ENCODER_POSITIONS: &str = "encoder_positions";
    /// 1 if the second text of a row comes before the first, else 0: `[batch, 1]`.
    pub const NEXT_SENTENCE_LABEL: &str = "next_sentence_label";
    /// The decoder's targets moved right by one, 0 at the start of each example.
    pub const DECODER_INPUT_TOKENS: &str = "decoder_input_tokens";
    /// The tokens to predict.
    pub const DECODER_TARGET_TOKENS: &str = "decoder_target_tokens";
    /// The weight of each target in the loss, float32.
    pub const DECODER_LOSS_WEIGHTS: &str = "decoder_loss_weights";
    /// The example of each of the decoder's positions in a packed row.
    pub const DECODER_SEGMENT_IDS: &str = "decoder_segment_ids";
    /// 1 for each right answer of an example, else 0: `[batch, answers]`. Other features then have the answers one after another.
    pub const IS_CORRECT: &str = "is_correct";
    /// 1 at positions of a prefix, which may attend to all of it.
    pub const DECODER_CAUSAL_ATTENTION: &str = "decoder_causal_attention";
}

/// The sizes of a batch, and of the runs in its rows: work that was launched for one batch can be done for others of its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchShape {
    features: Vec<(String, Vec<i64>, Kind)>,
    facts: Option<[Option<RunsShape>; 3]>,
}

/// Model features by name, each `[batch, length]`. Weights are float32, everything else int64.
#[derive(Debug)]
pub struct Batch {
    features: BTreeMap<String, Tensor>,
    facts: Option<RowFacts>,
}

impl Batch {
    /// A batch of these features.
    ///
    /// # Panics
    /// The features differ in their number of rows.
    pub fn new<N: Into<String>>(features: impl IntoIterator<Item = (N, Tensor)>) -> Self {
        let features: BTreeMap<String, Tensor> =
            features.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
        let mut rows = features.values().map(|tensor| tensor.size()[0]);
        let first = rows.next();
        assert!(rows.all(|count| Some(count) == first), "features have as many rows");
        Self { features, facts: None }
    }

    /// Converts a batch from the data pipeline to tensors, on the CPU.
    pub fn from_host(batch: &data::Batch) -> Self {
        Self::new(batch.features.iter().map(|feature| {
            let tensor = match &feature.values {
                BatchValues::Ints(values) => Tensor::from_slice(values),
                BatchValues::Floats(values) => Tensor::from_slice(values),
            };
            let weighs = feature.name.ends_with("weights");
            let kind = if weighs { Kind::Float } else { Kind::Int64 };
            (&*feature.name, tensor.view([batch.rows as i64, -1]).to_kind(kind))
        }))
    }

    /// The feature of that name, if the batch has it.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.features.get(name)
    }

    /// The feature of that name.
    ///
    /// # Panics
    /// The batch has none, because it comes from another model's converter.
    pub fn tensor(&self, name: &str) -> &Tensor {
        self.get(name).unwrap_or_else(|| {
            let names: Vec<&str> = self.features.keys().map(String::as_str).collect();
            panic!("the batch has no `{name}`, but {}", names.join(", "))
        })
    }

    /// Length of a feature.
    ///
    /// # Panics
    /// As [`Batch::tensor`].
    pub fn length(&self, name: &str) -> i64 {
        self.tensor(name).size()[1]
    }

    /// Number of rows.
    pub fn num_rows(&self) -> i64 {
        self.features.values().next().map_or(0, |tensor| tensor.size()[0])
    }

    /// Facts about the rows, once the batch is on a CUDA device; [`Batch::to_device`] computes them.
    pub fn facts(&self) -> Option<&RowFacts> {
        self.facts.as_ref()
    }

    /// The same batch with another feature, or another value of one.
    pub fn with(mut self, name: &str, tensor: Tensor) -> Self {
        self.features.insert(name.to_string(), tensor);
        Self { facts: None, ..self }
    }

    /// The same batch on `device`.
    pub fn to_device(&self, device: Device) -> Self {
        let here = self.features.values().next().map_or(device, Tensor::device);
        let facts = match (here, device) {
            (here, there) if here == there => self.facts.clone(),
            (Device::Cpu, Device::Cuda(_)) => Some(RowFacts::of(self, device)),
            _ => None,
        };
        Self { facts, ..self.map(|tensor| tensor.to_device(device)) }
    }

    /// The facts that the host knows of the batch when it launches work on it.
    pub fn shape(&self) -> BatchShape {
        let of = |(name, tensor): (&String, &Tensor)| (name.clone(), tensor.size(), tensor.kind());
        let facts = self.facts.as_ref().map(RowFacts::shape);
        BatchShape { features: self.features.iter().map(of).collect(), facts }
    }

    /// The same in memory of its own.
    pub fn copied(&self) -> Self {
        Self { facts: self.facts.as_ref().map(RowFacts::copied), ..self.map(Tensor::copy) }
    }

    /// Writes another batch of the same shape into the memory of this one.
    pub fn take(&self, other: &Self) {
        for (own, other) in self.features.values().zip(other.features.values()) {
            own.shallow_clone().copy_(other);
        }
        if let (Some(own), Some(other)) = (&self.facts, &other.facts) {
            own.take(other);
        }
    }

    /// Rows `start .. start + count`, as views: a microbatch.
    pub fn rows(&self, start: i64, count: i64) -> Self {
        self.map(|tensor| tensor.narrow(0, start, count))
    }

    fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        let features = self.features.iter().map(|(name, tensor)| (name.clone(), change(tensor)));
        Self { features: features.collect(), facts: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_on_the_host_has_no_facts() {
        let batch = Batch::new([("x", Tensor::from_slice2(&[[1i64; 3]; 2]))]);
        assert!(batch.to_device(Device::Cpu).facts().is_none());
        assert_eq!(batch.rows(1, 1).num_rows(), 1);
    }

    #[test]
    #[should_panic(expected = "the batch has no `encoder_input_tokens`, but x")]
    fn a_missing_feature_is_named() {
        let batch = Batch::new([("x", Tensor::from_slice2(&[[1i64; 3]; 2]))]);
        let _ = batch.tensor(feature::ENCODER_INPUT_TOKENS);
    }
}
