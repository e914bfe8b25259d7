//! Models that the processes of a mesh cannot divide.

use super::mesh::Mesh;
use crate::nn::{MeshDim, ParamSpec, Shard, part_of};

/// A mesh that does not fit the processes or the model, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(pub String);

/// The logical axes that every process must have the same share of, in the words of a T5Config.
const EVEN: [(&str, &str); 4] = [
    ("heads", "num_heads"),
    ("mlp", "mlp_dim"),
    ("expert_mlp", "EXPERT_MLP_DIM"),
    ("expert", "NUM_EXPERTS"),
];

/// Logical axes of parameters whose work processes along the model axis cannot divide, in the same words.
const UNDIVIDED: [(&str, &str); 2] = [("memory", "num_memory_tokens"), ("cdq", "num_cdq_heads")];

impl Mesh {
    /// Ensures that each process has a share of every parameter that the mesh divides.
    ///
    /// # Errors
    /// The first parameter that is too small, or not divisible where it must be.
    pub fn check(&self, params: &[ParamSpec]) -> Result<(), Misfit> {
        params.iter().try_for_each(|param| {
            self.check_undivided(param)?;
            let part = self.state_shard(&param.axes, &param.shape);
            (0..part.whole.len()).try_for_each(|dim| self.check_dim(param, &part, dim))
        })
    }

    /// Ensures that the processes along the model axis divide the heads of attentions; `parameter` sets their number.
    ///
    /// # Errors
    /// They do not.
    pub fn check_heads(&self, num_heads: usize, parameter: &str) -> Result<(), Misfit> {
        let count = self.model().size;
        match num_heads.is_multiple_of(count) {
            true => Ok(()),
            false => Err(undivided(parameter, num_heads, (count, MODEL_REMEDY), "")),
        }
    }

    fn check_undivided(&self, param: &ParamSpec) -> Result<(), Misfit> {
        let count = self.model().size;
        if count > 1 && self.splits_length() && param.axes.contains(&"prompt") {
            return Err(Misfit(format!(
                "activation_partitioning_dims = 2 divides sequences among {count} processes, and the rows of `{}` are whole on \
                 each: use activation_partitioning_dims = 1",
                param.name
            )));
        }
        match UNDIVIDED.iter().find(|(axis, _)| count > 1 && param.axes.contains(axis)) {
            None => Ok(()),
            Some((_, dimension)) => Err(Misfit(format!(
                "a model with {dimension} cannot be divided among {count} processes, and `{}` is one of its parameters: set \
                 PjitPartitioner.num_partitions to 1",
                param.name
            ))),
        }
    }

    fn check_dim(&self, param: &ParamSpec, part: &Shard, dim: usize) -> Result<(), Misfit> {
        let (extent, count) = (part.whole[dim], part.counts[dim]);
        let even = EVEN.iter().find(|(axis, _)| *axis == param.axes[dim]);
        let (is_model, name) = (part.axes[dim] == Some(MeshDim::Model), &param.name);
        let remedy = match is_model {
            true => MODEL_REMEDY,
            false => "start a number of processes whose data axis is",
        };
        if let Some(&(_, dimension)) = even.filter(|_| !extent.is_multiple_of(count)) {
            let dimension = if name.contains("/task_adapter/") { "adapter_dim" } else { dimension };
            let or_whole = match part.stays && !is_model {
                true => ", or NUM_EXPERT_PARTITIONS = 1, with which each process has all experts",
                false => "",
            };
            return Err(undivided(dimension, extent, (count, remedy), or_whole));
        }
        if part_of(extent, count - 1, count).is_empty() {
            return Err(Misfit(format!(
                "`{name}` has {extent} rows of `{}`, too few for {count} processes: {remedy} a smaller number",
                param.axes[dim]
            )));
        }
        Ok(())
    }

    /// Ensures that the processes along the model axis can divide sequences of these lengths, if they do.
    ///
    /// # Errors
    /// A length that they cannot.
    pub fn check_lengths(&self, lengths: &[usize]) -> Result<(), Misfit> {
        let count = self.model().size;
        let misfit = lengths.iter().find(|length| !length.is_multiple_of(count));
        match misfit.filter(|_| self.splits_length()) {
            None => Ok(()),
            Some(length) => Err(Misfit(format!(
                "activation_partitioning_dims = 2 divides sequences of {length} tokens among {count} processes: \
                 use lengths that are multiples of {count}, or activation_partitioning_dims = 1"
            ))),
        }
    }
}

const MODEL_REMEDY: &str = "set PjitPartitioner.num_partitions to";

fn undivided(
    dimension: &str,
    extent: usize,
    (count, remedy): (usize, &str),
    or_whole: &str,
) -> Misfit {
    let divisors = (1..=count).filter(|size| extent.is_multiple_of(*size));
    let divisors: Vec<String> = divisors.map(|size| size.to_string()).collect();
    Misfit(format!(
        "{dimension} = {extent} cannot be divided among {count} processes: {remedy} one of {}{or_whole}",
        divisors.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::super::mesh::{LocalDevice, Process};
    use super::super::spec::{
        LogicalAxisRules, MoePjitPartitioner, Partitioner, PjitPartitioner,
        StandardLogicalAxisRules,
    };
    use super::*;
    use crate::nn::{Dtype, Initializer};

    fn error(count: usize, axes: [&'static str; 2], shape: [usize; 2]) -> String {
        let rules =
            StandardLogicalAxisRules { activation_partitioning_dims: 2, ..Default::default() };
        let partitioner = Partitioner::Pjit(PjitPartitioner {
            num_partitions: Some(count),
            logical_axis_rules: Some(LogicalAxisRules::Standard(rules)),
            ..Default::default()
        });
        misfit(&partitioner, count, axes, shape)
    }

    fn misfit(
        partitioner: &Partitioner,
        count: usize,
        axes: [&'static str; 2],
        shape: [usize; 2],
    ) -> String {
        let mesh = Mesh::new(partitioner, Process { rank: 0, count }, LocalDevice::Cpu);
        let mesh = mesh.expect("it divides the processes");
        let param = ParamSpec {
            name: "x".to_string(),
            shape: shape.to_vec(),
            axes: axes.to_vec(),
            initializer: Initializer::ONES,
            dtype: Dtype::Float32,
            layers: None,
        };
        let checked = mesh.check(&[param]).and_then(|()| mesh.check_lengths(&[64, 31]));
        checked.expect_err("it does not fit").to_string()
    }

    #[test]
    fn what_the_processes_cannot_divide_is_named_with_the_remedy() {
        let heads = error(4, ["heads", "relpos_buckets"], [6, 32]);
        let expected = "num_heads = 6 cannot be divided among 4 processes: set PjitPartitioner.num_partitions to one of \
                        1, 2, 3";
        assert_eq!(heads, expected);
        let partitioner =
            Partitioner::Moe(MoePjitPartitioner { num_expert_partitions: 6, ..Default::default() });
        let experts = misfit(&partitioner, 4, ["expert", "mlp_embed"], [6, 4]);
        assert!(
            experts.contains("data axis is one of 1, 2, 3, or NUM_EXPERT_PARTITIONS = 1"),
            "{experts}"
        );
        let vocabulary = error(8, ["vocab", "embed"], [9, 4]);
        assert!(vocabulary.contains("9 rows of `vocab`, too few for 8 processes"), "{vocabulary}");
        let memory = error(2, ["memory", "embed"], [4, 8]);
        assert!(memory.contains("num_memory_tokens cannot be divided among 2"), "{memory}");
        let prompt = error(2, ["prompt", "prompt_embed"], [4, 8]);
        assert!(prompt.contains("use activation_partitioning_dims = 1"), "{prompt}");
        let lengths = error(2, ["embed", "mlp"], [4, 8]);
        assert!(lengths.contains("sequences of 31 tokens among 2 processes"), "{lengths}");
    }
}
