//! A table of names: those of transformers' tensors and of T5X's parameters, which it translates in both directions.

use crate::names::{Axes, layer_number};

/// A kind of parameter: the last parts of its names, and the order of its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterKind {
    /// The last part in PyTorch's models of transformers.
    pub torch: &'static str,
    /// The last part in Flax's.
    pub flax: &'static str,
    /// The last part in T5X.
    pub t5x: &'static str,
    /// The relation of PyTorch's axes to T5X's.
    pub axes: Axes,
}

/// The last part of the name of a kernel in Flax, whose axes are T5X's.
const FLAX_KERNEL: &str = "kernel";

impl ParameterKind {
    /// A matrix that multiplies: `[out, in]` in PyTorch, `[in, out]` in Flax and T5X.
    pub const KERNEL: Self =
        Self { torch: "weight", flax: FLAX_KERNEL, t5x: "kernel", axes: Axes::Swapped };

    /// A vector for each of some ids: `[ids, width]`.
    pub const EMBEDDING: Self =
        Self { torch: "weight", flax: "embedding", t5x: "embedding", axes: Axes::Same };

    /// The relation of Flax's axes to T5X's.
    pub(crate) fn flax_axes(self) -> Axes {
        if self.flax == FLAX_KERNEL { Axes::Same } else { self.axes }
    }
}

/// A module of transformers, the module of T5X, and the parameters in it, each with its names without the last part. A `#`
/// stands for the number of a layer, in both names of a module; an empty name adds nothing.
pub type ModuleNames =
    (&'static str, &'static str, &'static [(&'static str, &'static str, ParameterKind)]);

/// The names of the tensors of a family's models, in one of their spellings. Tensors have PyTorch's names.
#[derive(Debug)]
pub struct NameTable {
    /// The `model_type` of `config.json`.
    pub model_type: &'static str,
    /// The class of transformers, in `architectures`.
    pub class: &'static str,
    /// The modules, in groups that tables share.
    pub modules: &'static [&'static [ModuleNames]],
    /// The names of a tensor that transformers store under several; the modules have its first name.
    pub copies: &'static [&'static [&'static str]],
    /// The matrix that maps to logits, and the names of the embedding, which is this matrix in models without one.
    pub head: Option<(&'static str, &'static [&'static str])>,
    /// A key of `config.json` that is true of its models, and of no other's.
    pub stated_by: Option<&'static str>,
    /// Tensors without effect, with a `#` for the number of a layer.
    pub dropped: &'static [&'static str],
}

impl NameTable {
    /// The table of no family.
    pub(crate) const NONE: Self = Self {
        model_type: "",
        class: "",
        modules: &[],
        copies: &[],
        head: None,
        stated_by: None,
        dropped: &[],
    };

    /// Whether the tensor of that name has no effect.
    pub(crate) fn drops(&self, name: &str) -> bool {
        self.dropped.iter().any(|dropped| renamed(name, dropped, "").is_some())
    }

    pub(crate) fn rows(&self) -> Rows {
        let modules = self.modules.iter().copied().flatten();
        let rows = modules.flat_map(|(torch, t5x, parameters)| {
            parameters.iter().map(move |(name, own, kind)| Row {
                torch: joined([torch, name, kind.torch], "."),
                t5x: joined([t5x, own, kind.t5x], "/"),
                kind: *kind,
            })
        });
        Rows(rows.collect())
    }
}

fn joined(parts: [&str; 3], by: &str) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(by)
}

/// The names of a table's parameters.
pub(crate) struct Rows(Vec<Row>);

struct Row {
    torch: String,
    t5x: String,
    kind: ParameterKind,
}

impl Rows {
    /// Returns T5X's name of a tensor, without `target/`, and its kind.
    pub(crate) fn to_t5x(&self, torch: &str) -> Option<(String, ParameterKind)> {
        self.0.iter().find_map(|row| Some((renamed(torch, &row.torch, &row.t5x)?, row.kind)))
    }

    /// Returns transformers' name of a parameter without `target/`, and its kind.
    pub(crate) fn to_torch(&self, t5x: &str) -> Option<(String, ParameterKind)> {
        self.0.iter().find_map(|row| Some((renamed(t5x, &row.t5x, &row.torch)?, row.kind)))
    }
}

/// Returns `to` with the number that the name has in place of the `#` of `from`; `None` for another name, or a number with a
/// leading zero.
fn renamed(name: &str, from: &str, to: &str) -> Option<String> {
    let Some((before, after)) = from.split_once('#') else {
        return (name == from).then(|| to.to_string());
    };
    let digits = name.strip_prefix(before)?.strip_suffix(after)?;
    layer_number(digits).map(|_| to.replace('#', digits))
}

/// Returns the table in which `count` finds the most names, the first of equal ones, with its rows.
pub(crate) fn fitting(
    tables: impl IntoIterator<Item = &'static NameTable>,
    count: impl Fn(&Rows) -> usize,
) -> Option<(&'static NameTable, Rows)> {
    let found = tables.into_iter().map(|table| (table, table.rows()));
    let counted = found.map(|(table, rows)| (count(&rows), (table, rows)));
    counted.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, it)| it)
}
