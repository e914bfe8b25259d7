//! The mathematics of a layer: attentions and feed-forward blocks, each of which reads the norm of
//! the residual stream and adds to the stream.
//!
//! Training, whole sequences in prediction and single steps of decoding multiply by kernels in
//! different layouts ([`Product`]) and attend over different keys, but this is the layer of all three.

use tch::Tensor;

use super::spec::{FeedForwardSpec, KernelSpec, StackSpec};
use crate::nn::{
    Activation, BlockRows, Dropout, Experts, Joined, RmsNorm, RoutingReport, activated,
    add_and_norm, rms_norm,
};

/// A layer whose kernels are laid out for one way of computing.
#[derive(Debug)]
pub struct Layer<P> {
    /// The embedding of relative positions, if the layer has its own.
    pub rel_embedding: Option<Tensor>,
    side_norm: Option<RmsNorm>, // of tokens beside the sequence
    attentions: Vec<AttentionBlock<P>>,
    feed_forwards: Vec<FeedForward<P>>,
    drops_mlp_twice: bool,
}

/// An attention with the norm before it.
#[derive(Debug)]
pub struct AttentionBlock<P> {
    norm: RmsNorm,
    inputs: P, // query, and key and value unless they are the context's: [embed, num_heads * head_dim]
    /// Key and value of an encoding, if the attention reads one.
    pub context: Option<P>,
    out: P, // [num_heads * head_dim, embed]
}

/// A feed-forward block with the norm before it.
#[derive(Debug)]
enum FeedForward<P> {
    Dense(DenseBlock<P>),
    Sparse { norm: RmsNorm, experts: Experts },
}

#[derive(Debug)]
struct DenseBlock<P> {
    norm: RmsNorm,
    inputs: P,                    // [embed, mlp] for each activation
    activations: Vec<Activation>, // those that the product does not apply itself
    out: P,                       // [mlp, embed]
}

/// Kernels that multiply the same inputs.
pub trait Product {
    /// Multiplies the norm of the stream by the kernels: `[.., out]` of each.
    fn of_norm(&self, stream: &mut Stream, norm: &RmsNorm) -> Joined;

    /// Does the same with the tokens that `beside` makes of the norm, after it: `[batch, length + beside, out]` of each.
    fn of_norm_and(
        &self,
        stream: &mut Stream,
        norm: &RmsNorm,
        beside: &dyn Fn(&Tensor) -> Tensor,
    ) -> Joined;

    /// Multiplies `inputs` by the one kernel, and adds the result to the stream.
    fn add(&self, inputs: &Tensor, stream: &mut Stream);
}

/// Reads the parameters of a layer.
pub trait Load {
    /// The kernels of one product.
    type Product: Product;

    /// Reads the scale of a norm.
    fn scale(&self, path: &str) -> Tensor;

    /// Reads the scale of a norm of activations of which processes along the model axis share the work.
    fn shared_scale(&self, path: &str) -> Tensor;

    /// Reads an embedding of relative positions.
    fn rel_embedding(&self, path: &str) -> Tensor;

    /// Reads kernels with the same inputs.
    fn kernels(&self, specs: &[KernelSpec]) -> Self::Product;

    /// Reads kernels whose inputs are a whole encoding.
    fn context(&self, specs: &[KernelSpec]) -> Self::Product {
        self.kernels(specs)
    }

    /// Reads the router and the experts of a block.
    fn experts(&self, block: &FeedForwardSpec, layer: &str) -> Experts;

    /// Reads the input kernels of a feed-forward block, and returns the activations that their
    /// product leaves to do.
    fn mlp_inputs(
        &self,
        specs: &[KernelSpec],
        activations: &[Activation],
    ) -> (Self::Product, Vec<Activation>) {
        (self.kernels(specs), activations.to_vec())
    }
}

/// Facts of rows that only some stacks need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows<'a> {
    /// The positions that are not padding, for layers with experts: 1 or 0 `[batch, length, 1]`.
    pub real: Option<&'a Tensor>,
    /// The blocks by which positions attend to neighbours. `attend` then also receives the projections of tokens
    /// beside the sequence.
    pub blocks: Option<&'a BlockRows>,
}

/// The residual stream, to which the result of the last block may not be added yet: its sum and its
/// norm are one operation in training.
#[derive(Debug)]
pub struct Stream {
    /// `[.., embed]`
    pub sum: Tensor,
    /// `[.., embed]`
    pub branch: Option<Tensor>,
    /// Dropout of branches.
    pub dropout: Dropout,
    /// 1 at positions that are not padding, in stacks with experts, whose routers read padding as zeros: `[.., 1]`
    pub real: Option<Tensor>,
}

impl Stream {
    /// Adds what is not added yet, and returns the norm of the sum, 0 at padding.
    pub fn normed(&mut self, norm: &RmsNorm) -> Tensor {
        let normal = match self.branch.take() {
            None => rms_norm(&self.sum, norm),
            Some(branch) => {
                let (sum, normal) = add_and_norm(&self.sum, &branch, norm, self.dropout);
                self.sum = sum;
                normal
            }
        };
        match &self.real {
            Some(real) => normal * real,
            None => normal,
        }
    }
}

/// The result of a layer or a stack.
#[derive(Debug)]
pub struct Passed {
    /// Hidden states, `[.., embed]`.
    pub hidden: Tensor,
    /// The reports of its routers, in order.
    pub routing: Vec<RoutingReport>,
}

impl<P: Product> Layer<P> {
    /// Reads the layer of a stack with that index.
    pub fn new(spec: &StackSpec, index: usize, load: &impl Load<Product = P>) -> Self {
        let (path, dims) = (spec.layer(index), &spec.dims);
        let norm = |scale| RmsNorm { scale, epsilon: dims.layer_norm_epsilon };
        let attentions = spec.attentions.iter().map(|attention| {
            let [query, key, value, out] =
                attention.kernels(&path, dims, ["query", "key", "value", "out"]);
            let (inputs, context) = match attention.reads_encoding {
                true => (load.kernels(&[query]), Some(load.context(&[key, value]))),
                false => (load.kernels(&[query, key, value]), None),
            };
            let norm = norm(load.scale(&attention.scale(&path)));
            AttentionBlock { norm, inputs, context, out: load.kernels(&[out]) }
        });
        let attentions = attentions.collect();
        let feed_forwards = spec.feed_forwards(index).into_iter().map(|block| {
            let norm = norm(load.scale(&block.scale(&path)));
            if block.experts.is_some() {
                return FeedForward::Sparse { norm, experts: load.experts(&block, &path) };
            }
            let (inputs, activations) = load.mlp_inputs(&block.inputs(&path), &block.activations);
            let out = load.kernels(&[block.output(&path)]);
            FeedForward::Dense(DenseBlock { norm, inputs, activations, out })
        });
        let rel_embedding = spec.own_rel_embedding(&path).map(|path| load.rel_embedding(&path));
        Self {
            rel_embedding,
            side_norm: spec.side_norm(&path).map(|path| norm(load.shared_scale(&path))),
            attentions,
            feed_forwards: feed_forwards.collect(),
            drops_mlp_twice: dims.drops_mlp_twice,
        }
    }

    /// Whether its products apply the activations too.
    pub fn is_all_products(&self) -> bool {
        self.feed_forwards.iter().all(|block| match block {
            FeedForward::Dense(block) => block.activations.is_empty(),
            FeedForward::Sparse { .. } => false,
        })
    }

    /// Kernels of keys and values of an encoding, of each attention that reads one.
    pub fn contexts(&self) -> impl Iterator<Item = &P> {
        self.attentions.iter().filter_map(|block| block.context.as_ref())
    }

    /// Maps hidden states `[.., embed]` to the same shape. `attend` returns the averages of an
    /// attention, heads joined, from the projections of its inputs. `real` is 1 at positions that are not padding, in
    /// stacks with experts: `[.., 1]`
    pub fn forward(
        &self,
        hidden: Tensor,
        rows: Rows<'_>,
        dropout: Dropout,
        attend: &mut dyn FnMut(&AttentionBlock<P>, Joined) -> Tensor,
    ) -> Passed {
        let mut routing = Vec::new();
        let Rows { real, blocks } = rows;
        let real = real.map(Tensor::shallow_clone);
        let mut stream = Stream { sum: hidden, branch: None, dropout, real };
        for block in &self.attentions {
            let projected = match blocks.zip(self.side_norm.as_ref()) {
                None => block.inputs.of_norm(&mut stream, &block.norm),
                Some((blocks, norm)) => {
                    let beside = |normal: &Tensor| rms_norm(&blocks.side_sums(normal), norm);
                    block.inputs.of_norm_and(&mut stream, &block.norm, &beside)
                }
            };
            block.out.add(&attend(block, projected), &mut stream);
        }
        for block in &self.feed_forwards {
            match block {
                FeedForward::Dense(block) => {
                    let inputs = block.inputs.of_norm(&mut stream, &block.norm);
                    let product = activated(&block.activations, &inputs);
                    block.out.add(&dropout.apply_to_columns(product), &mut stream);
                    if self.drops_mlp_twice {
                        let again = |branch| dropout.apply_along_length(branch);
                        stream.branch = stream.branch.map(again);
                    }
                }
                FeedForward::Sparse { norm, experts } => {
                    let normal = stream.normed(norm);
                    let (result, report) = experts.forward(&normal, dropout);
                    stream.sum = dropout.add_along_length(&stream.sum, &result);
                    routing.push(report);
                }
            }
        }
        let hidden = match stream.branch {
            Some(branch) => dropout.add_along_length(&stream.sum, &branch),
            None => stream.sum,
        };
        Passed { hidden, routing }
    }
}
