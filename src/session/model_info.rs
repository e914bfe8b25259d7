//! `model-info.txt`: every parameter and optimizer slot with its shape and its partitioning, in
//! T5X's layout (T5X `utils.py`, `log_model_info`).

use crate::partition::{Rules, mesh_axes};

/// One array of the training state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Path, `/` between components.
    pub name: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// Logical axes; empty if the array has none and is replicated.
    pub axes: Vec<&'static str>,
}

/// The file's text: parameters, their total, a blank line, then the rest of the state.
pub fn model_info(parameters: &[Variable], state: &[Variable], rules: &Rules) -> String {
    let mut out = String::new();
    for variable in parameters {
        out.push_str(&line(variable, rules));
    }
    let total: usize = parameters.iter().map(size).sum();
    out.push_str(&format!("Total number of parameters: {total}\n\n"));
    for variable in state {
        out.push_str(&line(variable, rules));
    }
    out
}

fn size(variable: &Variable) -> usize {
    variable.shape.iter().product()
}

fn line(variable: &Variable, rules: &Rules) -> String {
    let Variable { name, shape, axes } = variable;
    let partitioned = axes.len() == shape.len() && !axes.is_empty();
    let shape_text = if partitioned {
        let named = axes.iter().zip(shape).map(|(axis, extent)| format!("{axis}={extent}"));
        format!("({})", named.collect::<Vec<_>>().join(", "))
    } else {
        tuple(shape.iter().map(usize::to_string))
    };
    let split = if partitioned {
        tuple(mesh_axes(axes, rules).into_iter().map(|axis| match axis {
            Some(axis) => format!("'{axis}'"),
            None => "None".to_string(),
        }))
    } else {
        "None".to_string()
    };
    let size = size(variable);
    format!("Variable {name:<80} size {size:<12} shape {shape_text:<40} partition spec {split}\n")
}

/// Formats a tuple as Python prints it.
fn tuple(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match &items[..] {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::PjitPartitioner;

    #[test]
    fn lines_look_like_those_of_t5x() {
        let partitioner = PjitPartitioner {
            num_partitions: Some(1),
            logical_axis_rules: None,
            ..Default::default()
        };
        let kernel = Variable {
            name: "encoder/layers_0/mlp/wi_0/kernel".to_string(),
            shape: vec![8, 16],
            axes: vec!["embed", "mlp"],
        };
        let row = Variable { name: "step".to_string(), shape: vec![], axes: vec![] };
        let text = model_info(&[kernel], &[row], &partitioner.rules());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            format!(
                "Variable {:<80} size 128          shape (embed=8, mlp=16)                        \
                 partition spec (None, 'model')",
                "encoder/layers_0/mlp/wi_0/kernel"
            )
        );
        assert_eq!(lines[1], "Total number of parameters: 128");
        assert_eq!(lines[2], "");
        assert!(lines[3].contains("shape ()") && lines[3].ends_with("partition spec None"));
    }
}
