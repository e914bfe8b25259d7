//! The dimensions of a parameter for which Adafactor keeps row and column means.
//!
//! Parameters of up to two dimensions follow a heuristic by size. Larger ones, and stacks of
//! layers, need rules from their logical axes. Source: T5X `adafactor.py` (`_parse_rule`,
//! `_factored_dims`, `set_param_axes`).

use std::collections::BTreeMap;

use crate::gin::{Configurable, Evaluator, FromGin, Registry, Reported, Value, ValueKind, choose};

use crate::optim::error::OptimError;
use crate::optim::layout::{Factored, ParamShape};

/// The use of a dimension by the second moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorDim {
    /// Not factored.
    Unfactored,
    /// A dimension of a stack: never averaged over.
    Batch,
    /// Kept by `v_row`.
    Row,
    /// Kept by `v_col`.
    Column,
}

impl FromGin for FactorDim {
    fn expected() -> String {
        format!("None or {}", crate::gin::one_of(&NAMES))
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        if value.kind == ValueKind::None {
            return Ok(FactorDim::Unfactored);
        }
        // T5X ignores case.
        let lower = match &value.kind {
            ValueKind::Str(text) => ValueKind::Str(text.to_lowercase()),
            other => other.clone(),
        };
        Ok(match choose(&Value { kind: lower, span: value.span }, &NAMES, cx)? {
            "row" => FactorDim::Row,
            "col" | "column" => FactorDim::Column,
            "batch" => FactorDim::Batch,
            _ => FactorDim::Unfactored,
        })
    }
}

const NAMES: [&str; 6] = ["row", "col", "column", "batch", "none", "unfactorized"];

/// A rule for each logical axis.
#[derive(Clone, Debug, PartialEq)]
pub enum FactorRules {
    /// Those of a model's logical axes.
    Named(NamedRules),
    /// A dict from the user.
    Custom(BTreeMap<String, FactorDim>),
}

/// Rules that T5X has.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum NamedRules {
    /// Those of its models.
    Standard(StandardLogicalFactorRules),
    /// Those of models with experts.
    Moe(MoeLogicalFactorRules),
    /// Those of models with soft prompts.
    Prompt(PromptLogicalFactorRules),
}

/// The rules for the logical axes of T5X's models. Source: T5X `adafactor.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.adafactor.standard_logical_factor_rules")]
pub struct StandardLogicalFactorRules;

/// The same rules, and those of the axes of experts. Source: T5X `contrib/moe/adafactor_utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.adafactor_utils.logical_factor_rules")]
pub struct MoeLogicalFactorRules;

/// Other rules, and those of the axes of prompts: not to be factored. Of matrices such as one prompt their size decides. Source: prompt-tuning `train/optim.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.train.optim.standard_logical_factor_rules")]
pub struct PromptLogicalFactorRules {
    /// The other rules, a dict; None is those of T5X's models.
    #[gin(default = None)]
    pub rules: Option<BTreeMap<String, FactorDim>>,
}

impl FactorRules {
    fn of(&self, axis: &str) -> Option<FactorDim> {
        match self {
            FactorRules::Custom(rules) => rules.get(axis).copied(),
            FactorRules::Named(NamedRules::Standard(_)) => standard(axis),
            FactorRules::Named(NamedRules::Moe(_)) => match axis {
                "expert" => Some(FactorDim::Batch),
                "expert_mlp" => Some(FactorDim::Column),
                "mlp_embed" => Some(FactorDim::Row),
                "unmodeled" => Some(FactorDim::Unfactored),
                other => standard(other),
            },
            FactorRules::Named(NamedRules::Prompt(PromptLogicalFactorRules { rules })) => {
                match (axis, rules) {
                    ("prompt" | "tasks" | "prompt+embed" | "prompt_embed", _) => {
                        Some(FactorDim::Unfactored)
                    }
                    ("batch", _) => Some(FactorDim::Batch),
                    (other, Some(rules)) => rules.get(other).copied(),
                    (other, None) => standard(other),
                }
            }
        }
    }
}

fn standard(axis: &str) -> Option<FactorDim> {
    match axis {
        "embed" => Some(FactorDim::Row),
        "vocab" | "mlp" | "heads" | "kv" | "joined_kv" | "q_wi_fused" | "o_wo_fused"
        | "multiquery_heads" | "kv_fused" | "mlp_activations" | "memory" | "cdq"
        | "abspos_buckets" | "pooled" | "classes" => Some(FactorDim::Column),
        "relpos_buckets" | "layer_norm_scale" | "lora_rank" => Some(FactorDim::Unfactored),
        "layers" | "stack" => Some(FactorDim::Batch),
        _ => None,
    }
}

impl FromGin for FactorRules {
    fn expected() -> String {
        "@standard_logical_factor_rules() or a dict from axis to 'row', 'column', 'batch' or None"
            .to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(FactorRules::Named),
            ValueKind::Dict(_) => cx.read(value).map(FactorRules::Custom),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(registry: &mut Registry) {
        NamedRules::register(registry);
    }
}

/// Returns the rule of each dimension. Rows without columns, or the reverse, mean no factoring.
pub(super) fn axes_to_dims(
    rules: &FactorRules,
    param: ParamShape<'_>,
) -> Result<Vec<FactorDim>, OptimError> {
    let ParamShape { name, shape, axes } = param;
    if axes.len() != shape.len() {
        let (axes, rank) = (axes.len(), shape.len());
        return Err(OptimError::Rank { name: name.to_string(), axes, rank });
    }
    let unknown =
        |axis: &str| OptimError::UnknownAxis { name: name.to_string(), axis: axis.to_string() };
    let dims: Vec<FactorDim> = axes
        .iter()
        .map(|axis| rules.of(axis).ok_or_else(|| unknown(axis)))
        .collect::<Result<_, _>>()?;
    let has = |dim| dims.contains(&dim);
    let both = has(FactorDim::Row) && has(FactorDim::Column);
    if both && has(FactorDim::Unfactored) {
        return Err(OptimError::Incomplete { name: name.to_string(), axes: axes.to_vec(), dims });
    }
    if both {
        return Ok(dims);
    }
    let unfactored = |dim| if dim == FactorDim::Batch { dim } else { FactorDim::Unfactored };
    Ok(dims.into_iter().map(unfactored).collect())
}

/// Returns the dimensions to average over, and the factoring of the second moment, if any.
pub(super) fn factored_dims(
    param: ParamShape<'_>,
    rule: Option<&[FactorDim]>,
    min_dim_size: usize,
) -> Result<(Vec<usize>, Option<Factored>), OptimError> {
    let rank = param.shape.len();
    let positions = |rule: &[FactorDim], wanted: fn(FactorDim) -> bool| -> Vec<usize> {
        (0..rank).filter(|&dim| wanted(rule[dim])).collect()
    };
    match rule {
        // A rule for a plain matrix is ignored, as in T5X: the heuristic considers its size.
        Some(rule) if rank > 2 || rule.contains(&FactorDim::Batch) => {
            let averaged = positions(rule, |dim| dim != FactorDim::Batch);
            let rows = positions(rule, |dim| dim == FactorDim::Row);
            let columns = positions(rule, |dim| dim == FactorDim::Column);
            let factored = (!rows.is_empty()).then_some(Factored { rows, columns });
            Ok((averaged, factored))
        }
        None if rank > 2 => {
            Err(OptimError::NeedsRule { name: param.name.to_string(), shape: param.shape.to_vec() })
        }
        _ => Ok(((0..rank).collect(), by_size(param.shape, min_dim_size))),
    }
}

/// Factors a large matrix: the smaller dimension becomes the rows'; of equal ones the first.
fn by_size(shape: &[usize], min_dim_size: usize) -> Option<Factored> {
    let &[first, second] = shape else { return None };
    if first.min(second) < min_dim_size {
        return None;
    }
    Some(smaller_as_rows(shape, 0, 1))
}

/// Factors two dimensions of a shape.
pub(super) fn smaller_as_rows(shape: &[usize], first: usize, second: usize) -> Factored {
    let in_order = shape[first] <= shape[second];
    let (row, column) = if in_order { (first, second) } else { (second, first) };
    Factored { rows: vec![row], columns: vec![column] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::rule::Rule as _;
    use crate::optim::{Adafactor, HParamMap};

    fn standard() -> Adafactor {
        let rules = FactorRules::Named(NamedRules::Standard(StandardLogicalFactorRules));
        Adafactor { logical_factor_rules: Some(rules), ..Adafactor::default() }
    }

    /// `expected` are the shapes of m, v, v_col and v_row.
    fn check(spec: &Adafactor, shape: &[usize], axes: &[&'static str], expected: [&[usize]; 4]) {
        let layout = spec.layout(ParamShape { name: "p", shape, axes }).unwrap();
        let found: Vec<&[usize]> = layout.slots.iter().map(|slot| slot.shape.as_slice()).collect();
        assert_eq!(found, expected);
    }

    fn error(spec: &Adafactor, shape: &[usize], axes: &[&'static str]) -> String {
        spec.layout(ParamShape { name: "p", shape, axes }).unwrap_err().to_string()
    }

    #[test]
    fn the_smaller_dimension_of_a_large_matrix_is_its_rows() {
        let axes = ["embed", "mlp"];
        check(&standard(), &[128, 256], &axes, [&[1], &[1], &[256], &[128]]);
        check(&standard(), &[256, 128], &axes, [&[1], &[1], &[256], &[128]]);
        check(&standard(), &[128, 128], &axes, [&[1], &[1], &[128], &[128]]);
    }

    #[test]
    fn vectors_and_small_matrices_are_not_factored() {
        check(&standard(), &[512], &["embed"], [&[1], &[512], &[1], &[1]]);
        check(&standard(), &[127, 512], &["embed", "mlp"], [&[1], &[127, 512], &[1], &[1]]);
        let axes = ["heads", "relpos_buckets"];
        check(&standard(), &[8, 32], &axes, [&[1], &[8, 32], &[1], &[1]]);
    }

    #[test]
    fn prompts_have_rules_of_their_own() {
        let rules =
            FactorRules::Named(NamedRules::Prompt(PromptLogicalFactorRules { rules: None }));
        let spec = Adafactor { logical_factor_rules: Some(rules), ..Adafactor::default() };
        let axes = ["prompt", "prompt_embed"];
        check(&spec, &[100, 768], &axes, [&[1], &[100, 768], &[1], &[1]]);
        // T5X too factors a long prompt.
        check(&spec, &[200, 768], &axes, [&[1], &[1], &[768], &[200]]);
        let of_layers = ["prompt", "layers", "prompt_embed"];
        check(&spec, &[2, 3, 4], &of_layers, [&[1], &[2, 3, 4], &[1], &[1]]);
        assert!(error(&standard(), &[100, 768], &axes).contains("no rule for axis `prompt`"));
    }

    #[test]
    fn momentum_is_kept_whole() {
        let spec = Adafactor { beta1: Some(0.9), ..standard() };
        check(&spec, &[128, 256], &["embed", "mlp"], [&[128, 256], &[1], &[256], &[128]]);
    }

    #[test]
    fn stacked_layers_are_factored_by_rule_at_any_size() {
        let axes = ["embed", "layers", "mlp"];
        check(&standard(), &[16, 4, 24], &axes, [&[1], &[1], &[4, 24], &[16, 4]]);
        let layout = standard().layout(ParamShape { name: "p", shape: &[16, 4, 24], axes: &axes });
        assert_eq!(layout.unwrap().averaged, [0, 2]);
    }

    #[test]
    fn stacked_scales_are_averaged_layer_by_layer() {
        let (shape, axes) = ([512, 4], ["embed", "layers"]);
        check(&standard(), &shape, &axes, [&[1], &[512, 4], &[1], &[1]]);
        let layout = standard().layout(ParamShape { name: "p", shape: &shape, axes: &axes });
        assert_eq!(layout.unwrap().averaged, [0]);
    }

    #[test]
    fn three_dimensions_need_a_rule() {
        let axes = ["embed", "heads", "kv"];
        check(&standard(), &[64, 8, 16], &axes, [&[1], &[1], &[8, 16], &[64]]);
        let message = error(&Adafactor::default(), &[64, 8, 16], &axes);
        assert!(message.contains("standard_logical_factor_rules"), "{message}");
        let rules = NamedRules::Standard(StandardLogicalFactorRules);
        let of_map = Adafactor { factor_map: Some(HParamMap { rules }), ..Adafactor::default() };
        check(&of_map, &[64, 8, 16], &axes, [&[1], &[1], &[8, 16], &[64]]);
        let whole = Adafactor { factored: false, ..Adafactor::default() };
        check(&whole, &[64, 8, 16], &axes, [&[1], &[64, 8, 16], &[1], &[1]]);
    }

    #[test]
    fn axes_that_the_rules_do_not_cover_are_named() {
        let message = error(&standard(), &[2, 3], &["embed", "experts"]);
        assert_eq!(
            message,
            "`logical_factor_rules` has no rule for axis `experts` of parameter `p`"
        );
        let incomplete = error(&standard(), &[2, 3, 4], &["embed", "mlp", "relpos_buckets"]);
        assert!(incomplete.contains("mark the latter"), "{incomplete}");
    }

    fn read(value: ValueKind) -> Result<FactorRules, String> {
        use crate::gin::{Config, FileId, Span};
        let (config, registry) = (Config::default(), Registry::default());
        let mut cx = Evaluator::new(&config, &registry);
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let read = cx.read::<FactorRules>(&Value { kind: value, span });
        read.map_err(|_| cx.into_diagnostics()[0].message.clone())
    }

    fn dict(entries: &[(&str, ValueKind)]) -> ValueKind {
        use crate::gin::{FileId, Span};
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let value = |kind| Value { kind, span };
        let entry = |(axis, dim): &(&str, ValueKind)| {
            (value(ValueKind::Str(axis.to_string())), value(dim.clone()))
        };
        ValueKind::Dict(entries.iter().map(entry).collect())
    }

    #[test]
    fn rules_may_be_a_dict_in_any_case() {
        let text = |text: &str| ValueKind::Str(text.to_string());
        let rules = dict(&[("embed", text("ROW")), ("mlp", text("Col")), ("x", ValueKind::None)]);
        let rules = read(rules).unwrap();
        assert_eq!(rules.of("embed"), Some(FactorDim::Row));
        assert_eq!(rules.of("mlp"), Some(FactorDim::Column));
        assert_eq!(rules.of("x"), Some(FactorDim::Unfactored));
        assert_eq!(rules.of("y"), None);
        let wrong = read(dict(&[("embed", text("rows"))])).unwrap_err();
        assert!(wrong.contains("found 'rows'"), "{wrong}");
        assert!(read(ValueKind::from(3)).is_err());
    }
}
