//! The description of a Transformer's tables of tokens, and what follows from it.

use crate::models::parts::{ForwardWork, MatrixProducts, StreamDims, kernel, param};
use crate::nn::{Initializer, ParamSpec};

/// The first values of T5's embedding of tokens.
pub const EMBEDDING_INIT: Initializer = Initializer::Normal { stddev: 1.0 };

/// Passes over logits in float32, forward and backward: written, read for sums, read for probabilities, and twice for
/// gradients. A pass here is a third of the whole, as for everything else.
const LOGIT_PASSES: f64 = 5.0 / 3.0;

/// The embedding that all stacks share, and the kernel that maps the last stack's result to logits.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenEmbedding {
    /// Path of the embedding.
    pub path: &'static str,
    /// Its rows.
    pub vocab_size: usize,
    /// The stream that it begins.
    pub stream: StreamDims,
    /// The initial values of the embedding.
    pub initializer: Initializer,
    /// Whether the row of padding, the first one, learns from inputs.
    pub learns_padding: bool,
    /// The logits' own kernel; None if the embedding also maps to logits (T5 1.0).
    pub logits: Option<LogitsKernel>,
}

/// A kernel of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogitsKernel {
    /// Its path, without `/kernel`.
    pub path: &'static str,
    /// Its initial values.
    pub initializer: Initializer,
}

impl LogitsKernel {
    /// The kernel after a decoder.
    pub fn of_decoder(initializer: Initializer) -> Self {
        Self { path: "decoder/logits_dense", initializer }
    }
}

impl TokenEmbedding {
    /// Its parameters: `[vocab, embed]`, and with a kernel of logits `[embed, vocab]`.
    pub fn params(&self) -> Vec<ParamSpec> {
        let (vocab_size, emb_dim) = (self.vocab_size, self.stream.emb_dim);
        let (shape, axes) = (vec![vocab_size, emb_dim], vec!["vocab", "embed"]);
        let logits = |logits: LogitsKernel| {
            kernel(logits.path, [emb_dim, vocab_size], ["embed", "vocab"], logits.initializer)
        };
        let embedding = param(self.table(), shape, axes, self.initializer);
        [embedding].into_iter().chain(self.logits.map(logits)).collect()
    }

    /// The name of the parameter that logits are products with.
    pub fn head_param(&self) -> String {
        self.logits.map_or_else(|| self.table(), |logits| format!("{}/kernel", logits.path))
    }

    /// Numbers of its parameters.
    pub fn num_params(&self) -> u64 {
        self.params().iter().map(ParamSpec::num_elements).sum()
    }

    /// Name of the embedding.
    pub fn table(&self) -> String {
        format!("{}/embedding", self.path)
    }

    /// Floating-point operations of the logits of so many positions.
    pub fn flops(&self, positions: usize) -> f64 {
        2.0 * (positions * self.vocab_size) as f64 * self.stream.emb_dim as f64
    }

    /// Adds the work of the logits of so many positions, whose columns so many processes divide.
    pub fn add_work(&self, positions: usize, num_shares: usize, work: &mut ForwardWork) {
        let [rows, inner, columns] =
            [positions, self.stream.emb_dim, self.vocab_size.div_ceil(num_shares)]
                .map(|number| number as f64);
        // The head multiplies in the format of activations, and leaves float32.
        work.products.push(MatrixProducts {
            rows,
            inner,
            columns,
            num_kernels: 1.0,
            count: 1.0,
            is_projection: false,
        });
        work.stream_bytes += LOGIT_PASSES * 4.0 * rows * columns;
    }
}
