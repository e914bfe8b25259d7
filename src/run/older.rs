//! Names that T5X's own files of other years bind, and what became of them: with `git log -S NAME` in T5X, from its
//! first publication (November 2021) on. docs/t5x.md has the same table in words.

use crate::gin::Older;

const PARTITIONER: &str = "t5x.partitioning.PjitPartitioner";
const ENCODER_DECODER: &str = "t5x.models.EncoderDecoderModel";
const DECODER_ONLY: &str = "t5x.models.DecoderOnlyModel";
const FACTOR_RULES: &str = "t5x.adafactor.standard_logical_factor_rules";

const REPEATABLE: &str =
    "the order of examples follows from the seed alone, and a run continues at its position";
const ONE_KIND: &str = "arrays have one kind here";
const OF_PARTITIONER: &str = "the partitioner decides where experts are";
const BY_AXES: &str = "dimensions are told apart by their logical axes";

/// T5X's names.
pub(super) const T5X: &[Older] = &[
    // January 2022: one partitioner for every optimizer.
    Older::renamed("t5x.partitioning.ModelBasedPjitPartitioner", PARTITIONER),
    // December 2021: the model's constructor takes the settings of its loss.
    Older::renamed("t5x.models.EncoderDecoderModel.loss_fn", ENCODER_DECODER),
    Older::renamed("t5x.models.DecoderOnlyModel.loss_fn", DECODER_ONLY),
    // `pretrain_deterministic.gin`.
    Older::without_effect("t5x.utils.get_deterministic_dataset", REPEATABLE),
    // September 2022: the number of experts became that of the parts of the mesh.
    Older::renamed(
        "t5x.contrib.moe.partitioning.MoePjitPartitioner.num_experts",
        "t5x.contrib.moe.partitioning.MoePjitPartitioner.num_expert_partitions",
    ),
    Older::renamed(
        "t5x.contrib.moe.trainer.MoeTrainer.num_experts",
        "t5x.contrib.moe.trainer.MoeTrainer.num_expert_partitions",
    ),
    Older::without_effect(
        "t5x.contrib.moe.partitioning.standard_logical_axis_rules.num_experts",
        OF_PARTITIONER,
    ),
    Older::without_effect(
        "t5x.contrib.moe.partitioning.standard_logical_axis_rules.num_partitions",
        OF_PARTITIONER,
    ),
    Older::without_effect(
        "t5x.contrib.moe.partitioning.standard_logical_axis_rules.model_parallel_submesh",
        OF_PARTITIONER,
    ),
    Older::without_effect(
        "flaxformer.architectures.moe.moe_layers.MoeLayer.optimize_model_parallel_communications",
        "it chose among ways of communication, which give the same numbers",
    ),
    // November 2021, in flaxformer's files until 2023: rules by names of parameters.
    Older::renamed("t5x.adafactor.standard_factor_rules", FACTOR_RULES),
    Older::without_effect("t5x.adafactor.standard_logical_factor_rules.scan_layers", BY_AXES),
    Older::without_effect("t5x.adafactor.standard_logical_factor_rules.split_heads", BY_AXES),
    // December 2022: NVIDIA's recipes moved to contrib.
    Older::renamed("t5x.scripts_gpu.seqio_tasks", "t5x.contrib.gpu.scripts_gpu.seqio_tasks"),
    // May 2023: JAX has one kind of array.
    Older::without_effect("t5x.utils.RestoreCheckpointConfig.use_gda", ONE_KIND),
    // Names that T5X's page about decoding writes.
    Older::renamed("t5x.decode.beam_search", "t5x.decoding.beam_search"),
    Older::renamed("t5x.decode.temperature_sample", "t5x.decoding.temperature_sample"),
    // Programs of BigScience's architecture-objective, a copy of T5X of December 2021.
    Older::renamed(
        "t5x.infer.infer.restore_checkpoint_config",
        "t5x.infer.infer.restore_checkpoint_cfg",
    ),
    Older::without_effect(
        "t5x.infer.create_task_from_tuples",
        "only `eval_harness.py` of BigScience calls it",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gin::Became;
    use crate::gin::{Source, TASK_LIBRARY};
    use crate::run::configure::registry;
    use crate::run::library::Library;

    /// Whether it is a configurable, a parameter of one, or a module of the task library.
    fn is_known(name: &str) -> bool {
        let registry = registry();
        let param = |(class, param): (&str, &str)| registry.get(class)?.param(param).map(|_| ());
        let file = format!("{TASK_LIBRARY}/{}.gin", name.replace('.', "/"));
        registry.get(name).is_some()
            || name.rsplit_once('.').and_then(param).is_some()
            || Library.read(&file).is_ok_and(|text| text.is_some())
    }

    #[test]
    fn no_older_name_is_known_today_and_each_became_one_that_is() {
        for older in T5X {
            assert!(!is_known(older.name), "{}", older.name);
            if let Became::Name(today) = older.became {
                assert!(is_known(today), "{today}");
            }
        }
    }
}
