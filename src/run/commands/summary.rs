//! Lines that the reports of several dry runs have.

use std::fmt::Write;

use crate::data::DatasetConfig;
use crate::models::Model;
use crate::partition::Partitioner;

/// Counts the parameters.
pub fn describe_model(model: &Model, out: &mut String) {
    let _ = writeln!(out, "parameters   {}", grouped(model.num_params()));
}

/// Describes the batches of a data set.
pub fn describe_batches(data: &DatasetConfig, out: &mut String) {
    let _ = writeln!(out, "data         {} '{}'", data.mixture_or_task_name, data.split);
    for (feature, length) in data.task_feature_lengths.iter().flatten() {
        let side = if feature == "targets" { "decoder" } else { "encoder" };
        let _ = writeln!(out, "batch        {side} {feature} [{}, {length}]", data.batch_size);
    }
    let packing = if data.pack { "several examples a row" } else { "one example a row" };
    let _ = writeln!(out, "rows         {packing}");
}

/// Describes the devices.
pub fn describe_devices(partitioner: &Partitioner, out: &mut String) {
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
