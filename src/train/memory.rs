//! The memory that a training step needs.

use crate::data::{DatasetConfig, FeatureConverter, Lengths, PREFETCH, Packing};
use crate::models::Model;
use crate::models::memory::Estimate;
use crate::partition::Mesh;
use crate::session::check::UnfitSpec;
use crate::session::memory::gib;
use crate::session::step_memory;

use super::inputs::training_shape;
use super::spec::Train;

/// Estimates the memory of a training step on the device of one process of a mesh.
///
/// # Errors
/// A length is not bound, or the optimizer's rules do not cover a parameter.
pub fn step_estimate(train: &Train, mesh: &Mesh) -> Result<Estimate, UnfitSpec> {
    let trainer = train.trainer_cls.0.trainer();
    step_memory::step_estimate(
        &train.model,
        &training_shape(train)?,
        trainer.num_microbatches(),
        mesh,
    )
}

/// Returns the bytes of the host that saving needs for the rest of a run: a copy of parameters and
/// optimizer state.
pub fn saving_bytes(train: &Train, estimate: &Estimate) -> u64 {
    match train.checkpoint_cfg.save {
        Some(_) => {
            let parameters = train.model.num_params().saturating_mul(4);
            estimate.optimizer.saturating_add(parameters)
        }
        None => 0,
    }
}

/// Returns the message for the user before a step that needs more than `available` bytes;
/// the process itself, which already runs, does not count. `dimensions` names the configurable of the network's dimensions.
pub fn shortage(
    estimate: &Estimate,
    available: u64,
    num_microbatches: usize,
    dimensions: &str,
) -> Option<String> {
    if estimate.tensors() <= available {
        return None;
    }
    let fixed = estimate.tensors().saturating_sub(estimate.activations);
    let remedy = match fixed > available {
        true => format!("the model alone is too large: lower {dimensions}'s dimensions"),
        false => format!(
            "lower BATCH_SIZE, or keep it and set trainer.Trainer.num_microbatches = {}",
            num_microbatches * 2
        ),
    };
    Some(format!(
        "a step needs about {} of memory, and {} are available: {remedy}",
        gib(estimate.tensors() as f64),
        gib(available as f64),
    ))
}

/// Returns the message for the user if the batches that a run keeps in memory need more than
/// `available` bytes of the host. These bytes are exact: the batches are allocated in full.
pub fn batch_shortage(train: &Train, available: u64) -> Option<String> {
    // The batches made ahead, the one being made and the one in use.
    let ahead = (&train.train_dataset_cfg, (PREFETCH.get() + 2) as u64, "train", "");
    let held_out = train.train_eval_dataset_cfg.as_ref();
    // The number of all batches of a pass is not known here.
    let held_out = held_out.zip(train.eval_steps);
    let held_out = held_out.map(|(config, steps)| (config, steps, "train_eval", " or EVAL_STEPS"));
    for (config, count, scope, or) in std::iter::once(ahead).chain(held_out) {
        let needed = count as f64 * batch_bytes(&train.model, config);
        if needed <= available as f64 {
            continue;
        }
        let (rows, lengths) = (config.batch_size, config.task_feature_lengths.as_ref());
        let lengths =
            lengths.into_iter().flatten().map(|(name, length)| format!("{name} {length}"));
        return Some(format!(
            "the {count} batches that {scope}/utils.DatasetConfig keeps in memory take {}, and {} \
             are available: each has {rows} rows of {}; lower BATCH_SIZE, TASK_FEATURE_LENGTHS{or}",
            gib(needed),
            gib(available as f64),
            lengths.collect::<Vec<_>>().join(", "),
        ));
    }
    None
}

/// Returns the bytes of a batch on the host, 32 bits a number.
fn batch_bytes(model: &Model, config: &DatasetConfig) -> f64 {
    let none = Lengths::new();
    let lengths = config.task_feature_lengths.as_ref().unwrap_or(&none);
    let packing = if config.pack { Packing::Greedy } else { Packing::None };
    // Lengths that are missing are told when the data is opened.
    let converter = FeatureConverter::new(&model.feature_converter(), lengths, packing, 0);
    let row = converter.map_or(0, |converter| {
        converter.empty_batch(0).features.iter().map(|feature| feature.length).sum()
    });
    4.0 * config.batch_size as f64 * row as f64
}

/// Whether a step cannot run in that much memory even if it needs only two thirds of the estimate.
/// The estimate was within a quarter on a CPU (`models::memory`); on a GPU, without measurements,
/// the factor is one half.
pub fn cannot_fit(estimate: &Estimate, memory: u64, on_cuda: bool) -> bool {
    let least = if on_cuda { 1.0 / 2.0 } else { 2.0 / 3.0 };
    least * estimate.total() as f64 > memory as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(activations: u64, available: u64, expected: Option<&str>) {
        let (parameters, gradients, optimizer, process) = (100, 100, 100, 1000);
        let estimate = Estimate { parameters, gradients, optimizer, activations, process };
        match (shortage(&estimate, available, 2, "network.T5Config"), expected) {
            (Some(found), Some(words)) => assert!(found.contains(words), "{found}"),
            (found, expected) => assert_eq!(found.as_deref(), expected),
        }
    }

    #[test]
    fn a_shortage_names_the_binding_to_lower() {
        check(700, 1000, None);
        check(701, 1000, Some("num_microbatches = 4"));
        check(700, 200, Some("network.T5Config"));
    }
}
