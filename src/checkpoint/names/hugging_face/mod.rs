//! The names of T5, mT5, umT5, ByT5 and LongT5 in Hugging Face's transformers.
//!
//! `encoder.block.3.layer.0.SelfAttention.q.weight` is `encoder/layers_3/attention/query/kernel`,
//! transposed. umT5 has a relative bias in every layer, the others one in the first layer for all.

pub(crate) mod activations;
mod table;

use std::collections::BTreeMap;

use self::table::{BIAS, DROPPED, EMBEDDING, EMBEDDINGS, HEAD, LOGITS, REL_EMBEDDING, table};
use super::{Axes, Origin, T5xArray, take_number};
use crate::array::DType;
use crate::raw::RawInfos;

/// The file of weights of a folder, as safetensors.
pub const SAFETENSORS: &str = "model.safetensors";

/// The file of weights that `torch.save` writes.
pub const TORCH: &str = "pytorch_model.bin";

/// The file of weights of transformers' Flax models.
pub const FLAX: &str = "flax_model.msgpack";

/// The naming and layout of a T5's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightsLayout {
    /// `encoder.final_layer_norm.weight`; matrices are `[out, in]`.
    PyTorch,
    /// `encoder/final_layer_norm/weight`; kernels are `[in, out]`, as T5X's.
    Flax,
}

impl WeightsLayout {
    /// Converts a name to PyTorch's name of the tensor.
    fn to_pytorch(self, raw: &str) -> String {
        match (self, raw.rsplit_once('/')) {
            (Self::Flax, Some((module, "kernel" | "embedding" | "weight"))) => {
                format!("{}.weight", module.replace('/', "."))
            }
            (Self::Flax, _) => raw.replace('/', "."),
            (Self::PyTorch, _) => raw.to_string(),
        }
    }

    /// The relation of a tensor's axes to T5X's, given that of PyTorch's axes.
    fn axes(self, raw: &str, of_pytorch: Axes) -> Axes {
        match self {
            Self::Flax if raw.ends_with("/kernel") => Axes::Same,
            _ => of_pytorch,
        }
    }
}

/// Properties of a model that its tensors do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Whether logits have a separate matrix even if it equals the embedding.
    pub is_untied: bool,
    /// Whether the decoder's result is divided by the square root of its width before it is mapped to logits; `None` if an
    /// embedding that maps to logits means so, as in T5X. Otherwise T5X's model needs a matrix of its own.
    pub divides: Option<bool>,
    /// Whether every layer has a separate relative bias; `None` when the tensors decide.
    pub bias_per_layer: Option<bool>,
}

/// Returns the T5X arrays for a model's tensors. Tensors that do not belong to a T5 keep their
/// names below `target/`, so that they are visible and can be assigned.
pub(crate) fn entries(
    tensors: &RawInfos,
    layout: WeightsLayout,
    traits: Traits,
    is_same: &dyn Fn(&str, &str) -> bool,
) -> BTreeMap<String, T5xArray> {
    let table: BTreeMap<String, (String, Axes)> =
        table().into_iter().map(|(hf, t5x, axes)| (hf, (t5x, axes))).collect();
    let prefix = common_prefix(tensors);
    let bare = |raw: &str| layout.to_pytorch(&raw[prefix.len()..]);
    let by_name: BTreeMap<String, &String> = tensors.keys().map(|raw| (bare(raw), raw)).collect();
    let embedding = EMBEDDINGS.into_iter().find(|name| by_name.contains_key(*name));
    let is_tied = match (by_name.get(HEAD), embedding.and_then(|name| by_name.get(name))) {
        (Some(head), Some(embedding)) => !traits.is_untied && is_same(head, embedding),
        _ => true,
    };
    let per_layer = traits.bias_per_layer.unwrap_or_else(|| {
        by_name.keys().any(|name| name.ends_with(BIAS) && !name.contains(".block.0."))
    });
    let mut entries = BTreeMap::new();
    let mut order: Vec<_> = by_name.iter().collect();
    // If both `a.b` and `a/b` exist, `a/b` gets the name with the slash.
    order.sort_by_key(|(name, _)| name.contains('.'));
    for (name, raw) in order {
        let is_spare = EMBEDDINGS.contains(&&name[..]) && embedding != Some(&name[..]);
        if is_spare || name == DROPPED || (is_tied && name == HEAD) {
            continue;
        }
        let known = match embedding == Some(&name[..]) {
            true => Some((EMBEDDING.to_string(), Axes::Same)),
            false => bias_to_t5x(name, per_layer).or_else(|| to_t5x(&table, name)),
        };
        let known = known.map(|(t5x, axes)| (t5x, layout.axes(raw, axes)));
        let info = &tensors[*raw];
        // Only a matrix can have its axes swapped: a tensor of another rank is something else.
        let known = known.filter(|(_, axes)| *axes == Axes::Same || info.shape.len() == 2);
        let (t5x, axes) = known.unwrap_or_else(|| (name.replace('.', "/"), Axes::Same));
        let mut shape = info.shape.clone();
        if axes == Axes::Swapped {
            shape.reverse();
        }
        let mut t5x = format!("target/{t5x}");
        if entries.contains_key(&t5x) {
            t5x = format!("target/{name}");
        }
        let origin = Origin::Tensor(raw.to_string(), axes);
        entries.insert(t5x, T5xArray { origin, dtype: info.dtype, shape });
    }
    if !is_tied && traits.divides == Some(true) {
        divide_head(&mut entries);
    }
    let has_decoder = by_name.keys().any(|name| name.starts_with("decoder."));
    if is_tied && traits.divides == Some(false) && has_decoder {
        entries.extend(head_of_embedding(&entries));
    }
    entries
}

/// Divides a separate matrix that maps to logits, since T5X's model does not divide before one.
fn divide_head(entries: &mut BTreeMap<String, T5xArray>) {
    let Some(head) = entries.get_mut(&format!("target/{LOGITS}")) else { return };
    if let Origin::Tensor(raw, axes) = &head.origin {
        head.origin = Origin::Divided(raw.clone(), *axes, (head.shape[0] as f64).sqrt());
        head.dtype = DType::F32;
    }
}

/// Builds the matrix that maps to logits from the embedding.
fn head_of_embedding(entries: &BTreeMap<String, T5xArray>) -> Option<(String, T5xArray)> {
    let T5xArray { origin: Origin::Tensor(raw, _), dtype, shape } =
        entries.get(&format!("target/{EMBEDDING}"))?
    else {
        return None;
    };
    let &[vocab_size, emb_dim] = &shape[..] else { return None };
    let origin = Origin::Tensor(raw.clone(), Axes::Swapped);
    let entry = T5xArray { origin, dtype: *dtype, shape: vec![emb_dim, vocab_size] };
    Some((format!("target/{LOGITS}"), entry))
}

/// The prefix that wrappers of PyTorch put before every name.
fn common_prefix(tensors: &RawInfos) -> &'static str {
    let all = |prefix: &&str| !tensors.is_empty() && tensors.keys().all(|n| n.starts_with(*prefix));
    ["module._orig_mod.", "_orig_mod.module.", "module.", "_orig_mod."]
        .into_iter()
        .find(all)
        .unwrap_or_default()
}

fn to_t5x(table: &BTreeMap<String, (String, Axes)>, name: &str) -> Option<(String, Axes)> {
    let (general, layer) = match take_number(name, ".block.", '.') {
        Some((general, layer)) => (general, Some(layer)),
        None => (name.to_string(), None),
    };
    let (t5x, axes) = table.get(&general)?;
    let number = layer.map(|layer| layer.to_string()).unwrap_or_default();
    Some((t5x.replace('#', &number), *axes))
}

fn bias_to_t5x(name: &str, per_layer: bool) -> Option<(String, Axes)> {
    let (general, layer) = take_number(name, ".block.", '.')?;
    let (attention, rest) = general.rsplit_once("Attention.")?;
    let stack = attention.split('.').next()?;
    let is_self = attention.ends_with("Self") && attention.contains(".layer.0.");
    if rest != BIAS || !is_self || !matches!(stack, "encoder" | "decoder") {
        return None;
    }
    Some(match per_layer {
        true => (format!("{stack}/layers_{layer}/{REL_EMBEDDING}"), Axes::Swapped),
        false if layer == 0 => (format!("{stack}/{REL_EMBEDDING}"), Axes::Swapped),
        false => return None,
    })
}

/// The kind of attention of the encoder, as in transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncoderAttention {
    /// Full attention.
    Full,
    /// LongT5's attention in windows.
    Local,
    /// LongT5's attention in windows and to global tokens computed on the fly.
    TransientGlobal,
}

impl EncoderAttention {
    /// The name of the module.
    fn module(self) -> &'static str {
        match self {
            Self::Full => "SelfAttention",
            Self::Local => "LocalSelfAttention",
            Self::TransientGlobal => "TransientGlobalSelfAttention",
        }
    }
}

/// Returns the transformers name of a T5X parameter without `target/`, and its axes there.
pub(crate) fn from_t5x(name: &str, attention: EncoderAttention) -> Option<(String, Axes)> {
    let (general, layer) = match take_number(name, "/layers_", '/') {
        Some((general, layer)) => (general, layer),
        None => (name.to_string(), 0),
    };
    let module = |stack: &str| match stack {
        "encoder" => attention.module(),
        _ => EncoderAttention::Full.module(),
    };
    if let Some(before) = general.strip_suffix(REL_EMBEDDING) {
        let stack = before.trim_end_matches("/layers_#/").trim_end_matches('/');
        if matches!(stack, "encoder" | "decoder") {
            let name = format!("{stack}.block.{layer}.layer.0.{}.{BIAS}", module(stack));
            return Some((name, Axes::Swapped));
        }
    }
    let (hf, _, axes) = table().into_iter().find(|(hf, t5x, _)| {
        // The table lists LongT5's parameters of global attention under their only name.
        let is_attention =
            t5x.starts_with("encoder/layers_#/attention/") && hf.contains("SelfAttention");
        *t5x == general && (!is_attention || hf.contains(&format!(".{}.", attention.module())))
    })?;
    Some((hf.replace('#', &layer.to_string()), axes))
}

/// Returns the dimensions in transformers of a T5X array.
pub(crate) fn shape_from_t5x(shape: &[usize], axes: Axes) -> Vec<usize> {
    match axes {
        Axes::Same => shape.to_vec(),
        Axes::Swapped => shape.iter().rev().copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawInfo;

    fn map(names: &[&str], traits: Traits) -> Vec<String> {
        let info = RawInfo { dtype: DType::F32, shape: vec![2, 3] };
        let tensors: RawInfos = names.iter().map(|name| (name.to_string(), info.clone())).collect();
        let is_same = |head: &str, _: &str| !head.starts_with("module.");
        let entries = entries(&tensors, WeightsLayout::PyTorch, traits, &is_same);
        let shown = entries.iter().map(|(name, entry)| match &entry.origin {
            Origin::Tensor(raw, Axes::Swapped) => format!("{name}<{raw} T"),
            Origin::Tensor(raw, Axes::Same) => format!("{name}<{raw}"),
            other => format!("{name}<{other:?}"),
        });
        shown.map(|text| text.strip_prefix("target/").unwrap().to_string()).collect()
    }

    #[test]
    fn wrappers_prefixes_are_no_part_of_a_name() {
        let found = map(&["module.shared.weight", "module.lm_head.weight"], Traits::default());
        assert_eq!(
            found,
            [
                "decoder/logits_dense/kernel<module.lm_head.weight T",
                "token_embedder/embedding<module.shared.weight",
            ]
        );
    }

    #[test]
    fn a_tied_head_and_second_embeddings_are_dropped() {
        let names = ["shared.weight", "encoder.embed_tokens.weight", "lm_head.weight", DROPPED];
        let found = map(&names, Traits::default());
        assert_eq!(found, ["token_embedder/embedding<shared.weight"]);
        let untied = map(&names, Traits { is_untied: true, ..Traits::default() });
        assert_eq!(untied[0], "decoder/logits_dense/kernel<lm_head.weight T");
        let found = map(&["decoder.embed_tokens.weight"], Traits::default());
        assert_eq!(found, ["token_embedder/embedding<decoder.embed_tokens.weight"]);
    }

    #[test]
    fn an_embedding_that_maps_to_logits_as_it_is_becomes_a_matrix_of_its_own() {
        let traits = Traits { divides: Some(false), ..Traits::default() };
        let found = map(&["shared.weight", "decoder.final_layer_norm.weight"], traits);
        assert_eq!(found[1], "decoder/logits_dense/kernel<shared.weight T");
        assert_eq!(map(&["shared.weight"], traits).len(), 1, "an encoder has no logits");
    }

    #[test]
    fn a_separate_matrix_after_a_division_is_divided() {
        let traits = Traits { is_untied: true, divides: Some(true), ..Traits::default() };
        let found = map(&["shared.weight", "lm_head.weight"], traits);
        assert_eq!(
            found[0],
            "decoder/logits_dense/kernel<Divided(\"lm_head.weight\", Swapped, 1.7320508075688772)"
        );
    }

    #[test]
    fn no_tensor_hides_another() {
        let found = map(&["a.b", "a/b", "a.b.c", "a/b.c"], Traits::default());
        assert_eq!(found, ["a.b<a.b", "a/b<a/b", "a/b.c<a/b.c", "a/b/c<a.b.c"]);
    }

    #[test]
    fn a_bias_in_a_later_block_makes_it_one_of_each_layer() {
        let first = format!("decoder.block.0.layer.0.SelfAttention.{BIAS}");
        let later = format!("decoder.block.11.layer.0.SelfAttention.{BIAS}");
        let shared = map(&[&first], Traits::default());
        assert_eq!(shared, [format!("decoder/relpos_bias/rel_embedding<{first} T")]);
        let own = map(&[&first, &later], Traits::default());
        assert_eq!(own[0], format!("decoder/layers_0/relpos_bias/rel_embedding<{first} T"));
        assert_eq!(own[1], format!("decoder/layers_11/relpos_bias/rel_embedding<{later} T"));
    }

    #[test]
    fn tensors_of_other_models_keep_their_names() {
        let found = map(&["classifier.dense.weight", "encoder.block.07.x"], Traits::default());
        assert_eq!(
            found,
            [
                "classifier/dense/weight<classifier.dense.weight",
                "encoder/block/07/x<encoder.block.07.x"
            ]
        );
    }

    #[test]
    fn every_name_goes_there_and_back() {
        let long = EncoderAttention::TransientGlobal;
        for (hf, t5x, axes) in table() {
            let attention = match &hf {
                hf if hf.contains("Transient") => long,
                hf if hf.contains("Local") => EncoderAttention::Local,
                _ => EncoderAttention::Full,
            };
            let layer = if t5x.contains('#') { "7" } else { "0" };
            let (hf, t5x) = (hf.replace('#', layer), t5x.replace('#', layer));
            assert_eq!(from_t5x(&t5x, attention), Some((hf, axes)), "{t5x}");
        }
        let name = format!("encoder/layers_3/{REL_EMBEDDING}");
        let (hf, _) = from_t5x(&name, EncoderAttention::Full).unwrap();
        assert_eq!(hf, format!("encoder.block.3.layer.0.SelfAttention.{BIAS}"));
        let (hf, _) =
            from_t5x(&format!("encoder/{REL_EMBEDDING}"), EncoderAttention::Local).unwrap();
        assert_eq!(hf, format!("encoder.block.0.layer.0.LocalSelfAttention.{BIAS}"));
        assert_eq!(from_t5x("decoder/adapter/kernel", EncoderAttention::Full), None);
    }
}
