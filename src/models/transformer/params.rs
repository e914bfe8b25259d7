//! The parameter tree of a Transformer. Source: T5X `examples/t5/{network,layers}.py`.

use super::spec::{
    AttentionSpec, FeedForwardSpec, LayerDims, LayerInitializers, NUM_BUCKETS, StackSpec,
    TransformerSpec,
};
use crate::nn::{Dtype, ExpertsSpec, Initializer, ParamSpec};

impl TransformerSpec {
    /// Every parameter, sorted by name as flax sorts them.
    pub fn param_tree(&self) -> Vec<ParamSpec> {
        let emb_dim = self.last.dims.emb_dim;
        let embedding = param(
            format!("{}/embedding", self.embedding),
            vec![self.vocab_size, emb_dim],
            vec!["vocab", "embed"],
            self.embedding_init,
        );
        let mut tree = vec![embedding];
        for stack in self.stacks() {
            push_stack(stack, &mut tree);
        }
        if !self.logits_via_embedding {
            let (shape, axes) = ([emb_dim, self.vocab_size], ["embed", "vocab"]);
            tree.push(kernel(&self.logits_dense(), shape, axes, self.logits_init));
        }
        let mut tree = self.layer_arrays.arrange(tree, self);
        tree.sort_by(|a, b| a.name.cmp(&b.name));
        // An encoder may share the decoder's parameters.
        tree.dedup_by(|a, b| a.name == b.name);
        tree
    }

    /// Number of parameters.
    pub fn num_params(&self) -> u64 {
        self.param_tree().iter().map(ParamSpec::num_elements).sum()
    }
}

fn push_stack(stack: &StackSpec, tree: &mut Vec<ParamSpec>) {
    let dims = &stack.dims;
    let rel_embedding = |name| {
        param(
            name,
            vec![dims.num_heads, NUM_BUCKETS],
            vec!["heads", "relpos_buckets"],
            dims.initializers.rel_embedding,
        )
    };
    let beside = stack.side_rel_embedding();
    tree.extend(stack.rel_embeddings().chain(beside).map(rel_embedding));
    tree.push(scale(stack.last_norm(), dims));
    for (index, layer) in stack.layers().enumerate() {
        tree.extend(stack.side_norm(&layer).map(|name| scale(name, dims)));
        for attention in stack.attentions {
            tree.push(scale(attention.scale(&layer), dims));
            push_attention(attention, &layer, dims, tree);
        }
        for block in stack.feed_forwards(index) {
            tree.push(scale(block.scale(&layer), dims));
            match &block.experts {
                Some(experts) => push_experts(&block, experts, (&layer, dims.emb_dim), tree),
                None => push_feed_forward(&block, &layer, dims, tree),
            }
        }
    }
}

fn push_attention(
    attention: &AttentionSpec,
    layer: &str,
    dims: &LayerDims,
    tree: &mut Vec<ParamSpec>,
) {
    let LayerInitializers { query, attention: others, .. } = dims.initializers;
    let names = ["query", "key", "value"];
    let initializers = [query, others, others];
    for (spec, initializer) in attention.kernels(layer, dims, names).iter().zip(initializers) {
        let (shape, axes) = ([dims.emb_dim, dims.joined()], ["embed", "joined_kv"]);
        tree.push(kernel(&spec.path, shape, axes, initializer));
    }
    let [out] = attention.kernels(layer, dims, ["out"]);
    let (shape, axes) = ([dims.joined(), dims.emb_dim], ["joined_kv", "embed"]);
    tree.push(kernel(&out.path, shape, axes, others));
}

fn push_feed_forward(
    block: &FeedForwardSpec,
    layer: &str,
    dims: &LayerDims,
    tree: &mut Vec<ParamSpec>,
) {
    let (emb_dim, initializer) = (dims.emb_dim, dims.initializers.feed_forward);
    for input in block.inputs(layer) {
        tree.push(kernel(&input.path, [emb_dim, block.dim], ["embed", "mlp"], initializer));
    }
    let output = block.output(layer).path;
    tree.push(kernel(&output, [block.dim, emb_dim], ["mlp", "embed"], initializer));
}

/// Source: flaxformer `architectures/moe/{moe_layers,routing}.py`.
fn push_experts(
    block: &FeedForwardSpec,
    experts: &ExpertsSpec,
    (layer, emb_dim): (&str, usize),
    tree: &mut Vec<ParamSpec>,
) {
    let (router, count) = (block.router(layer), experts.num_experts);
    let (shape, axes) = ([emb_dim, count], ["embed", "unmodeled"]);
    tree.push(kernel(&router, shape, axes, experts.router.initializer));
    if experts.router.use_bias {
        let zeros = Initializer::Normal { stddev: 0.0 };
        tree.push(param(format!("{router}/bias"), vec![count], vec!["unmodeled"], zeros));
    }
    let mut push = |path: &str, shape: [usize; 2], axes: [&'static str; 2]| {
        let shape = [count, shape[0], shape[1]].to_vec();
        let axes = ["expert", axes[0], axes[1]].to_vec();
        tree.push(param(format!("{path}/kernel"), shape, axes, experts.initializer));
    };
    for input in block.inputs(layer) {
        push(&input.path, [emb_dim, block.dim], ["mlp_embed", "expert_mlp"]);
    }
    push(&block.output(layer).path, [block.dim, emb_dim], ["expert_mlp", "mlp_embed"]);
}

fn scale(name: String, dims: &LayerDims) -> ParamSpec {
    param(name, vec![dims.emb_dim], vec!["embed"], Initializer::Ones)
}

fn kernel(
    path: &str,
    shape: [usize; 2],
    axes: [&'static str; 2],
    initializer: Initializer,
) -> ParamSpec {
    param(format!("{path}/kernel"), shape.to_vec(), axes.to_vec(), initializer)
}

fn param(
    name: String,
    shape: Vec<usize>,
    axes: Vec<&'static str>,
    initializer: Initializer,
) -> ParamSpec {
    ParamSpec { name, shape, axes, initializer, dtype: Dtype::Float32, layers: None }
}
