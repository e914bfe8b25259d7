//! The questions that every part of a layer answers.

use super::kernel::param;
use super::work::ForwardWork;
use crate::nn::{Dtype, Initializer, NormKind, ParamSpec};
use crate::partition::Mesh;

/// The residual stream, which a part reads and to which it adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamDims {
    /// Its width.
    pub emb_dim: usize,
    /// Format of activations.
    pub dtype: Dtype,
    /// Its norms.
    pub norm: NormSpec,
    /// Whether projections that read it or add to it have biases.
    pub has_biases: bool,
}

/// The norms of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormSpec {
    /// Their kind.
    pub kind: NormKind,
    /// Whether a part normalizes the stream after it has added to it, as in the first Transformers, instead of what it reads
    /// of the stream.
    pub comes_after: bool,
    /// The addend of the mean square or the variance.
    pub epsilon: f64,
    /// The initial values of their scales. Those of their biases are 0.
    pub initializer: Initializer,
}

/// Rows of a microbatch on their way through a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tokens {
    /// Rows.
    pub rows: usize,
    /// Their length.
    pub length: usize,
    /// Length of the encoding that the stack reads; 0 for none.
    pub encoding: usize,
    /// Number of processes that compute such rows at the same time.
    pub num_processes: usize,
}

/// The facts about a pass that the rows do not tell.
#[derive(Clone, Copy, Debug)]
pub struct PassContext<'a> {
    /// The processes that share it.
    pub mesh: &'a Mesh,
    /// Whether activations are dropped.
    pub is_dropped: bool,
}

/// A part of a layer with the norm before it. Numbers are floats, which cannot overflow.
pub trait Part {
    /// Its parameters in the layer of that path.
    fn params(&self, layer: &str) -> Vec<ParamSpec>;

    /// Floating-point operations of a forward pass in products of matrices.
    fn flops(&self, tokens: Tokens) -> f64;

    /// Adds the work of a forward pass through so many such parts; the stream's reads and writes are the stack's work.
    fn add_work(&self, tokens: Tokens, count: f64, on: PassContext<'_>, work: &mut ForwardWork);

    /// Bytes of the tensors that are kept for the backward pass, but those with a number for each pair of positions.
    fn kept(&self, tokens: Tokens, is_dropped: bool) -> f64;

    /// Bytes of the results of projections alone, which the policy 'minimal' keeps.
    fn kept_of_projections(&self, tokens: Tokens) -> f64;

    /// Numbers of kernels that lie side by side for one product.
    fn joined_numbers(&self) -> f64;

    /// Bytes of the buffers that processes along the data axis exchange in one direction.
    fn exchanged(&self, _: Tokens) -> f64 {
        0.0
    }

    /// Bytes of the gradients of parameters that all processes along the model axis share.
    fn shared_gradients(&self) -> f64 {
        0.0
    }
}

impl StreamDims {
    /// Bytes of a number.
    pub fn size(&self) -> f64 {
        self.dtype.size() as f64
    }

    /// The parameters of the norm of that path.
    pub fn norm_params(&self, path: &str) -> Vec<ParamSpec> {
        let vector = |name, initializer| {
            param(format!("{path}/{name}"), vec![self.emb_dim], vec!["embed"], initializer)
        };
        let bias = (self.norm.kind == NormKind::Layer).then(|| vector("bias", Initializer::ZEROS));
        [vector("scale", self.norm.initializer)].into_iter().chain(bias).collect()
    }

    /// The bias of a projection to a width with that axis, if projections have biases.
    pub fn bias(&self, path: &str, width: usize, axis: &'static str) -> Option<ParamSpec> {
        let bias = || param(format!("{path}/bias"), vec![width], vec![axis], Initializer::ZEROS);
        self.has_biases.then(bias)
    }

    /// Bytes of a norm's input and result.
    pub fn norm(&self, tokens: Tokens) -> f64 {
        2.0 * self.size() * tokens.count() * self.emb_dim as f64
    }
}

impl Tokens {
    /// Positions of all rows.
    pub fn count(&self) -> f64 {
        (self.rows * self.length) as f64
    }

    /// Positions of the encoding of all rows.
    pub fn encoded(&self) -> f64 {
        (self.rows * self.encoding) as f64
    }
}
