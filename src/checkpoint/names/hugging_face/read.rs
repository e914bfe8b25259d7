//! The tensors of a model of transformers under T5X's names.

use std::collections::BTreeMap;

use super::table::{NameTable, Rows, fitting};
use crate::array::DType;
use crate::names::{Axes, Origin, T5xArray};
use crate::raw::RawInfos;

/// The naming and layout of tensors.
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
            (Self::Flax, Some((module, "kernel" | "embedding" | "weight" | "scale"))) => {
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

/// Properties of the map to logits that tensors do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadFacts {
    /// Whether logits have a separate matrix even if it equals the embedding.
    pub is_untied: bool,
    /// Whether the last stack's result is divided by the square root of its width before it is mapped to logits; `None` if
    /// an embedding that maps to logits means so, as in T5X. Otherwise T5X's model needs a matrix of its own.
    pub divides: Option<bool>,
}

/// The tensors of a model by their names in PyTorch, each with its own name.
type Named<'a> = BTreeMap<String, &'a String>;

/// Returns the T5X arrays for a model's tensors, by the table that knows most of them. Tensors that it does not know keep
/// their names below `target/`, so that they are visible and can be assigned.
pub(crate) fn entries(
    tensors: &RawInfos,
    layout: WeightsLayout,
    (tables, facts): (&[&'static NameTable], HeadFacts),
    is_same: &dyn Fn(&str, &str) -> bool,
) -> BTreeMap<String, T5xArray> {
    let prefix = common_prefix(tensors);
    let bare = |raw: &str| layout.to_pytorch(&raw[prefix.len()..]);
    let named: Named<'_> = tensors.keys().map(|raw| (bare(raw), raw)).collect();
    let known = |rows: &Rows| named.keys().filter(|name| rows.to_t5x(name).is_some()).count();
    let found = fitting(tables.iter().copied(), known);
    let (table, rows) = found.unwrap_or_else(|| (&NameTable::NONE, NameTable::NONE.rows()));
    let is_tied =
        is_tied(table, &named, |head, embedding| !facts.is_untied && is_same(head, embedding));
    let mut entries = BTreeMap::new();
    let mut order: Vec<_> = named.iter().collect();
    // If both `a.b` and `a/b` exist, `a/b` gets the name with the slash.
    order.sort_by_key(|(name, _)| name.contains('.'));
    for (name, raw) in order {
        let is_embedding = is_tied && table.head.is_some_and(|(head, _)| head == name);
        let own = own_name(table, &named, name).filter(|_| !is_embedding);
        let Some(own) = own.filter(|name| !table.drops(name)) else { continue };
        let known = rows.to_t5x(own).map(|(t5x, kind)| (t5x, layout.axes(raw, kind.axes)));
        let info = &tensors[*raw];
        // Only a matrix can have its axes swapped: a tensor of another rank is something else.
        let known = known.filter(|(_, axes)| *axes == Axes::Same || info.shape.len() == 2);
        let (t5x, axes) = known.unwrap_or_else(|| (name.replace('.', "/"), Axes::Same));
        let mut t5x = format!("target/{t5x}");
        if entries.contains_key(&t5x) {
            t5x = format!("target/{name}");
        }
        let origin = Origin::Tensor(raw.to_string(), axes);
        entries.insert(t5x, T5xArray { origin, dtype: info.dtype, shape: axes.of(&info.shape) });
    }
    if let Some((head, embedding)) = table.head {
        let t5x = |name| rows.to_t5x(name).map(|(t5x, _)| format!("target/{t5x}"));
        let names = [t5x(head), t5x(embedding[0])];
        let names = names.map(|name| name.expect("a table names its head and its embedding"));
        match (is_tied, facts.divides) {
            (false, Some(true)) => divide_head(&mut entries, &names[0]),
            (true, Some(false)) => add_head(&mut entries, names),
            _ => {}
        }
    }
    entries
}

/// Whether the embedding maps to logits, and not another matrix.
fn is_tied(table: &NameTable, named: &Named<'_>, is_same: impl Fn(&str, &str) -> bool) -> bool {
    table.head.is_none_or(|(head, embedding)| {
        let embedding = embedding.iter().find_map(|name| named.get(*name));
        match (named.get(head), embedding) {
            (Some(head), Some(embedding)) => is_same(head, embedding),
            _ => true,
        }
    })
}

/// Returns the name of a tensor in the table; `None` for a copy of another tensor.
fn own_name<'a>(table: &NameTable, named: &Named<'_>, name: &'a str) -> Option<&'a str> {
    let Some(names) = table.copies.iter().find(|names| names.contains(&name)) else {
        return Some(name);
    };
    let first = names.iter().find(|name| named.contains_key(**name));
    (first == Some(&name)).then_some(names[0])
}

/// Divides a separate matrix that maps to logits, since T5X's model does not divide before one.
fn divide_head(entries: &mut BTreeMap<String, T5xArray>, head: &str) {
    let Some(head) = entries.get_mut(head) else { return };
    if let Origin::Tensor(raw, axes) = &head.origin {
        head.origin = Origin::Divided(raw.clone(), *axes, (head.shape[0] as f64).sqrt());
        head.dtype = DType::F32;
    }
}

/// Adds the matrix that maps to logits, which is the embedding, if the stack is there whose result it reads.
fn add_head(entries: &mut BTreeMap<String, T5xArray>, [head, embedding]: [String; 2]) {
    let stack = |name: &str| name.split('/').nth(1).map(str::to_string);
    let has_stack = entries.keys().any(|name| stack(name) == stack(&head));
    let Some(T5xArray { origin: Origin::Tensor(raw, _), dtype, shape }) = entries.get(&embedding)
    else {
        return;
    };
    if let (true, &[vocab_size, emb_dim]) = (has_stack, &shape[..]) {
        let origin = Origin::Tensor(raw.clone(), Axes::Swapped);
        let entry = T5xArray { origin, dtype: *dtype, shape: vec![emb_dim, vocab_size] };
        entries.insert(head, entry);
    }
}

/// The prefix that wrappers of PyTorch put before every name.
fn common_prefix(tensors: &RawInfos) -> &'static str {
    let all = |prefix: &&str| !tensors.is_empty() && tensors.keys().all(|n| n.starts_with(*prefix));
    ["module._orig_mod.", "_orig_mod.module.", "module.", "_orig_mod."]
        .into_iter()
        .find(all)
        .unwrap_or_default()
}
