//! The parameter tree of a Transformer. Source: T5X `examples/t5/{network,layers}.py`.

use super::spec::{StackSpec, TransformerSpec};
use crate::models::parts::{ClassHead, EncoderEnds, LearnedRows};
use crate::nn::ParamSpec;

impl TransformerSpec {
    /// Every parameter, sorted by name as flax sorts them.
    pub fn param_tree(&self) -> Vec<ParamSpec> {
        let mut tree = self.tokens.params();
        tree.extend(self.learned_rows.iter().flat_map(LearnedRows::params));
        tree.extend(self.encoder_ends.iter().flat_map(EncoderEnds::params));
        tree.extend(self.class_head.iter().flat_map(ClassHead::params));
        for stack in self.stacks() {
            push_stack(stack, &mut tree);
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

impl StackSpec {
    /// The parameters of its layers, but additions to their kernels.
    pub(super) fn layer_params(&self) -> Vec<ParamSpec> {
        let of_layer = |(index, layer): (usize, String)| {
            let parts = self.parts(index);
            parts.iter().flat_map(|part| part.params(&layer)).collect::<Vec<_>>()
        };
        self.layers().enumerate().flat_map(of_layer).collect()
    }
}

fn push_stack(stack: &StackSpec, tree: &mut Vec<ParamSpec>) {
    let dims = &stack.dims;
    if let Some(position) = &stack.position {
        let embeddings = stack.rel_embeddings().chain(stack.side_rel_embedding());
        tree.extend(embeddings.map(|path| position.param(path, dims.num_heads)));
    }
    tree.extend(stack.last_norm().iter().flat_map(|path| dims.stream().norm_params(path)));
    tree.extend(stack.given_params().map(|rows| rows.param));
    let of_layers = stack.layer_params();
    tree.extend(stack.lora.iter().flat_map(|lora| lora.params(&of_layers)));
    tree.extend(of_layers);
}
