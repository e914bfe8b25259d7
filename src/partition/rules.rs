//! The mapping from logical axes to mesh axes by T5X's standard rules (T5X `partitioning.py`).

use super::spec::{LogicalAxisRules, PjitPartitioner, StandardLogicalAxisRules};

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
        let whole = ["relpos_buckets", "abspos_buckets", "length", "layers", "stack"];
        rules.extend(whole.map(|axis| (axis, None)));
        rules.push(("mlp_activations", None));
        let own = |(axis, mesh): (&str, Option<&str>)| (axis.to_string(), mesh.map(str::to_string));
        let mut rules: Rules = rules.into_iter().map(own).collect();
        rules.extend(self.additional_rules.iter().flatten().cloned());
        rules
    }
}

impl PjitPartitioner {
    /// Returns the effective rules.
    pub fn rules(&self) -> Rules {
        match &self.logical_axis_rules {
            Some(LogicalAxisRules::Standard(standard)) => standard.rules(),
            None => StandardLogicalAxisRules {
                activation_partitioning_dims: 1,
                parameter_partitioning_dims: 1,
                additional_rules: None,
            }
            .rules(),
        }
    }
}

/// Returns the mesh axis that splits each axis of a tensor: the first rule that fits, with each
/// mesh axis used at most once per tensor.
pub fn mesh_axes(logical_axes: &[&str], rules: &Rules) -> Vec<Option<String>> {
    let mut used: Vec<String> = Vec::new();
    logical_axes
        .iter()
        .map(|axis| {
            let fits =
                |mesh: &Option<String>| mesh.as_ref().is_none_or(|mesh| !used.contains(mesh));
            let rule = rules.iter().find(|(name, mesh)| name == axis && fits(mesh));
            let mesh = rule.and_then(|(_, mesh)| mesh.clone());
            used.extend(mesh.clone());
            mesh
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(parameter_partitioning_dims: usize, axes: &[&str]) -> Vec<Option<String>> {
        let rules = StandardLogicalAxisRules {
            activation_partitioning_dims: 1,
            parameter_partitioning_dims,
            additional_rules: None,
        };
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
