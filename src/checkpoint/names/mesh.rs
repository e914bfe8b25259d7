//! Translates the names of Mesh TensorFlow's T5, optimizer included, in both directions. Source:
//! `checkpoint_importer.py` of T5X, except that it does not exchange the slots of square matrices.
//!
//! `encoder/block_003/layer_000/SelfAttention/q` is `encoder/layers_3/attention/query/kernel`. No matrix
//! is transposed. A relative position bias in the first block alone is used by the whole stack.

use std::collections::BTreeMap;

use super::{Axes, Origin, T5xArray, take_number};
use crate::array::DType;
use crate::raw::RawInfos;
use crate::stored::STEP;

/// Optimizer state of a variable: the suffix of its name here and in T5X.
const SLOTS: [(&str, &str); 4] =
    [("_slot_vr", "v_row"), ("_slot_vc", "v_col"), ("_slot_v", "v"), ("_slot_m", "m")];

/// Returns the slot in T5X for a slot here, or the reverse, if the matrix is square. Adafactor's `_slot_vr` and
/// `v_row` are means over the larger dimension. Of two equal ones Mesh TensorFlow takes the first
/// (`_factored_dims` in `optimize.py`), and T5X the second (`adafactor.py`).
fn slot_of(slot: &'static str, shape: Option<&[usize]>) -> &'static str {
    match (slot, shape) {
        ("v_row", Some([rows, columns])) if rows == columns => "v_col",
        ("v_col", Some([rows, columns])) if rows == columns => "v_row",
        _ => slot,
    }
}

/// The number of updates.
pub(crate) const GLOBAL_STEP: &str = "global_step";

/// The relative position bias, in the first layer of a block, and T5X's name for it.
const BIAS: (&str, &str) = ("SelfAttention/relative_attention_bias", "relpos_bias/rel_embedding");

/// The embedding that both stacks share.
const EMBEDDING: (&str, &str) = ("shared/embedding", "token_embedder/embedding");

/// The matrix that maps to logits.
const LOGITS: (&str, &str) = ("logits/kernel", "logits_dense/kernel");

/// The norm before a layer and the norm of the stack, which have other names in Mesh TensorFlow's
/// legacy mode.
const NORM: &str = "rms_norm/scale";
const LEGACY_NORMS: [&str; 2] = ["layer_norm/scale", "final_layer_norm/scale"];

const PROJECTIONS: &[(&str, &str)] =
    &[("q", "query/kernel"), ("k", "key/kernel"), ("v", "value/kernel"), ("o", "out/kernel")];

const MLP_KERNELS: &[(&str, &str)] = &[
    ("wi/kernel", "wi/kernel"),
    ("wi_0/kernel", "wi_0/kernel"),
    ("wi_1/kernel", "wi_1/kernel"),
    ("wo/kernel", "wo/kernel"),
];

/// A layer of every block.
struct Layer {
    /// Attention or feed-forward module, here and in T5X.
    module: (&'static str, &'static str),
    /// Kernels of the module, here and in T5X.
    kernels: &'static [(&'static str, &'static str)],
    /// T5X's name of the norm before it.
    norm: &'static str,
}

const ENCODER_ATTENTION: Layer = Layer {
    module: ("SelfAttention", "attention"),
    kernels: PROJECTIONS,
    norm: "pre_attention_layer_norm",
};

const SELF_ATTENTION: Layer = Layer {
    module: ("SelfAttention", "self_attention"),
    kernels: PROJECTIONS,
    norm: "pre_self_attention_layer_norm",
};

const CROSS_ATTENTION: Layer = Layer {
    module: ("EncDecAttention", "encoder_decoder_attention"),
    kernels: PROJECTIONS,
    norm: "pre_cross_attention_layer_norm",
};

const MLP: Layer =
    Layer { module: ("DenseReluDense", "mlp"), kernels: MLP_KERNELS, norm: "pre_mlp_layer_norm" };

/// An encoder or a decoder.
struct Stack {
    name: &'static str,
    t5x: &'static str,
    layers: &'static [Layer],
}

const STACKS: [Stack; 3] = [
    Stack { name: "encoder", t5x: "encoder", layers: &[ENCODER_ATTENTION, MLP] },
    Stack { name: "decoder", t5x: "decoder", layers: &[SELF_ATTENTION, CROSS_ATTENTION, MLP] },
    // A decoder without an encoder.
    Stack { name: "transformer", t5x: "decoder", layers: &[SELF_ATTENTION, MLP] },
];

/// Returns the T5X arrays for the variables. Variables that do not belong to a T5 keep their names
/// below `target/`.
pub(crate) fn entries(tensors: &RawInfos) -> BTreeMap<String, T5xArray> {
    let mut entries = BTreeMap::new();
    let per_layer = tensors
        .keys()
        .any(|name| name.contains("relative_attention_bias") && !name.contains("/block_000/"));
    for (raw, info) in tensors {
        if raw == GLOBAL_STEP {
            let origin = Origin::Step(raw.clone());
            let entry = T5xArray { origin, dtype: DType::I32, shape: Vec::new() };
            entries.insert(STEP.to_string(), entry);
            continue;
        }
        let (variable, slot) = split_slot(raw);
        let name = to_t5x(variable, per_layer).unwrap_or_else(|| variable.to_string());
        let name = match slot {
            None => format!("target/{name}"),
            Some(slot) => {
                let shape = tensors.get(variable).map(|info| &info.shape[..]);
                format!("state/param_states/{name}/{}", slot_of(slot, shape))
            }
        };
        let origin = Origin::Tensor(raw.clone(), Axes::Same);
        entries.insert(name, T5xArray { origin, dtype: info.dtype, shape: info.shape.clone() });
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

/// Adds zeros of one element for every slot that T5X's Adafactor does not use, as T5X does.
fn add_missing_slots(entries: &mut BTreeMap<String, T5xArray>) {
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
            let zeros = T5xArray { origin: Origin::Zeros, dtype: DType::F32, shape: vec![1] };
            entries.entry(format!("{param}/{slot}")).or_insert(zeros);
        }
    }
}

fn to_t5x(variable: &str, per_layer: bool) -> Option<String> {
    if variable == EMBEDDING.0 {
        return Some(EMBEDDING.1.to_string());
    }
    let (stack, rest) = variable.split_once('/')?;
    let Stack { t5x, layers, .. } = STACKS.iter().find(|known| known.name == stack)?;
    let is_norm = |name: &str| name == NORM || LEGACY_NORMS.contains(&name);
    match rest {
        "embedding" => return Some(format!("{t5x}/{}", EMBEDDING.1)),
        norm if is_norm(norm) => return Some(format!("{t5x}/{t5x}_norm/scale")),
        logits if logits == LOGITS.0 => {
            return (*t5x == "decoder").then(|| format!("{t5x}/{}", LOGITS.1));
        }
        _ => {}
    }
    let (block, rest) = rest.split_once('/')?;
    let (layer, rest) = rest.split_once('/')?;
    let (block, layer) = (number(block, "block_")?, number(layer, "layer_")?);
    if rest == BIAS.0 {
        return (layer == 0).then(|| match per_layer {
            true => format!("{t5x}/layers_{block}/{}", BIAS.1),
            false => format!("{t5x}/{}", BIAS.1),
        });
    }
    if is_norm(rest) {
        return Some(format!("{t5x}/layers_{block}/{}/scale", layers.get(layer)?.norm));
    }
    let (module, rest) = rest.split_once('/')?;
    let layer = layers.iter().find(|layer| layer.module.0 == module)?;
    let (_, kernel) = layer.kernels.iter().find(|(name, _)| *name == rest)?;
    Some(format!("{t5x}/layers_{block}/{}/{kernel}", layer.module.1))
}

/// Returns the variable for a T5X array, given its full name below `target/` or
/// `state/param_states/`, and the shapes of all arrays by name; `None` when Mesh TensorFlow's T5 has no such variable.
pub(crate) fn from_t5x(
    name: &str,
    has_encoder: bool,
    shapes: &BTreeMap<&str, &[usize]>,
) -> Option<String> {
    if let Some(param) = name.strip_prefix("target/") {
        return variable(param, has_encoder);
    }
    let (param, slot) = name.strip_prefix("state/param_states/")?.rsplit_once('/')?;
    let (_, slot) = SLOTS.iter().find(|(_, known)| *known == slot)?;
    let slot = slot_of(slot, shapes.get(&format!("target/{param}")[..]).copied());
    let (end, _) = SLOTS.iter().find(|(_, known)| *known == slot)?;
    Some(format!("{}{end}", variable(param, has_encoder)?))
}

fn variable(param: &str, has_encoder: bool) -> Option<String> {
    if param == EMBEDDING.1 {
        return Some(EMBEDDING.0.to_string());
    }
    let (stack, rest) = param.split_once('/')?;
    let is_it = |known: &&Stack| known.t5x == stack && has_encoder == (known.name != "transformer");
    let Stack { name, t5x, layers } = STACKS.iter().find(is_it)?;
    let (general, block) = match take_number(rest, "layers_", '/') {
        Some((general, block)) => (general, block),
        None => (rest.to_string(), 0),
    };
    let Some(in_layer) = general.strip_prefix("layers_#/") else {
        return Some(match rest {
            embedding if embedding == EMBEDDING.1 => format!("{name}/embedding"),
            norm if *norm == format!("{t5x}_norm/scale") => format!("{name}/{NORM}"),
            logits if logits == LOGITS.1 && *t5x == "decoder" => format!("{name}/{}", LOGITS.0),
            bias if bias == BIAS.1 => format!("{name}/block_000/layer_000/{}", BIAS.0),
            _ => return None,
        });
    };
    let (layer, rest) = match in_layer == BIAS.1 {
        true => (0, BIAS.0.to_string()),
        false => {
            layers.iter().enumerate().find_map(|(at, layer)| Some((at, layer.part(in_layer)?)))?
        }
    };
    Some(format!("{name}/block_{block:03}/layer_{layer:03}/{rest}"))
}

impl Layer {
    /// Returns the name here of a part of a T5X layer, or of the norm before the layer.
    fn part(&self, t5x: &str) -> Option<String> {
        let (module, rest) = t5x.split_once('/')?;
        if module == self.norm && rest == "scale" {
            return Some(NORM.to_string());
        }
        let (kernel, _) = self.kernels.iter().find(|(_, known)| *known == rest)?;
        (module == self.module.1).then(|| format!("{}/{kernel}", self.module.0))
    }
}

/// Parses the number in a name such as `block_003`.
fn number(part: &str, before: &str) -> Option<usize> {
    let digits = part.strip_prefix(before)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_goes_there_and_back() {
        for stack in STACKS {
            let has_encoder = stack.name != "transformer";
            let check = |variable: &str, per_layer: bool| {
                let name = to_t5x(variable, per_layer).unwrap_or_else(|| panic!("{variable}"));
                assert_eq!(self::variable(&name, has_encoder).as_deref(), Some(variable), "{name}");
                let slot = format!("state/param_states/{name}/v_row");
                let target = format!("target/{name}");
                let check_slot = |shape: &[usize], end: &str| {
                    let found = from_t5x(&slot, has_encoder, &[(&target[..], shape)].into());
                    assert_eq!(found, Some(format!("{variable}{end}")));
                };
                check_slot(&[4, 6], "_slot_vr");
                check_slot(&[4, 4], "_slot_vc");
            };
            check("shared/embedding", false);
            for rest in ["embedding", NORM, LOGITS.0] {
                if stack.t5x == "decoder" || rest != LOGITS.0 {
                    check(&format!("{}/{rest}", stack.name), false);
                }
            }
            for (at, layer) in stack.layers.iter().enumerate() {
                let of_layer =
                    |part: &str| format!("{}/block_012/layer_{at:03}/{part}", stack.name);
                check(&of_layer(NORM), false);
                let kernels = layer.kernels.iter();
                kernels.for_each(|(kernel, _)| {
                    check(&of_layer(&format!("{}/{kernel}", layer.module.0)), false)
                });
            }
            check(&format!("{}/block_000/layer_000/{}", stack.name, BIAS.0), false);
            check(&format!("{}/block_023/layer_000/{}", stack.name, BIAS.0), true);
        }
    }

    #[test]
    fn what_no_t5_has_is_no_variable() {
        for name in [
            "target/encoder/side_relpos_bias/rel_embedding",
            "target/encoder/layers_0/attention/T5LayerNorm_0/scale",
            "target/encoder/layers_00/attention/query/kernel",
            "target/encoder/logits_dense/kernel",
            "state/param_states/0/mu/token_embedder/embedding",
            "state/param_states/token_embedder/embedding/loss_scale",
        ] {
            assert_eq!(from_t5x(name, true, &BTreeMap::new()), None, "{name}");
        }
    }
}
