//! Rules that a user lists, as T5X's page about partitioning shows them, in place of the standard ones:
//! `PjitPartitioner.logical_axis_rules = [('batch', 'data'), ('embed', 'data'), ('mlp', None), ...]`.

use crate::gin::{Configurable, Evaluator, FromGin, Registry, Reported, Value, ValueKind};

use super::rules::Rules;
use super::spec::{LogicalAxisRules, StandardLogicalAxisRules, StandardMoeAxisRules};

/// Logical axes that networks divide over the model axis, all or none of them.
const TOGETHER: [&str; 3] = ["heads", "mlp", "vocab"];

/// The meaning of rules that a user lists.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedRules {
    /// The standard rules that divide activations and parameters in the same way.
    pub standard: StandardLogicalAxisRules,
    /// Whether the model axis divides parameters. If not, its processes divide batches instead.
    pub divides_model: bool,
}

/// Rules that have a name.
#[derive(Clone, Debug, PartialEq, Configurable)]
enum NamedRules {
    Standard(StandardLogicalAxisRules),
    Moe(StandardMoeAxisRules),
}

impl From<NamedRules> for LogicalAxisRules {
    fn from(named: NamedRules) -> Self {
        match named {
            NamedRules::Standard(rules) => Self::Standard(rules),
            NamedRules::Moe(rules) => Self::Moe(rules),
        }
    }
}

impl FromGin for LogicalAxisRules {
    fn expected() -> String {
        "@standard_logical_axis_rules() or a list of pairs of a logical axis and 'data', 'model' or None".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Reference(_) => cx.read::<NamedRules>(value).map(Self::from),
            ValueKind::List(_) | ValueKind::Tuple(_) => {
                let rules: Rules = cx.read(value)?;
                let listed = ListedRules::meaning(&rules).map(Self::Listed);
                listed.map_err(|reason| cx.unfit_because(value, &Self::expected(), &reason))
            }
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(registry: &mut Registry) {
        NamedRules::register(registry);
    }
}

impl ListedRules {
    /// Returns the meaning of the rules, or the reason why networks cannot be divided so.
    fn meaning(rules: &Rules) -> Result<Self, String> {
        for (axis, mesh) in rules {
            check(axis, mesh.as_deref())?;
        }
        let has = |axis: &str, mesh: &str| {
            rules.iter().any(|(name, over)| name == axis && over.as_deref() == Some(mesh))
        };
        let (divided, whole): (Vec<_>, Vec<_>) =
            TOGETHER.into_iter().partition(|axis| has(axis, "model"));
        if let (Some(divided), Some(whole)) = (divided.first(), whole.first()) {
            return Err(format!(
                "`{divided}` is mapped to 'model' and `{whole}` is not: map `heads`, `mlp` and `vocab` all to 'model', or none"
            ));
        }
        let dims = |is_divided: bool| if is_divided { 2 } else { 1 };
        Ok(Self {
            standard: StandardLogicalAxisRules {
                activation_partitioning_dims: dims(has("embed", "model")),
                parameter_partitioning_dims: dims(has("embed", "data")),
                additional_rules: None,
            },
            divides_model: whole.is_empty(),
        })
    }
}

/// Ensures that the mesh axis can divide the logical axis.
fn check(axis: &str, mesh: Option<&str>) -> Result<(), String> {
    let possible: &[&str] = match axis {
        "batch" => &["data"],
        "embed" => &["data", "model"],
        // Kernels of attentions are divided by heads, whichever of the two axes they have.
        "heads" | "mlp" | "vocab" | "joined_kv" => &["model"],
        _ => &[],
    };
    match mesh {
        Some(mesh) if !possible.contains(&mesh) => {
            let names: Vec<String> = possible.iter().map(|name| format!("'{name}'")).collect();
            let names = names.into_iter().chain(["None".to_string()]).collect::<Vec<_>>();
            Err(format!(
                "`{axis}` cannot be divided over '{mesh}', only over {}",
                names.join(" or ")
            ))
        }
        None if axis == "batch" => {
            Err("batches are always divided over the data axis: map `batch` to 'data'".to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::PjitPartitioner;
    use super::*;

    fn meaning(pairs: &[(&str, Option<&str>)]) -> Result<(usize, usize, bool), String> {
        let own =
            |(axis, mesh): &(&str, Option<&str>)| (axis.to_string(), mesh.map(str::to_string));
        let listed = ListedRules::meaning(&pairs.iter().map(own).collect())?;
        let StandardLogicalAxisRules {
            activation_partitioning_dims,
            parameter_partitioning_dims,
            ..
        } = listed.standard;
        Ok((activation_partitioning_dims, parameter_partitioning_dims, listed.divides_model))
    }

    /// The lists of T5X's `docs/usage/partitioning.md`.
    #[test]
    fn published_lists_mean_what_standard_rules_say_in_short() {
        let check = |more: &[(&str, Option<&str>)], expected| {
            let rest =
                [("batch", Some("data")), ("kv", None), ("joined_kv", None), ("length", None)];
            assert_eq!(meaning(&[&rest[..], more].concat()), Ok(expected), "{more:?}");
        };
        let model = TOGETHER.map(|axis| (axis, Some("model")));
        let whole = TOGETHER.map(|axis| (axis, None));
        check(&[&whole[..], &[("embed", None)]].concat(), (1, 1, false));
        check(&[&[("embed", Some("data"))], &whole[..]].concat(), (1, 2, false));
        check(&[&model[..], &[("embed", None)]].concat(), (1, 1, true));
        check(&[&model[..], &[("embed", Some("model"))]].concat(), (2, 1, true));
        let both = [("embed", Some("model")), ("embed", Some("data"))];
        check(&[&model[..], &both].concat(), (2, 2, true));
    }

    #[test]
    fn a_model_axis_without_anything_to_divide_divides_batches() {
        let partitions = |divides_model| {
            let listed =
                ListedRules { standard: StandardLogicalAxisRules::default(), divides_model };
            let logical_axis_rules = Some(LogicalAxisRules::Listed(listed));
            let pjit = PjitPartitioner {
                num_partitions: Some(2),
                logical_axis_rules,
                ..Default::default()
            };
            pjit.requested_partitions()
        };
        assert_eq!((partitions(true), partitions(false)), (Some(2), Some(1)));
    }

    #[test]
    fn a_list_that_no_network_follows_is_refused_with_the_reason() {
        let refused = |rules, part: &str| {
            let reason = meaning(rules).expect_err("no network follows it");
            assert!(reason.contains(part), "{reason}");
        };
        refused(
            &[("mlp", Some("model")), ("heads", None)],
            "`mlp` is mapped to 'model' and `heads` is not",
        );
        refused(
            &[("mlp", Some("data"))],
            "`mlp` cannot be divided over 'data', only over 'model' or None",
        );
        refused(&[("length", Some("model"))], "only over None");
        refused(&[("batch", None)], "map `batch` to 'data'");
    }
}
