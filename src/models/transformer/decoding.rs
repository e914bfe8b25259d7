//! Decoding with a packed decoder, a token at a time.

use tch::{Device, Kind, Tensor};

use super::packed::PackedStack;
use super::spec::TransformerSpec;
use super::step::{CacheSize, DecoderCache, Position};
use crate::models::decoding::{DecodeError, Decodes, NextLogits, Observer, Prediction, Prompt};
use crate::nn::cuda_graph::CudaGraph;
use crate::nn::team::Team;
use crate::nn::{PackedKernel, Params, largest_columns};
use crate::telemetry;

/// A decoder with its embedding and its logits, laid out once for decoding many batches.
#[derive(Debug)]
pub struct Decoding<'a> {
    spec: &'a TransformerSpec,
    params: &'a Params,
    decoder: PackedStack,
    head: PackedKernel, // float32 [embed, vocab]
    steps_by_team: bool,
}

impl<'a> Decoding<'a> {
    /// Lays out weights for batches of about so many hypotheses.
    pub fn new(spec: &'a TransformerSpec, params: &'a Params, hypotheses: usize) -> Self {
        let (hypotheses, head) = (hypotheses as i64, spec.tokens.head_kernel(params));
        tch::no_grad(|| Self {
            spec,
            params,
            decoder: PackedStack::new(&spec.last, &spec.of_layers(params), hypotheses),
            head: PackedKernel::new(&head, hypotheses),
            // With more hypotheses, libtorch's part of a step is large enough for its threads.
            steps_by_team: PackedKernel::packs(head.device(), hypotheses),
        })
    }

    /// The decoder, which fills and reads caches.
    pub fn decoder(&self) -> &PackedStack {
        &self.decoder
    }

    /// The device of the weights.
    pub fn device(&self) -> Device {
        self.spec.tokens.head_kernel(self.params).device()
    }

    /// Creates a cache for decoding from that prompt.
    pub fn new_cache(&self, prompt: &Prompt) -> DecoderCache {
        let (batch, max_length) = prompt.inputs.size2().expect("a prompt is [batch, length]");
        let device = self.device();
        let position = Position::first(device, self.spec.last.dims.head_dim as i64);
        let size = CacheSize { hypotheses: batch * prompt.num_decodes, max_length, device };
        self.decoder.new_cache(size, position)
    }

    /// Decodes from that prompt with a cache that was made for it.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other.
    pub fn decode(
        &self,
        prompt: &Prompt,
        cache: DecoderCache,
        prediction: &Prediction,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        // T5X begins with 0, as its prompts do.
        let first = Some(prediction.bos_id).filter(|first| *first != 0);
        let mut stepper = Stepper { decoding: self, cache, recorded: None, first };
        if let Device::Cuda(index) = self.device() {
            stepper.record(index, prompt.inputs.size()[0] * prompt.num_decodes);
        }
        // Only now: a new cache needs products with whole sequences, which libtorch may compute.
        let by_team = self.steps_by_team && !prediction.decode_fn.reads_whole_distributions();
        let _team = by_team.then(Team::assemble);
        prediction.decode_fn.decode_observed(prompt, &mut stepper, observer)
    }
}

/// The decoding of one batch.
struct Stepper<'a> {
    decoding: &'a Decoding<'a>,
    cache: DecoderCache,
    recorded: Option<Recorded>,
    first: Option<i64>, // replaces the first token of every hypothesis
}

/// A step as a CUDA graph.
struct Recorded {
    graph: CudaGraph,
    tokens: Tensor, // what it reads: int64 [rows, 1]
    logits: Tensor, // what it writes: float32 [rows, vocab]
}

impl Stepper<'_> {
    /// The inputs of the head for the token after `tokens`: float32 `[rows, embed]`.
    fn head_inputs(&mut self, tokens: &Tensor) -> Tensor {
        let Decoding { spec, params, decoder, .. } = self.decoding;
        let embedded = spec.tokens.embed(params, &tokens.squeeze_dim(1)); // [rows, embed]
        spec.tokens.head_inputs(&decoder.step(embedded, &mut self.cache))
    }

    /// The tokens that the decoder reads: the first step's are the model's own.
    fn read(&mut self, tokens: &Tensor) -> Tensor {
        let first = self.first.take();
        first.map_or_else(|| tokens.shallow_clone(), |first| tokens.full_like(first))
    }

    fn step(&mut self, tokens: &Tensor) -> Tensor {
        let inputs = self.head_inputs(tokens);
        self.decoding.head.apply(&inputs)
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
        let tokens = &self.read(tokens);
        let Some(recorded) = &mut self.recorded else { return self.step(tokens) };
        recorded.tokens.copy_(tokens);
        recorded.graph.replay();
        recorded.logits.shallow_clone()
    }

    fn next_most_probable(&mut self, tokens: &Tensor) -> Tensor {
        if self.recorded.is_some() {
            return largest_columns(&self.next_logits(tokens));
        }
        let tokens = self.read(tokens);
        let inputs = self.head_inputs(&tokens);
        self.decoding.head.largest(&inputs)
    }

    fn reorder(&mut self, indices: &Tensor) {
        self.cache.reorder(indices);
    }
}
