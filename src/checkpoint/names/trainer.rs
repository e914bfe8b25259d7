//! Names of the Trainer of t5-experiments: the keys of its files, and the arrays of optimizers, which T5X and torch name
//! differently.

use super::Axes;
use crate::t5x_tree::PARAM_STATES;

/// Keys of a file. Sources: `Trainer.save` of t5-experiments, and `torch.optim.Optimizer.state_dict`.
pub(crate) const OPTIMIZER: &str = "optimizer_state_dict";
pub(crate) const ITERATION: &str = "iteration";
/// Keys of the optimizer's state.
pub(crate) const GROUPS: &str = "param_groups";
pub(crate) const STATE: &str = "state";
/// The number of updates in the state of a parameter.
pub(crate) const COUNT: &str = "step";
/// The state of torch's GradScaler, and its keys. Source: torch `amp/grad_scaler.py`.
pub(crate) const GRAD_SCALER: &str = "torch_amp";
pub(crate) const SCALE: &str = "scale";
pub(crate) const GROWTH_TRACKER: &str = "_growth_tracker";
/// The same of apex, for one loss. Source: apex `amp/frontend.py`.
pub(crate) const APEX: &str = "amp";
pub(crate) const APEX_SCALER: &str = "loss_scaler0";
pub(crate) const APEX_SCALE: &str = "loss_scale";
pub(crate) const APEX_UPDATES: &str = "unskipped";
/// The key of Gimlet's record, and its keys.
pub(crate) const OWN: &str = "gimlet";
pub(crate) const ARRAYS: &str = "arrays";
pub(crate) const FILES: &str = "files";

/// The parts of the names of modules of T5 and BERT in transformers, in the order in which a model registers them, which
/// numbers its parameters for optimizers. Sources: transformers and t5-experiments, `modeling_t5.py` and `modeling_bert.py`.
const ORDER: [&str; 54] = [
    "bert",
    "cls",
    "memory_tokens",
    "shared",
    "embeddings",
    "encoder",
    "decoder",
    "pooler",
    "predictions",
    "seq_relationship",
    "lm_head",
    "block",
    "final_layer_norm",
    "layer",
    "last_layer_ln",
    "word_embeddings",
    "position_embeddings",
    "token_type_embeddings",
    "pre_attention_ln",
    "post_attention_ln",
    "attention",
    "self",
    "intermediate",
    "output",
    "query",
    "key",
    "value",
    "SelfAttention",
    "LocalSelfAttention",
    "TransientGlobalSelfAttention",
    "EncDecAttention",
    "DenseReluDense",
    "layer_norm",
    "q",
    "cd_q",
    "cd_w",
    "T",
    "W_t",
    "k",
    "v",
    "o",
    "relative_attention_bias",
    "global_relative_attention_bias",
    "wi",
    "wi_0",
    "wi_1",
    "wo",
    "dense",
    "LayerNorm",
    "weight",
    "gamma",
    "bias",
    "beta",
    "transform",
];

/// A slot of T5X's Adafactor, its name in torch, and the dimensions of the parameter that it has.
type SlotOfTorch = (&'static str, &'static str, Vec<usize>);

/// Returns Adafactor's slots of a parameter of that shape, whose axes have that relation to those in the file. T5X keeps the
/// smaller dimension of a matrix in `v_row`, of equal ones the first, and transformers the first one of the file.
pub(crate) fn slots_of_adafactor(shape: &[usize], axes: Axes) -> Vec<SlotOfTorch> {
    let whole: Vec<usize> = (0..shape.len()).collect();
    let mut of = ["exp_avg_sq_row", "exp_avg_sq_col"];
    if axes == Axes::Swapped {
        of.reverse();
    }
    let (first, second) = match shape {
        [first, second] if first > second => ("v_col", "v_row"),
        _ => ("v_row", "v_col"),
    };
    vec![
        ("m", "exp_avg", whole.clone()),
        ("v", "exp_avg_sq", whole),
        (first, of[0], vec![0]),
        (second, of[1], vec![1]),
    ]
}

/// The slots of Adam and AdamW of optax's, and their names in torch.
pub(crate) const SLOTS_OF_ADAM: [(&str, &str); 2] = [("mu", "exp_avg"), ("nu", "exp_avg_sq")];

/// Splits the name of an optimizer's array into its slot, under torch's name where optax has another, and its parameter, which
/// is empty for a count: `state/param_states/1/0/mu/X` gives (`exp_avg`, `X`), and `state/param_states/X/v_row` (`v_row`, `X`).
pub(crate) fn slot_and_parameter(name: &str) -> Option<(&str, &str)> {
    let mut path = name.strip_prefix(PARAM_STATES)?;
    if let Some((parameter, slot @ ("m" | "v" | "v_row" | "v_col"))) = path.rsplit_once('/') {
        return Some((slot, parameter));
    }
    // The numbers of an optax chain.
    while let Some((number, rest)) = path.split_once('/')
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        path = rest;
    }
    if let "count" | "schedule/count" = path {
        return Some(("count", ""));
    }
    let (slot, parameter) = path.split_once('/').unwrap_or((path, ""));
    let of_torch = SLOTS_OF_ADAM.iter().find(|(optax, _)| *optax == slot);
    Some((of_torch.map_or(slot, |(_, torch)| torch), parameter))
}

/// Returns the place of a tensor's name in the order in which a model registers its parameters: that of each part of the name.
pub(crate) fn registered_place(name: &str) -> Vec<usize> {
    let known = |part: &str| ORDER.iter().position(|known| *known == part);
    let number = |part: &str| part.parse().ok();
    name.split('.')
        .map(|part| number(part).or_else(|| known(part)).unwrap_or(ORDER.len()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_in_chains_and_under_parameters() {
        let check = |name: &str, expected| {
            assert_eq!(slot_and_parameter(&format!("{PARAM_STATES}{name}")), Some(expected));
        };
        check("0/mu/encoder/scale", ("exp_avg", "encoder/scale"));
        check("1/0/nu/encoder/scale", ("exp_avg_sq", "encoder/scale"));
        check("momentum_buffer/encoder/scale", ("momentum_buffer", "encoder/scale"));
        check("encoder/scale/v_row", ("v_row", "encoder/scale"));
        check("1/0/count", ("count", ""));
        check("schedule/count", ("count", ""));
        assert_eq!(slot_and_parameter("target/encoder/scale"), None);
    }

    #[test]
    fn parameters_are_in_the_order_of_their_modules() {
        let names = [
            "memory_tokens",
            "shared.weight",
            "encoder.block.0.layer.0.SelfAttention.q.weight",
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "encoder.block.0.layer.0.layer_norm.weight",
            "encoder.block.0.layer.1.DenseReluDense.wi_1.weight",
            "encoder.block.0.layer.1.DenseReluDense.wo.weight",
            "encoder.block.2.layer.0.SelfAttention.q.weight",
            "encoder.block.10.layer.0.SelfAttention.q.weight",
            "encoder.final_layer_norm.weight",
            "decoder.final_layer_norm.weight",
            "lm_head.weight",
        ];
        assert!(names.is_sorted_by_key(|name| registered_place(name)), "{names:?}");
    }

    /// The order of a BERT of t5-experiments, by `named_parameters()`.
    #[test]
    fn parameters_of_bert_are_in_the_order_of_their_modules() {
        let layer = [
            "pre_attention_ln.weight",
            "pre_attention_ln.bias",
            "post_attention_ln.weight",
            "post_attention_ln.bias",
            "attention.self.query.weight",
            "attention.self.query.bias",
            "attention.self.key.weight",
            "attention.self.key.bias",
            "attention.self.value.weight",
            "attention.self.value.bias",
            "attention.self.relative_attention_bias.weight",
            "attention.output.dense.weight",
            "attention.output.dense.bias",
            "attention.output.LayerNorm.weight",
            "attention.output.LayerNorm.bias",
            "intermediate.dense.weight",
            "intermediate.dense.bias",
            "output.dense.weight",
            "output.dense.bias",
            "output.LayerNorm.weight",
            "output.LayerNorm.bias",
        ];
        let layer = layer.map(|name| format!("bert.encoder.layer.0.{name}"));
        let before = [
            "word_embeddings.weight",
            "position_embeddings.weight",
            "token_type_embeddings.weight",
            "LayerNorm.weight",
            "LayerNorm.bias",
        ];
        let before = before.map(|name| format!("bert.embeddings.{name}"));
        let after = [
            "bert.encoder.last_layer_ln.weight",
            "bert.encoder.last_layer_ln.bias",
            "bert.pooler.dense.weight",
            "bert.pooler.dense.bias",
            "cls.predictions.bias",
            "cls.predictions.transform.dense.weight",
            "cls.predictions.transform.dense.bias",
            "cls.predictions.transform.LayerNorm.weight",
            "cls.predictions.transform.LayerNorm.bias",
            "cls.seq_relationship.weight",
            "cls.seq_relationship.bias",
        ];
        let after = after.map(str::to_string);
        let names: Vec<&String> = before.iter().chain(&layer).chain(&after).collect();
        let mut places: Vec<_> = names.iter().map(|name| registered_place(name)).collect();
        assert!(places.is_sorted(), "{names:?}");
        places.dedup();
        assert_eq!(places.len(), names.len());
    }
}
