//! Translates the names of Mesh TensorFlow's T5, optimizer included, in both directions. Source:
//! `checkpoint_importer.py` of T5X, except that it does not exchange the slots of square matrices.
//!
//! `encoder/block_003/layer_000/SelfAttention/q` is `encoder/layers_3/attention/query/kernel`. Layers may have names
//! instead of numbers: `task_adapter` always, and all of a decoder whose variables an encoder reads too. No matrix
//! is transposed. A relative position bias in the first block alone is used by the whole stack.

use std::collections::BTreeMap;

use super::{Axes, Origin, T5xArray, layer_number};
use crate::array::DType;
use crate::raw::RawInfos;
use crate::t5x_tree::{PARAM_STATES, STEP};

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

/// Names of the norm before a layer and of the norm of the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeshNorms {
    /// Those of layers whose sublayers are listed.
    #[default]
    Sublayers,
    /// Those of Mesh TensorFlow's legacy mode, in which `LayerStack.norm_epsilon` is bound: T5 1.0.
    Legacy,
}

impl MeshNorms {
    const ALL: [Self; 2] = [Self::Sublayers, Self::Legacy];

    fn of_layer(self) -> &'static str {
        if self == Self::Legacy { "layer_norm/scale" } else { "rms_norm/scale" }
    }

    fn of_stack(self) -> &'static str {
        if self == Self::Legacy { "final_layer_norm/scale" } else { "rms_norm/scale" }
    }
}

/// Architectures, whose variables of the same parameter have different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// An encoder and a decoder.
    EncoderDecoder,
    /// A decoder whose variables an encoder reads too: its layers have names instead of numbers.
    Tied,
    /// A decoder without an encoder.
    DecoderOnly,
}

impl Architecture {
    const ALL: [Self; 3] = [Self::EncoderDecoder, Self::Tied, Self::DecoderOnly];

    /// The architecture with arrays of these names.
    pub(crate) fn of<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let reads_encoding = |name: &str| name.contains("/encoder_decoder_attention/");
        match names.clone().any(|name| name.starts_with("target/encoder/")) {
            true => Self::EncoderDecoder,
            false if names.any(reads_encoding) => Self::Tied,
            false => Self::DecoderOnly,
        }
    }
}

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
    /// Its name here, where layers have names.
    name: &'static str,
}

const ENCODER_ATTENTION: Layer = Layer {
    module: ("SelfAttention", "attention"),
    kernels: PROJECTIONS,
    norm: "pre_attention_layer_norm",
    name: "self_attention",
};

const SELF_ATTENTION: Layer = Layer {
    module: ("SelfAttention", "self_attention"),
    kernels: PROJECTIONS,
    norm: "pre_self_attention_layer_norm",
    name: "self_attention",
};

const CROSS_ATTENTION: Layer = Layer {
    module: ("EncDecAttention", "encoder_decoder_attention"),
    kernels: PROJECTIONS,
    norm: "pre_cross_attention_layer_norm",
    name: "enc_dec_attention",
};

const MLP: Layer = Layer {
    module: ("DenseReluDense", "mlp"),
    kernels: MLP_KERNELS,
    norm: "pre_mlp_layer_norm",
    name: "dense_relu_dense",
};

/// The task adapter, the last layer of a block, which always has a name.
const ADAPTER: Layer = Layer {
    module: ("DenseReluDense", "task_adapter"),
    kernels: MLP_KERNELS,
    norm: "pre_task_adapter_layer_norm",
    name: "task_adapter",
};

/// An encoder or a decoder.
struct Stack {
    name: &'static str,
    t5x: &'static str,
    layers: &'static [Layer],
}

const STACKS: [Stack; 3] = [
    Stack { name: "encoder", t5x: "encoder", layers: &[ENCODER_ATTENTION, MLP, ADAPTER] },
    Stack {
        name: "decoder",
        t5x: "decoder",
        layers: &[SELF_ATTENTION, CROSS_ATTENTION, MLP, ADAPTER],
    },
    // A decoder without an encoder.
    Stack { name: "transformer", t5x: "decoder", layers: &[SELF_ATTENTION, MLP, ADAPTER] },
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
                format!("{PARAM_STATES}{name}/{}", slot_of(slot, shape))
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
    let params: Vec<String> = params.map(|name| format!("{PARAM_STATES}{name}")).collect();
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
    let is_norm = |name: fn(MeshNorms) -> &'static str| MeshNorms::ALL.map(name).contains(&rest);
    match rest {
        "embedding" => return Some(format!("{t5x}/{}", EMBEDDING.1)),
        _ if is_norm(MeshNorms::of_stack) => return Some(format!("{t5x}/{t5x}_norm/scale")),
        logits if logits == LOGITS.0 => {
            return (*t5x == "decoder").then(|| format!("{t5x}/{}", LOGITS.1));
        }
        _ => {}
    }
    let (block, rest) = rest.split_once('/')?;
    let (label, rest) = rest.split_once('/')?;
    let (block, index) = (number(block, "block_")?, number(label, "layer_"));
    if rest == BIAS.0 {
        let is_first = index == Some(0) || label == SELF_ATTENTION.name;
        return is_first.then(|| match per_layer {
            true => format!("{t5x}/layers_{block}/{}", BIAS.1),
            false => format!("{t5x}/{}", BIAS.1),
        });
    }
    let named = layers.iter().find(|layer| layer.name == label);
    if MeshNorms::ALL.map(MeshNorms::of_layer).contains(&rest) {
        let layer = named.or_else(|| layers.get(index?))?;
        return Some(format!("{t5x}/layers_{block}/{}/scale", layer.norm));
    }
    let (module, rest) = rest.split_once('/')?;
    let is_numbered = |layer: &&Layer| index.is_some() && layer.module.0 == module;
    let layer = named.or_else(|| layers.iter().find(is_numbered))?;
    let (_, kernel) = layer.kernels.iter().find(|(name, _)| *name == rest)?;
    (layer.module.0 == module).then(|| format!("{t5x}/layers_{block}/{}/{kernel}", layer.module.1))
}

/// The spelling of variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spelling {
    pub architecture: Architecture,
    pub norms: MeshNorms,
}

/// Returns the variable for a T5X array, given its full name below `target/` or
/// `state/param_states/`, and the shapes of all arrays by name; `None` when Mesh TensorFlow's T5 has no such variable.
pub(crate) fn from_t5x(
    name: &str,
    spelling: Spelling,
    shapes: &BTreeMap<&str, &[usize]>,
) -> Option<String> {
    if let Some(param) = name.strip_prefix("target/") {
        return variable(param, spelling);
    }
    let (param, slot) = name.strip_prefix(PARAM_STATES)?.rsplit_once('/')?;
    let (_, slot) = SLOTS.iter().find(|(_, known)| *known == slot)?;
    let slot = slot_of(slot, shapes.get(&format!("target/{param}")[..]).copied());
    let (end, _) = SLOTS.iter().find(|(_, known)| *known == slot)?;
    Some(format!("{}{end}", variable(param, spelling)?))
}

/// Returns every name that Mesh TensorFlow gives the variable of a T5X parameter, in models of any architecture.
pub fn mesh_spellings(param: &str) -> Vec<String> {
    let spellings = Architecture::ALL
        .into_iter()
        .flat_map(|architecture| MeshNorms::ALL.map(|norms| Spelling { architecture, norms }));
    spellings.filter_map(|spelling| variable(param, spelling)).collect()
}

fn variable(param: &str, spelling: Spelling) -> Option<String> {
    if param == EMBEDDING.1 {
        return Some(EMBEDDING.0.to_string());
    }
    let Spelling { architecture, norms } = spelling;
    let (stack, rest) = param.split_once('/')?;
    let is_alone = architecture == Architecture::DecoderOnly;
    let is_it = |known: &&Stack| known.t5x == stack && is_alone == (known.name == "transformer");
    let Stack { name, t5x, layers } = STACKS.iter().find(is_it)?;
    let label = |index: usize| match &layers[index] {
        layer if architecture == Architecture::Tied || layer.name == ADAPTER.name => {
            layer.name.to_string()
        }
        _ => format!("layer_{index:03}"),
    };
    let layer = rest.strip_prefix("layers_").and_then(|rest| rest.split_once('/'));
    let layer = layer.and_then(|(block, in_layer)| Some((layer_number(block)?, in_layer)));
    let Some((block, in_layer)) = layer else {
        return Some(match rest {
            embedding if embedding == EMBEDDING.1 => format!("{name}/embedding"),
            norm if *norm == format!("{t5x}_norm/scale") => format!("{name}/{}", norms.of_stack()),
            logits if logits == LOGITS.1 && *t5x == "decoder" => format!("{name}/{}", LOGITS.0),
            bias if bias == BIAS.1 => format!("{name}/block_000/{}/{}", label(0), BIAS.0),
            _ => return None,
        });
    };
    let (index, rest) = match in_layer == BIAS.1 {
        true => (0, BIAS.0.to_string()),
        false => layers
            .iter()
            .enumerate()
            .find_map(|(index, layer)| Some((index, layer.part(in_layer, norms)?)))?,
    };
    Some(format!("{name}/block_{block:03}/{}/{rest}", label(index)))
}

impl Layer {
    /// Returns the name here of a part of a T5X layer, or of the norm before the layer.
    fn part(&self, t5x: &str, norms: MeshNorms) -> Option<String> {
        let (module, rest) = t5x.split_once('/')?;
        if module == self.norm && rest == "scale" {
            return Some(norms.of_layer().to_string());
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

    fn check(variable: &str, spelling: Spelling, per_layer: bool) {
        let name = to_t5x(variable, per_layer).unwrap_or_else(|| panic!("{variable}"));
        assert_eq!(self::variable(&name, spelling).as_deref(), Some(variable), "{name}");
        assert!(mesh_spellings(&name).iter().any(|spelled| spelled == variable), "{name}");
        let (slot, target) = (format!("state/param_states/{name}/v_row"), format!("target/{name}"));
        let check_slot = |shape: &[usize], end: &str| {
            let found = from_t5x(&slot, spelling, &[(&target[..], shape)].into());
            assert_eq!(found, Some(format!("{variable}{end}")));
        };
        check_slot(&[4, 6], "_slot_vr");
        check_slot(&[4, 4], "_slot_vc");
    }

    fn check_stack(stack: &Stack, spelling: Spelling) {
        check("shared/embedding", spelling, false);
        for rest in ["embedding", spelling.norms.of_stack(), LOGITS.0] {
            if stack.t5x == "decoder" || rest != LOGITS.0 {
                check(&format!("{}/{rest}", stack.name), spelling, false);
            }
        }
        let is_tied = spelling.architecture == Architecture::Tied;
        for (at, layer) in stack.layers.iter().enumerate() {
            let label = match is_tied || layer.name == ADAPTER.name {
                true => layer.name.to_string(),
                false => format!("layer_{at:03}"),
            };
            let of_layer = |part: &str| format!("{}/block_012/{label}/{part}", stack.name);
            check(&of_layer(spelling.norms.of_layer()), spelling, false);
            for (kernel, _) in layer.kernels {
                check(&of_layer(&format!("{}/{kernel}", layer.module.0)), spelling, false);
            }
        }
        let first = if is_tied { "self_attention" } else { "layer_000" };
        check(&format!("{}/block_000/{first}/{}", stack.name, BIAS.0), spelling, false);
        check(&format!("{}/block_023/{first}/{}", stack.name, BIAS.0), spelling, true);
    }

    #[test]
    fn every_name_goes_there_and_back() {
        for norms in MeshNorms::ALL {
            for stack in STACKS {
                let architecture = match stack.name {
                    "transformer" => Architecture::DecoderOnly,
                    _ => Architecture::EncoderDecoder,
                };
                check_stack(&stack, Spelling { architecture, norms });
                if stack.name == "decoder" {
                    check_stack(&stack, Spelling { architecture: Architecture::Tied, norms });
                }
            }
        }
    }

    #[test]
    fn an_architecture_follows_from_the_arrays() {
        let check = |names: &[&str], expected| {
            assert_eq!(Architecture::of(names.iter().copied()), expected, "{names:?}");
        };
        let own = "target/decoder/layers_0/self_attention/query/kernel";
        let cross = "target/decoder/layers_0/encoder_decoder_attention/query/kernel";
        check(&[own, cross, "target/encoder/encoder_norm/scale"], Architecture::EncoderDecoder);
        check(&[own, cross], Architecture::Tied);
        check(&[own], Architecture::DecoderOnly);
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
            let spelling = Spelling {
                architecture: Architecture::EncoderDecoder,
                norms: MeshNorms::default(),
            };
            assert_eq!(from_t5x(name, spelling, &BTreeMap::new()), None, "{name}");
        }
    }
}
