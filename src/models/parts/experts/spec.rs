//! The description of a block of experts, and what follows from it.

use crate::models::parts::{FeedForward, ForwardWork, Tokens, kernel, param};
use crate::nn::{ExpertsSpec, Initializer, ParamSpec, Routing};

/// Passes over the activations of an expert's places: tokens are read, moved and laid out by experts, and results back.
const MOVES_OF_PLACE: f64 = 8.0;

/// A block of experts: the block, and the experts in it.
pub(in crate::models::parts) struct ExpertsBlock<'a>(pub &'a FeedForward, pub &'a ExpertsSpec);

impl ExpertsBlock<'_> {
    /// Parameters in the layer of that path.
    pub fn params(&self, layer: &str) -> Vec<ParamSpec> {
        let Self(FeedForward { spec, stream, .. }, experts) = self;
        let (router, count, emb_dim) = (spec.router(layer), experts.num_experts, stream.emb_dim);
        let (shape, axes) = ([emb_dim, count], ["embed", "unmodeled"]);
        let mut tree = vec![kernel(&router, shape, axes, experts.router.initializer)];
        if experts.router.use_bias {
            let zeros = Initializer::Normal { stddev: 0.0 };
            tree.push(param(format!("{router}/bias"), vec![count], vec!["unmodeled"], zeros));
        }
        let of_experts = |path: &str, shape: [usize; 2], axes: [&'static str; 2]| {
            let shape = [count, shape[0], shape[1]].to_vec();
            let axes = ["expert", axes[0], axes[1]].to_vec();
            param(format!("{path}/kernel"), shape, axes, experts.initializer)
        };
        for input in spec.inputs(layer) {
            tree.push(of_experts(&input.path, [emb_dim, spec.dim], ["mlp_embed", "expert_mlp"]));
        }
        let output = spec.output(layer).path;
        tree.push(of_experts(&output, [spec.dim, emb_dim], ["expert_mlp", "mlp_embed"]));
        tree
    }

    /// Floating-point operations of the router in a forward pass.
    pub fn router_flops(&self, tokens: Tokens) -> f64 {
        let Self(block, experts) = self;
        2.0 * (block.stream.emb_dim * experts.num_experts) as f64 * tokens.count()
    }

    /// Adds the work of so many routers, and of moving tokens to experts and back.
    pub fn add_routing(&self, tokens: Tokens, count: f64, work: &mut ForwardWork) {
        let Self(block, experts) = self;
        let embed = block.stream.emb_dim as f64;
        work.project([tokens.count(), embed, experts.num_experts as f64], count);
        work.stream_bytes += work.size * count * MOVES_OF_PLACE * block.places(tokens) * embed;
    }

    /// Bytes of what a router makes, and of tokens on their way to experts and back.
    pub fn kept_of_routing(&self, tokens: Tokens) -> f64 {
        let Self(block, experts) = self;
        let (count, emb_dim) = (experts.num_experts as f64, block.stream.emb_dim as f64);
        let entries = match experts.router.routing {
            Routing::TokensChoose { num_selected_experts, .. } => {
                tokens.count() * num_selected_experts as f64
            }
            Routing::ExpertsChoose => block.places(tokens),
        };
        // Scores, their normalizer's and the probabilities in float32.
        let scores = 3.0 * 4.0 * count * tokens.count();
        // The router's inputs in float32, with noise also before it, and the noise.
        let noisy = if experts.router.jitter_noise > 0.0 { 3.0 } else { 1.0 };
        let inputs = noisy * 4.0 * tokens.count();
        // Tokens at their places, and each entry's result in the format of weights.
        let placed = experts.dtype.size() as f64 * block.places(tokens);
        let results = experts.router.dtype.size() as f64 * entries;
        scores + (inputs + placed + results) * emb_dim
    }

    /// Bytes of the buffers that processes along the data axis exchange in one direction.
    pub fn exchanged(&self, tokens: Tokens) -> f64 {
        let Self(block, experts) = self;
        block.places(tokens) * block.stream.emb_dim as f64 * experts.dtype.size() as f64
    }

    /// Bytes of the gradients of the router.
    pub fn router_gradients(&self) -> f64 {
        let Self(block, experts) = self;
        let rows = block.stream.emb_dim + usize::from(experts.router.use_bias);
        ((rows * experts.num_experts) as u64 * experts.router.weights_dtype.size()) as f64
    }
}
