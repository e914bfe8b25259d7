//! A training: its data, steps, checkpoints, optimizer and learning rate.

use super::given::Given;
use super::statements::Statements;
use super::{batch, checkpoints, optimizer, schedule};
use crate::mesh_tf::read::Meaning;
use crate::mesh_tf::spec::{
    DatasetFn, MeshTrainDatasetFn, PackDataset, Run, TpuMeshShape, TsvDatasetFn,
};
use crate::mesh_tf::values::MeshShape;

/// The library's file of a training.
const TRAIN: &str = "gimlet/mesh_tf/train.gin";

/// The library's file of a task of lines with tabs, and the name of the task.
const TSV: &str = "gimlet/mesh_tf/tsv.gin";
const TSV_TASK: &str = "'tsv'";

/// Translates a training. Returns the library's files that the statements complete.
pub fn translate(meaning: &Meaning, given: &Given, out: &mut Statements<'_>) -> Vec<&'static str> {
    let model_dir = gimlet_gin::repr_str(&given.model_dir);
    out.write_from("--model_dir", "MODEL_DIR", &model_dir);
    let files = data(meaning, out);
    if let Some(sizes) = batch::sizes(meaning, None, out) {
        batch::microbatches(meaning, &sizes, given, out);
        let steps = batch::train_steps(meaning, &sizes);
        out.bind::<Run>("TRAIN_STEPS", steps, ("", "train_steps"));
        schedule::translate(meaning, meaning.run.total_run_steps.unwrap_or(steps), out);
    }
    optimizer::translate(meaning, out);
    checkpoints::translate(meaning, out);
    partitions(&meaning.run, out);
    [&[TRAIN], files].concat()
}

/// Translates the data. Returns the library's files that declare their task.
fn data(meaning: &Meaning, out: &mut Statements<'_>) -> &'static [&'static str] {
    let run = &meaning.run;
    if run.dataset_split != "train" {
        let message =
            format!("a training reads the split 'train', and '{}' is bound", run.dataset_split);
        out.refuse::<Run>(("", "dataset_split"), message, "bind `run.dataset_split = 'train'`");
    }
    let data = match run.train_dataset_fn.as_ref().map(|data| &data.0) {
        Some(DatasetFn::Train(data)) => data,
        Some(DatasetFn::Tsv(data)) => {
            lines_with_tabs(data, out);
            return &[TSV];
        }
        found => {
            let message = match found {
                None => "a training has no data: `run.train_dataset_fn` is None".to_string(),
                Some(other) => format!("`{}` cannot be trained on", short_name(other)),
            };
            let help = "bind @t5.models.mesh_transformer.mesh_train_dataset_fn and its mixture_or_task_name; t5's dataset.gin does";
            out.refuse::<Run>(("", "train_dataset_fn"), message, help);
            return &[];
        }
    };
    let name = data.mixture_or_task_name.clone();
    out.bind::<MeshTrainDatasetFn>("MIXTURE_OR_TASK_NAME", name, ("", "mixture_or_task_name"));
    out.bind::<MeshTrainDatasetFn>("USE_CACHED_TASKS", data.use_cached, ("", "use_cached"));
    out.bind::<MeshTrainDatasetFn>("SHUFFLE_TRAIN_EXAMPLES", data.shuffle, ("", "shuffle"));
    let config = "train/t5x.utils.DatasetConfig";
    out.bind::<MeshTrainDatasetFn>(&format!("{config}.seed"), data.seed, ("", "seed"));
    out.bind::<MeshTrainDatasetFn>(&format!("{config}.pack"), data.pack, ("", "pack"));
    let place = ("", "use_custom_ops");
    let key = format!("{config}.use_custom_packing_ops");
    out.bind::<PackDataset>(&key, meaning.packing.use_custom_ops && data.pack, place);
    &[]
}

/// Translates lines with tabs, whose examples are packed and lose their EOS where a row is cut.
fn lines_with_tabs(data: &TsvDatasetFn, out: &mut Statements<'_>) {
    let place = ("", "filename");
    out.write::<TsvDatasetFn>("MIXTURE_OR_TASK_NAME", TSV_TASK, place);
    out.bind::<TsvDatasetFn>("TSV_FILES", data.filename.0.clone(), place);
    let place = ("", "shuffle_buffer_size");
    let key = "tsv/seqio.Task.shuffle_buffer_size";
    out.bind::<TsvDatasetFn>(key, data.shuffle_buffer_size, place);
    let config = "train/t5x.utils.DatasetConfig";
    for (parameter, value) in [("pack", "True"), ("ensure_eos", "False")] {
        out.write::<Run>(&format!("{config}.{parameter}"), value, ("", "train_dataset_fn"));
    }
}

/// The short name of a source of batches.
pub fn short_name(data: &DatasetFn) -> &'static str {
    use gimlet_gin::Slot;
    data.schema_of().short_name()
}

/// Translates the number of devices that share a model.
pub fn partitions(run: &Run, out: &mut Statements<'_>) {
    if let MeshShape::Tpu(mesh) = &run.mesh_shape {
        let key = "t5x.partitioning.PjitPartitioner.num_partitions";
        let place = ("", "model_parallelism");
        out.bind::<TpuMeshShape>(key, mesh.model_parallelism.max(1), place);
        if mesh.ensemble_parallelism.is_some_and(|models| models > 1) {
            let message = "Gimlet trains one model, no ensembles";
            let place = ("", "ensemble_parallelism");
            out.refuse::<TpuMeshShape>(
                place,
                message,
                "bind None, and train the models one by one",
            );
        }
    }
}
