//! Autoregressive decoding of a batch with cached keys and values.

use tch::{Device, Kind, Tensor};

use super::model::T5;
use super::step::{CacheInputs, DecoderCache, Position, StepDecoder};
use crate::models::Batch;
use crate::models::decoding::{DecodeError, Decodes, NextLogits, Prediction, Prompt};
use crate::nn::cuda_graph::CudaGraph;
use crate::nn::{Dropout, PackedKernel, Params};
use crate::telemetry;

impl T5 {
    /// Sequences for every row of `batch`, worst to best, as long as its targets. Sampling draws from
    /// torch's generator. Source: T5X `models.py`, `predict_batch_with_aux`.
    pub fn predict_batch_with_aux(
        &self,
        params: &Params,
        batch: &Batch,
        prediction: &Prediction,
    ) -> Result<Decodes, DecodeError> {
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
            let tokens = &batch.encoder_input_tokens;
            let mut stepper = Stepper::new(self, params, tokens, &prompt);
            prediction.decode_fn.decode(&prompt, &mut stepper)
        })
    }
}

/// A decoder with its cache.
struct Stepper<'a> {
    t5: &'a T5,
    params: &'a Params,
    decoder: StepDecoder,
    head: PackedKernel, // float32 [embed, vocab]
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
    fn new(t5: &'a T5, params: &'a Params, inputs: &Tensor, prompt: &Prompt) -> Self {
        let (device, beams) = (inputs.device(), prompt.num_decodes);
        let encoded = t5.encode(params, inputs, Dropout::off());
        let rows = inputs.size()[0] * beams;
        let decoder = StepDecoder::new(t5.config(), params, rows);
        let (real, max_length) = (&inputs.gt(0), prompt.inputs.size()[1]);
        let inputs = CacheInputs { encoded: &encoded, real, beams, max_length };
        let position = match device {
            Device::Cuda(_) => Position::OnDevice(Tensor::zeros([1], (Kind::Int64, device))),
            _ => Position::Counted(0),
        };
        let cache = decoder.new_cache(&inputs, position);
        let head = PackedKernel::new(&t5.head_kernel(params), rows);
        let mut stepper = Self { t5, params, decoder, head, cache, recorded: None };
        if let Device::Cuda(index) = device {
            stepper.record(index, rows);
        }
        stepper
    }

    fn step(&mut self, tokens: &Tensor) -> Tensor {
        let embedded = self.t5.embed(self.params, &tokens.squeeze_dim(1)); // [rows, embed]
        let hidden = self.decoder.step(embedded, &mut self.cache);
        self.head.apply(&self.t5.head_inputs(&hidden))
    }

    /// A step is a thousand small kernels, which take less time than starting them does.
    fn record(&mut self, device: usize, rows: i64) {
        let tokens = Tensor::zeros([rows, 1], (Kind::Int64, Device::Cuda(device)));
        let mut logits = Tensor::new();
        match CudaGraph::capture(device, &mut || logits = self.step(&tokens)) {
            Ok(graph) => self.recorded = Some(Recorded { graph, tokens, logits }),
            Err(error) => telemetry::warn(&format!("decoding without a CUDA graph: {error}")),
        }
        // The first of the two runs of the step was a real one.
        self.cache.restart();
    }
}

impl NextLogits for Stepper<'_> {
    /// On CUDA the same tensor every time, which the next step overwrites.
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
