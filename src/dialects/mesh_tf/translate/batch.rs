//! Lengths, the size of batches and microbatches, and the number of steps.

use std::collections::BTreeMap;

use super::given::Given;
use super::statements::{Statements, text};
use crate::mesh_tf::read::Meaning;
use crate::mesh_tf::spec::{Run, SerializeNumMicrobatches, TpuMeshShape};
use crate::mesh_tf::values::{BatchSize, MeshShape, TrainSteps};

/// The sizes of a run's batches.
pub struct Sizes {
    /// Tokens of the longest feature.
    pub length: u64,
    /// Rows of a batch.
    pub rows: u64,
}

/// Translates lengths and batches; `None` after a mistake. Of an evaluation, a replica is a process: the rows of a batch
/// do not change its results.
pub fn sizes(meaning: &Meaning, replicas: Option<u64>, out: &mut Statements<'_>) -> Option<Sizes> {
    let run = &meaning.run;
    let Some(lengths) = &run.sequence_length else {
        let message = "the lengths of features are not bound, and the size of a batch needs them";
        let help = "bind `run.sequence_length = {'inputs': 512, 'targets': 114}`";
        out.refuse::<Run>(("", "sequence_length"), message, help);
        return None;
    };
    let length = longest(lengths, out)?;
    let lengths = with_decoded(lengths, meaning);
    out.bind::<Run>("TASK_FEATURE_LENGTHS", lengths, ("", "sequence_length"));
    let rows = match run.batch_size {
        BatchSize::SequencesPerBatch(rows) => rows,
        BatchSize::TokensPerBatch(tokens) => divided(tokens, length, out)?,
        BatchSize::SequencesPerReplica(rows) => rows * replicas.or_else(|| of_mesh(run, out))?,
        BatchSize::TokensPerReplica(tokens) => {
            divided(tokens, length, out)? * replicas.or_else(|| of_mesh(run, out))?
        }
    };
    if rows == 0 {
        let message = "a batch has no sequence";
        out.refuse::<Run>(("", "batch_size"), message, format!("bind at least {length} tokens"));
        return None;
    }
    out.bind::<Run>("BATCH_SIZE", rows, ("", "batch_size"));
    Some(Sizes { length, rows })
}

/// Returns the lengths of features, with targets as long as decoding may become: here a decoded sequence has room in the
/// targets, while Mesh TensorFlow gives it a length of its own, 128 in t5's eval.gin and that of the inputs by default.
fn with_decoded(lengths: &BTreeMap<String, u64>, meaning: &Meaning) -> BTreeMap<String, u64> {
    let mut lengths = lengths.clone();
    let decoded = meaning.decode.max_decode_length.or(lengths.get("inputs").copied());
    let decoded = decoded.filter(|_| ["eval", "infer"].contains(&&meaning.run.mode[..]));
    if let (Some(targets), Some(decoded)) = (lengths.get_mut("targets"), decoded) {
        *targets = decoded.max(*targets);
    }
    lengths
}

fn longest(lengths: &BTreeMap<String, u64>, out: &mut Statements<'_>) -> Option<u64> {
    let longest = lengths.values().copied().max().filter(|length| *length > 0);
    if longest.is_none() {
        let message = "no feature has a length";
        let help = "bind `run.sequence_length = {'inputs': 512, 'targets': 114}`";
        out.refuse::<Run>(("", "sequence_length"), message, help);
    }
    longest
}

/// Divides the tokens of a batch into sequences.
fn divided(tokens: u64, length: u64, out: &mut Statements<'_>) -> Option<u64> {
    if tokens.is_multiple_of(length) && tokens > 0 {
        return Some(tokens / length);
    }
    let message = format!("{tokens} tokens are not a whole number of sequences of {length}");
    let near = (tokens / length).max(1) * length;
    let help = format!(
        "`run.sequence_length` has {length} as its greatest; bind {near} tokens, or ('sequences_per_batch', {})",
        near / length
    );
    out.refuse::<Run>(("", "batch_size"), message, help);
    None
}

/// Returns the number of data-parallel replicas of a mesh.
fn of_mesh(run: &Run, out: &mut Statements<'_>) -> Option<u64> {
    match &run.mesh_shape {
        MeshShape::Tpu(mesh) => of_tpu(mesh, out),
        MeshShape::Dimensions(dimensions) => {
            let is_data =
                |(name, _): &&(String, u64)| ["batch", "outer_batch"].contains(&&name[..]);
            Some(dimensions.iter().filter(is_data).map(|(_, size)| size).product())
        }
    }
}

/// Returns the number of data-parallel replicas of a TPU.
fn of_tpu(mesh: &TpuMeshShape, out: &mut Statements<'_>) -> Option<u64> {
    let place = ("", "tpu_topology");
    let Some(topology) = &mesh.tpu_topology else {
        let message =
            "the batch is given for each replica, and no topology says how many there are";
        let help = "--gin_param=\"utils.tpu_mesh_shape.tpu_topology = 'v3-8'\" counts 8 cores";
        out.refuse::<TpuMeshShape>(place, message, help);
        return None;
    };
    let Some(cores) = TpuMeshShape::cores(topology) else {
        let message = format!("'{topology}' is not a topology");
        out.refuse::<TpuMeshShape>(
            place,
            message,
            "expected 'v3-8' for 8 cores, or '2x2' for twice 4",
        );
        return None;
    };
    let models = mesh.model_parallelism.max(1) * mesh.ensemble_parallelism.unwrap_or(1).max(1);
    if cores < models {
        let message =
            format!("'{topology}' has {cores} cores, fewer than the {models} that share a model");
        let help = "bind a larger `tpu_topology`, or less `model_parallelism`";
        out.refuse::<TpuMeshShape>(place, message, help);
        return None;
    }
    Some(cores / models)
}

/// Translates microbatches: rows that one device computes at once.
pub fn microbatches(meaning: &Meaning, sizes: &Sizes, given: &Given, out: &mut Statements<'_>) {
    let processes = given.num_processes.max(1);
    let own = sizes.rows.div_ceil(processes);
    let parts = meaning.microbatches.tokens_per_microbatch_per_replica.filter(|tokens| *tokens > 0);
    let parts = parts.map(|tokens| {
        let at_most = (tokens / sizes.length).max(1);
        let rows = (1..=at_most.min(own)).rev().find(|rows| own.is_multiple_of(*rows));
        own / rows.expect("1 divides every number")
    });
    out.write::<SerializeNumMicrobatches>(
        "t5x.trainer.Trainer.num_microbatches",
        &text(&parts),
        ("", "tokens_per_microbatch_per_replica"),
    );
}

/// Returns the last step of a training.
pub fn train_steps(meaning: &Meaning, sizes: &Sizes) -> u64 {
    match &meaning.run.train_steps {
        TrainSteps::Given(steps) => *steps,
        TrainSteps::Auto(function) => function.train_tokens / (sizes.rows * sizes.length),
    }
}
