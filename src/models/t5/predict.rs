//! Autoregressive decoding of a batch with cached keys and values.

use tch::{Device, Kind, Tensor};

use super::model::T5;
use super::packed_encoder::PackedEncoder;
use super::spec::T5Config;
use super::step::{CacheInputs, DecoderCache, Position, StepDecoder};
use crate::models::Batch;
use crate::models::decoding::{DecodeError, Decodes, NextLogits, Prediction, Prompt};
use crate::nn::cuda_graph::CudaGraph;
use crate::nn::team::Team;
use crate::nn::{Dropout, PackedKernel, Params, kind};
use crate::telemetry;

/// A model for decoding many batches: its weights, laid out once for that.
#[derive(Debug)]
pub struct Predictor<'a> {
    t5: &'a T5,
    params: &'a Params,
    encoder: Option<PackedEncoder>, // where it is faster than the one that trains
    decoder: StepDecoder,
    head: PackedKernel, // float32 [embed, vocab]
    steps_by_team: bool,
}

/// Returns a parameter in the compute dtype; queries are divided by the divisor of their scores.
pub(super) fn prediction_kernel(config: &T5Config, params: &Params, name: &str) -> Tensor {
    let kernel = params.cast(name, kind(config.dtype));
    let scaled = config.scale_attn_logits && name.ends_with("query/kernel");
    if scaled { kernel / (config.head_dim as f64).sqrt() } else { kernel }
}

impl T5 {
    /// Creates a predictor for batches of about so many hypotheses, which is rows times decodes.
    pub fn predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Predictor<'a> {
        let hypotheses = hypotheses as i64;
        tch::no_grad(|| {
            let config = self.config();
            let head = self.head_kernel(params);
            let packed = PackedEncoder::suits(config, head.device());
            Predictor {
                t5: self,
                params,
                encoder: packed.then(|| PackedEncoder::new(config, params)),
                decoder: StepDecoder::new(config, params, hypotheses),
                head: PackedKernel::new(&head, hypotheses),
                // With more hypotheses, libtorch's part of a step is large enough for its threads.
                steps_by_team: hypotheses <= PackedKernel::FEW_ROWS
                    && PackedKernel::packs(head.kind(), head.device(), hypotheses),
            }
        })
    }

    /// Predicts with a [`Predictor`] for this batch alone. Source: T5X `models.py`.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other.
    pub fn predict_batch_with_aux(
        &self,
        params: &Params,
        batch: &Batch,
        prediction: &Prediction,
    ) -> Result<Decodes, DecodeError> {
        let hypotheses = batch.dims().0 as usize * prediction.num_decodes;
        self.predictor(params, hypotheses).predict(batch, prediction)
    }
}

impl Predictor<'_> {
    /// Encodes `inputs` `[batch, inputs_length]`, in which 0 is padding: `[batch, inputs_length, embed]`.
    pub fn encode(&self, inputs: &Tensor) -> Tensor {
        let Some(encoder) = &self.encoder else {
            return self.t5.encode(self.params, inputs, Dropout::off());
        };
        let _team = encoder.is_all_packed().then(Team::assemble);
        encoder.forward(&self.t5.embed(self.params, inputs), &inputs.gt(0))
    }

    /// Sequences for every row of `batch`, worst to best, as long as its targets. Sampling draws from
    /// torch's generator.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other.
    pub fn predict(&self, batch: &Batch, prediction: &Prediction) -> Result<Decodes, DecodeError> {
        tch::no_grad(|| {
            let inputs = &batch.decoder_input_tokens;
            let prompt = if prediction.prompt_with_targets {
                // An end token in the prompt would end the sequence there.
                inputs * inputs.ne(prediction.eos_id)
            } else {
                inputs.zeros_like()
            };
            let prompt = Prompt {
                inputs: prompt,
                eos_id: prediction.eos_id,
                num_decodes: prediction.num_decodes as i64,
            };
            let mut stepper = Stepper::new(self, &batch.encoder_input_tokens, &prompt);
            // Only now: a new cache needs products with whole sequences, which libtorch may
            // compute.
            let by_team = self.steps_by_team && !prediction.decode_fn.reads_whole_distributions();
            let _team = by_team.then(Team::assemble);
            prediction.decode_fn.decode(&prompt, &mut stepper)
        })
    }
}

/// The decoding of one batch.
struct Stepper<'a> {
    predictor: &'a Predictor<'a>,
    cache: DecoderCache,
    recorded: Option<Recorded>,
}

/// A step as a CUDA graph.
struct Recorded {
    graph: CudaGraph,
    tokens: Tensor, // what it reads: int64 [rows, 1]
    logits: Tensor, // what it writes: float32 [rows, vocab]
}

impl<'a> Stepper<'a> {
    fn new(predictor: &'a Predictor<'a>, inputs: &Tensor, prompt: &Prompt) -> Self {
        let (device, beams) = (inputs.device(), prompt.num_decodes);
        let encoded = predictor.encode(inputs);
        let rows = inputs.size()[0] * beams;
        let (real, max_length) = (&inputs.gt(0), prompt.inputs.size()[1]);
        let inputs = CacheInputs { encoded: &encoded, real, beams, max_length };
        let position = match device {
            Device::Cuda(_) => Position::OnDevice(Tensor::zeros([1], (Kind::Int64, device))),
            _ => Position::Counted(0),
        };
        let cache = predictor.decoder.new_cache(&inputs, position);
        let mut stepper = Self { predictor, cache, recorded: None };
        if let Device::Cuda(index) = device {
            stepper.record(index, rows);
        }
        stepper
    }

    fn step(&mut self, tokens: &Tensor) -> Tensor {
        let Predictor { t5, params, decoder, head, .. } = self.predictor;
        let embedded = t5.embed(params, &tokens.squeeze_dim(1)); // [rows, embed]
        let hidden = decoder.step(embedded, &mut self.cache);
        head.apply(&t5.head_inputs(&hidden))
    }

    /// Records a step, which has a thousand small kernels that run for less time than their
    /// launches take.
    fn record(&mut self, device: usize, rows: i64) {
        let tokens = Tensor::zeros([rows, 1], (Kind::Int64, Device::Cuda(device)));
        let mut logits = Tensor::new();
        match CudaGraph::capture(device, &mut || logits = self.step(&tokens)) {
            Ok(graph) => self.recorded = Some(Recorded { graph, tokens, logits }),
            Err(error) => telemetry::warn(&format!("decoding without a CUDA graph: {error}")),
        }
        // The first of the two runs of the step advanced the cache.
        self.cache.restart();
    }
}

impl NextLogits for Stepper<'_> {
    /// Returns the logits; on CUDA the same tensor every time, which the next step overwrites.
    fn next_logits(&mut self, tokens: &Tensor) -> Tensor {
        let Some(recorded) = &mut self.recorded else { return self.step(tokens) };
        recorded.tokens.copy_(tokens);
        recorded.graph.replay();
        recorded.logits.shallow_clone()
    }

    fn reorder(&mut self, indices: &Tensor) {
        self.cache.reorder(indices);
    }
}
