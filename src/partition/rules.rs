//! The mapping from logical axes to mesh axes by T5X's standard rules (T5X `partitioning.py`).

use super::spec::{
    LogicalAxisRules, PROMPT_AXES, PjitPartitioner, StandardLogicalAxisRules, StandardMoeAxisRules,
    TASK_AXES,
};

/// Pairs of a logical axis and the mesh axis that splits it, tried in order.
pub type Rules = Vec<(String, Option<String>)>;

impl StandardLogicalAxisRules {
    /// Returns the rules that these parameters select.
    pub fn rules(&self) -> Rules {
        let mut rules = vec![
            ("batch", Some("data")),
            ("vocab", Some("model")),
            ("mlp", Some("model")),
            ("heads", Some("model")),
            ("kv", None),
            ("joined_kv", Some("model")),
        ];
        if self.activation_partitioning_dims >= 2 {
            rules.push(("embed", Some("model")));
        }
        if self.parameter_partitioning_dims >= 2 {
            rules.push(("embed", Some("data")));
        }
        rules.push(("embed", None));
        let whole = [
            "relpos_buckets",
            "abspos_buckets",
            "length",
            "layers",
            "stack",
            "memory",
            "cdq",
            "pooled",
            "classes",
            "lora_rank",
        ];
        let whole = whole.into_iter().chain(PROMPT_AXES).chain(TASK_AXES);
        rules.extend(whole.map(|axis| (axis, None)));
        rules.push(("mlp_activations", None));
        let own = |(axis, mesh): (&str, Option<&str>)| (axis.to_string(), mesh.map(str::to_string));
        let mut rules: Rules = rules.into_iter().map(own).collect();
        rules.extend(self.additional_rules.iter().flatten().cloned());
        rules
    }
}

impl LogicalAxisRules {
    /// Returns the same rules with those numbers of dimensions; standard rules instead of listed ones.
    pub fn with_dims(
        self,
        activation_partitioning_dims: usize,
        parameter_partitioning_dims: usize,
    ) -> Self {
        match self {
            Self::Moe(StandardMoeAxisRules { additional_rules, .. }) => {
                Self::Moe(StandardMoeAxisRules {
                    activation_partitioning_dims,
                    parameter_partitioning_dims,
                    additional_rules,
                })
            }
            rules => Self::Standard(StandardLogicalAxisRules {
                activation_partitioning_dims,
                parameter_partitioning_dims,
                additional_rules: rules.standard().additional_rules,
            }),
        }
    }

    /// Returns the parameters that all rules have.
    pub fn standard(&self) -> StandardLogicalAxisRules {
        match self {
            Self::Standard(standard) => standard.clone(),
            Self::Listed(listed) => listed.standard.clone(),
            Self::Moe(moe) => {
                let of_experts = [
                    ("expert", Some("expert")),
                    ("expert_mlp", Some("model")),
                    ("expert_replicas", Some("data")),
                    ("unmodeled", None),
                ];
                let own = |(axis, mesh): (&str, Option<&str>)| {
                    (axis.to_string(), mesh.map(str::to_string))
                };
                let additional = moe.additional_rules.iter().flatten().cloned();
                StandardLogicalAxisRules {
                    activation_partitioning_dims: moe.activation_partitioning_dims,
                    parameter_partitioning_dims: moe.parameter_partitioning_dims,
                    additional_rules: Some(
                        of_experts.map(own).into_iter().chain(additional).collect(),
                    ),
                }
            }
        }
    }
}

impl PjitPartitioner {
    /// Returns the effective rules.
    pub fn rules(&self) -> Rules {
        self.standard().rules()
    }

    /// Returns the rules that divide the optimizer's state.
    pub fn state_rules(&self) -> Rules {
        match self.spread_optimizer_state {
            true => StandardLogicalAxisRules { parameter_partitioning_dims: 2, ..self.standard() }
                .rules(),
            false => self.rules(),
        }
    }

    /// Whether activations between blocks are divided over the model axis too.
    pub fn splits_activations(&self) -> bool {
        self.standard().activation_partitioning_dims >= 2
    }

    /// Returns the standard rules that divide the model as the bound rules do.
    fn standard(&self) -> StandardLogicalAxisRules {
        let rules = self.logical_axis_rules.as_ref();
        rules.map_or_else(StandardLogicalAxisRules::default, LogicalAxisRules::standard)
    }
}

/// Returns the mesh axis that splits each axis of a tensor: rules come one after the other, and each mesh
/// axis splits a tensor once. Source: flax `linen/spmd.py`, `logical_to_mesh_axes`.
pub fn mesh_axes(logical_axes: &[&str], rules: &Rules) -> Vec<Option<String>> {
    let mut assigned: Vec<Option<&Option<String>>> = vec![None; logical_axes.len()];
    for (name, mesh) in rules {
        let Some(place) = logical_axes.iter().position(|axis| axis == name) else { continue };
        let is_free = mesh.is_none() || !assigned.contains(&Some(mesh));
        if is_free && assigned[place].is_none() {
            assigned[place] = Some(mesh);
        }
    }
    assigned.into_iter().map(|mesh| mesh.cloned().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(parameter_partitioning_dims: usize, axes: &[&str]) -> Vec<Option<String>> {
        let rules = StandardLogicalAxisRules { parameter_partitioning_dims, ..Default::default() };
        mesh_axes(axes, &rules.rules())
    }

    #[test]
    fn one_dimension_splits_the_wide_axis_over_the_model_axis() {
        assert_eq!(split(1, &["embed", "mlp"]), [None, Some("model".to_string())]);
    }

    #[test]
    fn two_parameter_dimensions_also_split_embed_over_data() {
        let expected = [Some("data".to_string()), Some("model".to_string())];
        assert_eq!(split(2, &["embed", "mlp"]), expected);
    }

    #[test]
    fn a_mesh_axis_splits_a_tensor_once() {
        assert_eq!(split(1, &["vocab", "mlp"]), [Some("model".to_string()), None]);
    }
}
