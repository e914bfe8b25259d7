//! The parameter tree of a Transformer. Source: T5X `examples/t5/{network,layers}.py`.

use super::spec::{NUM_BUCKETS, StackSpec, TransformerSpec};
use crate::models::parts::{kernel, param, scale};
use crate::nn::ParamSpec;

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
    tree.push(scale(stack.last_norm(), dims.emb_dim));
    for (index, layer) in stack.layers().enumerate() {
        tree.extend(stack.parts(index).iter().flat_map(|part| part.params(&layer)));
    }
}
