//! `--dry_run`: what a run would be, without libtorch and without touching data.

use std::fmt::Write;

use crate::models::Model;
use crate::partition::Partitioner;
use crate::train::{Train, step_estimate};

use super::configure::Configured;
use super::failure::Failure;

/// The report.
///
/// # Errors
/// A parameter that the optimizer's rules do not cover.
pub fn dry_run(configured: &Configured) -> Result<String, Failure> {
    let train = &configured.train;
    let mut out = String::new();
    let _ = writeln!(out, "model_dir    {}", train.model_dir);
    let Model::EncoderDecoder(model) = &train.model;
    let config = model.config();
    let _ = writeln!(out, "parameters   {}", grouped(config.num_params()));
    describe_steps(train, &mut out);
    describe_batches(train, &mut out);
    describe_memory(train, &mut out)?;
    describe_devices(train, &mut out);
    Ok(out)
}

fn describe_steps(train: &Train, out: &mut String) {
    let period = |period: Option<u64>| match period {
        None | Some(0) => "never".to_string(),
        Some(period) => format!("every {period} steps"),
    };
    let save = train.checkpoint_cfg.save.as_ref();
    let checkpoints = period(save.and_then(|save| save.period));
    let evaluations = period(train.eval_period);
    let _ = writeln!(out, "steps        to {}", train.total_steps);
    let _ = writeln!(out, "checkpoints  {checkpoints}, evaluations {evaluations}");
}

fn describe_batches(train: &Train, out: &mut String) {
    let data = &train.train_dataset_cfg;
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

fn describe_devices(train: &Train, out: &mut String) {
    let Partitioner::Pjit(partitioner) = &train.partitioner;
    let asked = partitioner.requested_partitions().unwrap_or(1);
    let _ = writeln!(out, "partitions   {asked} asked for, 1 used (one process drives one device)");
}

/// `1234567` as `1,234,567`.
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
