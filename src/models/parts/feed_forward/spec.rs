//! The description of a feed-forward block, and what follows from it.

use crate::models::parts::experts::ExpertsBlock;
use crate::models::parts::{
    ForwardWork, KernelScale, KernelSpec, MatrixProducts, Part, PassContext, ScaledSide,
    StreamDims, Tokens, kernel,
};
use crate::nn::{Activation, ExpertsSpec, Initializer, ParamSpec, RoutingMode};

/// A feed-forward block of a layer, with the norm before it.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForwardSpec {
    /// Name of the norm.
    pub norm: &'static str,
    /// Name of the block.
    pub name: &'static str,
    /// Width between its two projections.
    pub dim: usize,
    /// One activation for each of its input projections.
    pub activations: Vec<Activation>,
    /// The experts, of which each has two such projections, if it is a block of experts.
    pub experts: Option<ExpertsSpec>,
}

/// A feed-forward block as a part of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward {
    /// The block.
    pub spec: FeedForwardSpec,
    /// The stream.
    pub stream: StreamDims,
    /// The initial values of its kernels, but those of experts.
    pub initializer: Initializer,
    /// The dropouts of a block without experts, besides that of every part's result.
    pub drops: FeedForwardDropout,
    /// Whether a learned vector multiplies what is between the projections of a block without experts.
    pub has_scales: bool,
}

/// The places of a feed-forward block in which activations are dropped, besides the result of every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForwardDropout {
    /// None (BERT).
    Nowhere,
    /// Between its two projections (T5).
    Between,
    /// There, and its result once more (LongT5).
    BetweenAndAfter,
}

impl FeedForwardSpec {
    /// Path of the norm in the layer of that path.
    pub fn norm(&self, layer: &str) -> String {
        format!("{layer}/{}", self.norm)
    }

    /// The input kernels: `wi`, or `wi_0`, `wi_1`, ...
    pub fn inputs(&self, layer: &str) -> Vec<KernelSpec> {
        let name = |index: usize| match self.activations.len() {
            1 => "wi".to_string(),
            _ => format!("wi_{index}"),
        };
        let path = |index| format!("{}/{}", self.path(layer), name(index));
        let kernel =
            |index| KernelSpec { path: path(index), divisor: None, has_bias: false, scale: None };
        (0..self.activations.len()).map(kernel).collect()
    }

    /// The output kernel.
    pub fn output(&self, layer: &str) -> KernelSpec {
        let path = format!("{}/wo", self.path(layer));
        KernelSpec { path, divisor: None, has_bias: false, scale: None }
    }

    /// Path of the router's projection in the layer of that path.
    pub fn router(&self, layer: &str) -> String {
        format!("{layer}/{}/router/router_weights/w", self.name)
    }

    fn path(&self, layer: &str) -> String {
        match self.experts {
            Some(_) => format!("{layer}/{}/expert", self.name),
            None => format!("{layer}/{}", self.name),
        }
    }
}

impl FeedForward {
    /// Returns the number of places that tokens have at experts in training, or of the tokens without experts.
    pub fn places(&self, tokens: Tokens) -> f64 {
        let Tokens { rows, length, num_processes, .. } = tokens;
        let places = match &self.spec.experts {
            None => rows * length,
            Some(experts) => {
                let groups = experts.groups((rows, length), num_processes, RoutingMode::Training);
                experts.num_experts * groups.count * groups.capacity
            }
        };
        places as f64
    }

    /// The input kernels of a block without experts.
    pub(super) fn inputs(&self, layer: &str) -> Vec<KernelSpec> {
        let has_bias = self.stream.has_biases;
        let with_bias = |kernel| KernelSpec { has_bias, ..kernel };
        self.spec.inputs(layer).into_iter().map(with_bias).collect()
    }

    /// The output kernel of a block without experts.
    pub(super) fn output(&self, layer: &str) -> KernelSpec {
        let scale = self.has_scales.then(|| {
            let path = format!("{}/intermediate_conv", self.spec.path(layer));
            KernelScale::new(&path, ScaledSide::Inputs)
        });
        KernelSpec { has_bias: self.stream.has_biases, scale, ..self.spec.output(layer) }
    }

    fn experts(&self) -> Option<ExpertsBlock<'_>> {
        self.spec.experts.as_ref().map(|experts| ExpertsBlock(self, experts))
    }
}

impl Part for FeedForward {
    fn params(&self, layer: &str) -> Vec<ParamSpec> {
        let Self { spec, stream, initializer, .. } = self;
        let mut tree = stream.norm_params(&spec.norm(layer));
        if let Some(experts) = self.experts() {
            tree.extend(experts.params(layer));
            return tree;
        }
        for input in self.inputs(layer) {
            let shape = [stream.emb_dim, spec.dim];
            tree.push(kernel(&input.path, shape, ["embed", "mlp"], *initializer));
            tree.extend(stream.bias(&input.path, spec.dim, "mlp"));
        }
        let output = self.output(layer);
        let scale = output.scale.map(|scale| scale.param(&[spec.dim], &["mlp"]));
        tree.extend(scale);
        let output = output.path;
        let shape = [spec.dim, stream.emb_dim];
        tree.push(kernel(&output, shape, ["mlp", "embed"], *initializer));
        tree.extend(stream.bias(&output, stream.emb_dim, "embed"));
        tree
    }

    fn flops(&self, tokens: Tokens) -> f64 {
        let numbers = (self.spec.dim * (self.spec.activations.len() + 1)) as f64;
        let of_router = self.experts().map_or(0.0, |experts| experts.router_flops(tokens));
        2.0 * self.stream.emb_dim as f64 * numbers * self.places(tokens) + of_router
    }

    fn add_work(&self, tokens: Tokens, count: f64, on: PassContext<'_>, work: &mut ForwardWork) {
        let spec = &self.spec;
        let [inputs, inner, embed] =
            [spec.activations.len(), spec.dim, self.stream.emb_dim].map(|number| number as f64);
        let rows = self.places(tokens);
        let mut num_kernels = 1.0;
        if let Some(experts) = self.experts() {
            num_kernels = on.mesh.own_experts(experts.1.num_experts) as f64;
            experts.add_routing(tokens, count, work);
        }
        // Experts compute in no 8 bits.
        let is_projection = spec.experts.is_none();
        for (inner, columns) in [(embed, inputs * inner), (inner, embed)] {
            work.push(MatrixProducts { rows, inner, columns, num_kernels, count, is_projection });
        }
        let is_dropped = on.is_dropped && self.drops != FeedForwardDropout::Nowhere;
        let passes = inputs + 1.0 + if is_dropped { 2.0 } else { 0.0 };
        work.stream_bytes += work.size * count * passes * rows * inner;
    }

    /// Counts each projection before and after its activation, and their product; a gated GELU is one operation.
    fn kept(&self, tokens: Tokens, is_dropped: bool) -> f64 {
        let activations = &self.spec.activations;
        let is_fused = activations[..] == [Activation::Gelu, Activation::Linear];
        let kept = |activation: &Activation| match activation {
            Activation::Relu | Activation::Linear => 1.0,
            _ if is_fused => 1.0,
            _ => 2.0,
        };
        let gated = f64::from(activations.len() > 1);
        let is_dropped = is_dropped && self.drops != FeedForwardDropout::Nowhere;
        let copies = activations.iter().map(kept).sum::<f64>() + gated + f64::from(is_dropped);
        let hidden = copies * self.places(tokens) * self.spec.dim as f64;
        let of_routing = self.experts().map_or(0.0, |experts| experts.kept_of_routing(tokens));
        self.stream.norm(tokens) + self.stream.size() * hidden + of_routing
    }

    /// Counts the result of a block of experts, and the buffers that came from other processes and back.
    fn kept_of_projections(&self, tokens: Tokens) -> f64 {
        let emb_dim = self.stream.emb_dim as f64;
        let numbers = match &self.spec.experts {
            None => tokens.count() * (self.spec.activations.len() * self.spec.dim) as f64,
            Some(_) if tokens.num_processes > 1 => {
                (tokens.count() + 2.0 * self.places(tokens)) * emb_dim
            }
            Some(_) => tokens.count() * emb_dim,
        };
        self.stream.size() * numbers
    }

    fn joined_numbers(&self) -> f64 {
        let experts = self.spec.experts.as_ref().map_or(1, |experts| experts.num_experts);
        match self.spec.activations.len() {
            1 => 0.0,
            count => (self.stream.emb_dim * count * self.spec.dim * experts) as f64,
        }
    }

    fn exchanged(&self, tokens: Tokens) -> f64 {
        self.experts().map_or(0.0, |experts| experts.exchanged(tokens))
    }

    fn shared_gradients(&self) -> f64 {
        self.experts().map_or(0.0, |experts| experts.router_gradients())
    }
}
