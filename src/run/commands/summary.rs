//! Lines that the reports of several dry runs have.

use std::fmt::Write;

use crate::data::DatasetConfig;
use crate::models::Model;
use crate::models::memory::{Estimate, StepShape};
use crate::partition::Mesh;
use crate::run::failure::Failure;
use crate::train::{Train, bytes_sent, step_estimate};

/// Counts the parameters.
pub fn describe_model(model: &Model, out: &mut String) {
    let _ = writeln!(out, "parameters   {}", grouped(model.num_params()));
}

/// Counts the parameters that are trained, if those are not all, and their state.
pub fn describe_trained(model: &Model, out: &mut String) {
    let (tree, is_trained) = (model.param_tree(), model.optimizer_def().choice());
    let (trained, others): (Vec<_>, Vec<_>) =
        tree.iter().partition(|param| is_trained(&param.name));
    if !others.is_empty() {
        let numbers = trained.iter().map(|param| param.num_elements()).sum();
        let _ = writeln!(
            out,
            "trained      {} in {} arrays, which alone have gradients and a state of the optimizer; {} arrays keep their values",
            grouped(numbers),
            trained.len(),
            others.len()
        );
    }
}

/// Describes the batches of a data set for a model.
pub fn describe_batches(model: &Model, data: &DatasetConfig, out: &mut String) {
    let _ = writeln!(out, "data         {} '{}'", data.mixture_or_task_name, data.split);
    let lengths = data.task_feature_lengths.as_ref();
    if let Some(shape) = lengths.and_then(|lengths| model.step_shape(data.batch_size, lengths).ok())
    {
        let StepShape { rows, lengths: of_stacks, .. } = shape;
        let names: Vec<&str> = lengths.into_iter().flatten().map(|(name, _)| &name[..]).collect();
        let stacks = match of_stacks.len() {
            1 => vec![format!("{} {}", model.transformer().last.name, names.join(" and "))],
            _ => ["encoder inputs", "decoder targets"].map(str::to_string).into(),
        };
        for (stack, length) in stacks.iter().zip(&of_stacks) {
            let _ = writeln!(out, "batch        {stack} [{rows}, {length}]");
        }
    }
    let packing = if data.pack { "several examples a row" } else { "one example a row" };
    let _ = writeln!(out, "rows         {packing}");
}

/// Describes the memory of a command that does not train.
pub fn describe_weights(model: &Model, out: &mut String) {
    let parameters = bytes(4 * model.num_params());
    let _ = writeln!(out, "memory       {parameters} for parameters, and what a batch needs");
}

/// Describes the memory of a training step on one device.
pub fn describe_estimate(estimate: &Estimate, out: &mut String) {
    let parts = [
        ("parameters", estimate.parameters),
        ("gradients", estimate.gradients),
        ("optimizer", estimate.optimizer),
        ("activations", estimate.activations),
    ];
    let process = (estimate.process > 0).then_some(("the process", estimate.process));
    let parts = parts.into_iter().chain(process);
    let parts: Vec<String> = parts.map(|(name, size)| format!("{name} {}", bytes(size))).collect();
    let total = bytes(estimate.total());
    let _ = writeln!(out, "memory       {total} per device (estimate: {})", parts.join(", "));
}

/// Describes the mesh of devices.
pub fn describe_devices(mesh: &Mesh, out: &mut String) {
    let (asked, used) = (mesh.asked(), mesh.model().size);
    let _ = writeln!(
        out,
        "partitions   {asked} asked for, {used} used (one process drives one device)"
    );
    let (count, data) = (mesh.process().count, mesh.data().size);
    if count > 1 {
        let _ = writeln!(
            out,
            "mesh         {count} processes: {data} divide batches, {used} the model"
        );
    }
}

/// Describes the parts of a run that lie on each device of a mesh, and what the devices exchange.
///
/// # Errors
/// A length is not bound, or the optimizer's rules do not cover a parameter.
pub fn describe_mesh(train: &Train, mesh: &Mesh, out: &mut String) -> Result<(), Failure> {
    describe_estimate(&step_estimate(train, mesh).map_err(Failure::usage)?, out);
    describe_devices(mesh, out);
    if mesh.process().count > 1 {
        let sent = bytes_sent(train, mesh).map_err(Failure::usage)?;
        let _ = writeln!(out, "traffic      {} bytes sent by each process a step", grouped(sent));
    }
    Ok(())
}

/// Formats `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
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

/// Formats a size of memory.
pub fn bytes(size: u64) -> String {
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
