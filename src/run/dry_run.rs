//! `--dry_run`: describes a run or its errors, without libtorch and without reading data.

use std::fmt::Write;

use crate::data::{DatasetConfig, TaskProvider};
use crate::eval::{Chosen, Evaluate, foresee_evaluation, left_to_evaluate};
use crate::models::Model;
use crate::partition::Partitioner;
use crate::train::{Periods, Train, foresee, step_estimate};

use super::failure::Failure;

/// Returns the report of a training.
///
/// # Errors
/// The errors with which the training itself would end before its first step; see [`foresee`].
pub fn dry_run(train: &Train, tasks: &dyn TaskProvider) -> Result<String, Failure> {
    let step = foresee(train, tasks)?;
    let mut out = String::new();
    let _ = writeln!(out, "model_dir    {}", train.model_dir);
    describe_model(&train.model, &mut out);
    describe_steps(train, step, &mut out);
    describe_batches(&train.train_dataset_cfg, &mut out);
    describe_memory(train, &mut out)?;
    describe_devices(&train.partitioner, &mut out);
    Ok(out)
}

/// Returns the report of an evaluation, which looks at checkpoints and not at data.
///
/// # Errors
/// A missing checkpoint, or one of another model; see [`foresee_evaluation`] for the data.
pub fn dry_run_evaluation(spec: &Evaluate, tasks: &dyn TaskProvider) -> Result<String, Failure> {
    let mut out = String::new();
    let _ = writeln!(out, "output_dir   {}", spec.output_dir);
    describe_model(&spec.model, &mut out);
    // If nothing is left to evaluate, the run does not ask for data either.
    if describe_checkpoints(spec, &mut out)? > 0 {
        foresee_evaluation(spec, tasks)?;
    }
    describe_batches(&spec.dataset_cfg, &mut out);
    let parameters = bytes(4 * spec.model.num_params());
    let _ = writeln!(out, "memory       {parameters} for parameters, and what a batch needs");
    describe_devices(&spec.partitioner, &mut out);
    Ok(out)
}

/// Lists the checkpoints that are left to evaluate, and counts them.
fn describe_checkpoints(spec: &Evaluate, out: &mut String) -> Result<usize, Failure> {
    let Chosen { paths, num_done } = left_to_evaluate(spec)?;
    let _ = writeln!(out, "checkpoints  {} to evaluate, {num_done} done", paths.len());
    for path in &paths {
        let _ = writeln!(out, "             {path}");
    }
    Ok(paths.len())
}

fn describe_model(model: &Model, out: &mut String) {
    let _ = writeln!(out, "parameters   {}", grouped(model.num_params()));
}

fn describe_steps(train: &Train, step: u64, out: &mut String) {
    let period = |period: Option<u64>| match period {
        None | Some(0) => "never".to_string(),
        Some(period) => format!("every {period} steps"),
    };
    let save = train.checkpoint_cfg.save.as_ref();
    let checkpoints = period(save.and_then(|save| save.period));
    let evaluations = period(train.eval_period);
    let first = if step > 0 { format!("from {step} ") } else { String::new() };
    let last = Periods::of(train, 0, step).total_steps;
    let _ = writeln!(out, "steps        {first}to {last}");
    let _ = writeln!(out, "checkpoints  {checkpoints}, evaluations {evaluations}");
}

fn describe_batches(data: &DatasetConfig, out: &mut String) {
    let _ = writeln!(out, "data         {} '{}'", data.mixture_or_task_name, data.split);
    for (feature, length) in data.task_feature_lengths.iter().flatten() {
        let side = if feature == "targets" { "decoder" } else { "encoder" };
        let _ = writeln!(out, "batch        {side} {feature} [{}, {length}]", data.batch_size);
    }
    let packing = if data.pack { "several examples a row" } else { "one example a row" };
    let _ = writeln!(out, "rows         {packing}");
}

fn describe_memory(train: &Train, out: &mut String) -> Result<(), Failure> {
    let estimate = step_estimate(train).map_err(Failure::usage)?;
    let parts = [
        ("parameters", estimate.parameters),
        ("gradients", estimate.gradients),
        ("optimizer", estimate.optimizer),
        ("activations", estimate.activations),
    ];
    let parts: Vec<String> = parts.map(|(name, size)| format!("{name} {}", bytes(size))).to_vec();
    let total = bytes(estimate.total());
    let _ = writeln!(out, "memory       {total} per device (estimate: {})", parts.join(", "));
    Ok(())
}

fn describe_devices(partitioner: &Partitioner, out: &mut String) {
    let Partitioner::Pjit(partitioner) = partitioner;
    let asked = partitioner.requested_partitions().unwrap_or(1);
    let _ = writeln!(out, "partitions   {asked} asked for, 1 used (one process drives one device)");
}

/// Formats `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn bytes(size: u64) -> String {
    let gib = size as f64 / f64::from(1 << 30);
    if gib >= 1.0 { format!("{gib:.1} GiB") } else { format!("{:.0} MiB", gib * 1024.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(76_961_152), "76,961,152");
        assert_eq!(grouped(12), "12");
    }
}
