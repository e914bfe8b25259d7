//! The names of NVIDIA's Transformer Engine for the parameters of a layer, of which some share an array.

use super::LAYERS;

/// More kernels than this share no array.
const MAX_KERNELS: usize = 100;

/// An array of the Transformer Engine.
pub(super) struct Fused {
    /// T5X's names of the parameters in it.
    pub parts: Vec<String>,
    /// Whether it has an axis of parts, where arrays of a whole stack have that of layers.
    pub has_axis: bool,
}

/// Returns the parameters in an array of that name and shape, if it is one of the Transformer Engine's:
/// `target/encoder/layers_3/attention/qkv/kernel` of shape `[embed, 3, joined_kv]`.
pub(super) fn fused(name: &str, shape: &[usize]) -> Option<Fused> {
    let (stack, rest) = name.strip_prefix("target/")?.split_once("/layers_")?;
    let (layer, rest) = rest.split_once('/')?;
    let whole = |part: &str| format!("target/{stack}/layers_{layer}/{part}");
    if let Some(norm) = norm(rest) {
        return Some(Fused { parts: vec![whole(&format!("{norm}/scale"))], has_axis: false });
    }
    if rest == "mlp/wo_kernel" {
        return Some(Fused { parts: vec![whole("mlp/wo/kernel")], has_axis: false });
    }
    let &[_, count, _] = shape else { return None };
    let (block, kernels) = match rest.rsplit_once('/')? {
        ("mlp", "wi_kernel") => ("mlp", inputs(count)),
        (block, "kernel") => {
            let (attention, kind) = block.rsplit_once('/')?;
            let kernels: &[&str] = match kind {
                "qkv" => &["query", "key", "value"],
                "kv" => &["key", "value"],
                _ => return None,
            };
            (attention, kernels.iter().map(|kernel| kernel.to_string()).collect())
        }
        _ => return None,
    };
    let parts = kernels.iter().map(|kernel| whole(&format!("{block}/{kernel}/kernel")));
    (shape[LAYERS] == kernels.len()).then(|| Fused { parts: parts.collect(), has_axis: true })
}

/// Returns T5X's name of the norm whose scale has that name.
fn norm(scale: &str) -> Option<&'static str> {
    Some(match scale {
        "attention/qkv/scale" => "pre_attention_layer_norm",
        "self_attention/qkv/scale" => "pre_self_attention_layer_norm",
        "encoder_decoder_attention/query/scale" => "pre_cross_attention_layer_norm",
        "mlp/scale" => "pre_mlp_layer_norm",
        _ => return None,
    })
}

/// The names of the input kernels of a feed-forward block with that many activations.
fn inputs(count: usize) -> Vec<String> {
    match count {
        1 => vec!["wi".to_string()],
        _ => (0..count.min(MAX_KERNELS)).map(|index| format!("wi_{index}")).collect(),
    }
}
