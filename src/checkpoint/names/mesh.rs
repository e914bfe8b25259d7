//! The names of Mesh TensorFlow's T5, optimizer included. Source: `checkpoint_importer.py` of T5X.
//!
//! `encoder/block_003/layer_000/SelfAttention/q` is `encoder/layers_3/attention/query/kernel`. No matrix
//! is transposed. A bias of relative positions in the first block alone serves the whole stack.

use std::collections::BTreeMap;

use super::{Axes, Entry, Origin};
use crate::checkpoint::array::DType;
use crate::checkpoint::foreign::RawInfos;

/// Optimizer state of a variable: the end of its name here and in T5X.
const SLOTS: [(&str, &str); 4] =
    [("_slot_vr", "v_row"), ("_slot_vc", "v_col"), ("_slot_v", "v"), ("_slot_m", "m")];

/// The count of updates.
const GLOBAL_STEP: &str = "global_step";

const STEP: &str = "state/step";

/// T5X's name for the bias of relative positions.
const BIAS: &str = "relpos_bias/rel_embedding";

const PROJECTIONS: [(&str, &str); 4] = [("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")];

/// The arrays of T5X that the variables are. Those that no T5 has keep their names below `target/`.
pub(in crate::checkpoint) fn entries(tensors: &RawInfos) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    let per_layer = tensors
        .keys()
        .any(|name| name.contains("relative_attention_bias") && !name.contains("/block_000/"));
    for (raw, info) in tensors {
        if raw == GLOBAL_STEP {
            let origin = Origin::Step(raw.clone());
            let entry = Entry { origin, dtype: DType::I32, shape: Vec::new() };
            entries.insert(STEP.to_string(), entry);
            continue;
        }
        let (variable, slot) = split_slot(raw);
        let name = to_t5x(variable, per_layer).unwrap_or_else(|| variable.to_string());
        let name = match slot {
            None => format!("target/{name}"),
            Some(slot) => format!("state/param_states/{name}/{slot}"),
        };
        let origin = Origin::Tensor(raw.clone(), Axes::Same);
        entries.insert(name, Entry { origin, dtype: info.dtype, shape: info.shape.clone() });
    }
    add_missing_slots(&mut entries);
    entries
}

fn split_slot(raw: &str) -> (&str, Option<&'static str>) {
    let ends = |(end, slot): &(&str, &'static str)| raw.strip_suffix(end).map(|name| (name, *slot));
    match SLOTS.iter().find_map(ends) {
        Some((variable, slot)) => (variable, Some(slot)),
        None => (raw, None),
    }
}

/// T5X's Adafactor keeps zeros of one element for every slot that it does not use.
fn add_missing_slots(entries: &mut BTreeMap<String, Entry>) {
    let params = entries.keys().filter_map(|name| name.strip_prefix("target/"));
    let params: Vec<String> = params.map(|name| format!("state/param_states/{name}")).collect();
    for param in params {
        let has = |slot: &str| entries.contains_key(&format!("{param}/{slot}"));
        let missing: &[&str] = match (has("v"), has("v_row")) {
            (true, _) => &["m", "v_row", "v_col"],
            (false, true) => &["m", "v"],
            (false, false) => &[],
        };
        for slot in missing {
            let zeros = Entry { origin: Origin::Zeros, dtype: DType::F32, shape: vec![1] };
            entries.entry(format!("{param}/{slot}")).or_insert(zeros);
        }
    }
}

fn to_t5x(variable: &str, per_layer: bool) -> Option<String> {
    let parts: Vec<&str> = variable.split('/').collect();
    let stack = parts[0];
    // A decoder without encoder is called `transformer`.
    let t5x_stack = if stack == "transformer" { "decoder" } else { stack };
    if !matches!(stack, "shared" | "encoder" | "decoder" | "transformer") {
        return None;
    }
    Some(match parts[1..] {
        ["embedding"] if stack == "shared" => "token_embedder/embedding".to_string(),
        ["embedding"] => format!("{t5x_stack}/token_embedder/embedding"),
        ["final_layer_norm" | "rms_norm", "scale"] => format!("{t5x_stack}/{t5x_stack}_norm/scale"),
        ["logits", "kernel"] if t5x_stack == "decoder" => "decoder/logits_dense/kernel".to_string(),
        [block, layer, ref rest @ ..] => {
            let block: usize = number(block, "block_")?;
            let layer: usize = number(layer, "layer_")?;
            let part = in_layer(stack, layer, rest)?;
            match &part[..] {
                BIAS if layer != 0 => return None,
                BIAS if !per_layer => format!("{t5x_stack}/{BIAS}"),
                _ => format!("{t5x_stack}/layers_{block}/{part}"),
            }
        }
        _ => return None,
    })
}

fn in_layer(stack: &str, layer: usize, rest: &[&str]) -> Option<String> {
    Some(match *rest {
        ["SelfAttention", "relative_attention_bias"] => BIAS.to_string(),
        [attention @ ("SelfAttention" | "EncDecAttention"), which] => {
            let attention = match (attention, stack) {
                ("EncDecAttention", _) => "encoder_decoder_attention",
                (_, "encoder") => "attention",
                _ => "self_attention",
            };
            let (_, projection) = PROJECTIONS.iter().find(|(letter, _)| *letter == which)?;
            format!("{attention}/{projection}/kernel")
        }
        ["DenseReluDense", which @ ("wi" | "wi_0" | "wi_1" | "wo"), "kernel"] => {
            format!("mlp/{which}/kernel")
        }
        ["layer_norm" | "rms_norm", "scale"] => format!("{}/scale", norm(stack, layer)?),
        _ => return None,
    })
}

/// What the norm before a layer of a block is called.
fn norm(stack: &str, layer: usize) -> Option<&'static str> {
    let norms: &[&str] = match stack {
        "encoder" => &["pre_attention_layer_norm", "pre_mlp_layer_norm"],
        "decoder" => &[
            "pre_self_attention_layer_norm",
            "pre_cross_attention_layer_norm",
            "pre_mlp_layer_norm",
        ],
        _ => &["pre_self_attention_layer_norm", "pre_mlp_layer_norm"],
    };
    norms.get(layer).copied()
}

/// The number of `block_003`.
fn number(part: &str, before: &str) -> Option<usize> {
    let digits = part.strip_prefix(before)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
