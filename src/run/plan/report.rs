//! The text of a plan.

use std::fmt::Write;

use crate::run::commands::{bytes, grouped};
use crate::session::check::UnfitSpec;
use crate::telemetry::thousands;
use crate::train::{Train, training_shape};

use super::cluster::Cluster;
use super::layout::{MeshLayout, Zero, remat_name};
use super::search::{MeshPlan, Row};
use super::time::StepTime;

/// Words of the table's heading.
const HEADING: [&str; 15] = [
    "data x model",
    "ZeRO",
    "act",
    "parts",
    "remat",
    "memory",
    "sent",
    "step",
    "tokens/s",
    "MFU",
    "products",
    "attention",
    "other",
    "optimizer",
    "inside+network (hidden)",
];

/// Describes the layouts of a run on a machine, the best first, at most so many.
///
/// # Errors
/// A length is not bound.
pub fn report(
    train: &Train,
    machine: &Cluster,
    plan: &MeshPlan,
    most: usize,
) -> Result<String, UnfitSpec> {
    let mut out = String::new();
    describe_run(train, machine, &mut out)?;
    let batch = training_shape(train)?;
    let tokens = batch.num_tokens() as f64;
    let flops = train.model.train_step_flops(&batch) / machine.peak();
    let cells = |row: &Row| {
        let step = row.time.total();
        cells(row, tokens / step, flops / step)
    };
    let mut table = vec![HEADING.map(str::to_string).to_vec()];
    table.extend(plan.rows.iter().take(most).map(cells));
    if !plan.rows.is_empty() {
        out.push('\n');
        write_table(&table, &mut out);
        out.push('\n');
    }
    describe_others(machine, plan, most, &mut out);
    if let Some(best) = plan.rows.first() {
        let flags = best.layout.flags(train);
        let _ = match flags.is_empty() {
            true => writeln!(out, "the best needs no other bindings"),
            false => writeln!(out, "bindings of the best:\n  {}", flags.join(" \\\n  ")),
        };
    }
    Ok(out)
}

fn describe_run(train: &Train, machine: &Cluster, out: &mut String) -> Result<(), UnfitSpec> {
    let batch = training_shape(train)?;
    let (num_params, dtype) = (grouped(train.model.num_params()), train.model.dtype().as_str());
    let _ = writeln!(out, "model    {num_params} parameters, activations in {dtype}");
    let _ = writeln!(out, "batch    {} rows of {batch}", batch.rows);
    let Cluster { count, per_host, device, .. } = machine;
    let _ = match machine.is_of_cpus() {
        true => writeln!(
            out,
            "machine  {count} processes on processors with {:.0} GFLOP/s in products and {} of memory",
            device.float32 / machine.pace / 1e9,
            bytes(device.memory as u64)
        ),
        false => writeln!(
            out,
            "machine  {count} {} with {:.0} GB, {:.0} TFLOP/s in bfloat16; {per_host} in a host, {:.0} GB/s to its \
             neighbours, {:.1} GB/s to other hosts",
            device.name,
            device.memory / 1e9,
            device.bfloat16 / 1e12,
            device.inside / 1e9,
            device.network / 1e9
        ),
    };
    Ok(())
}

fn cells(row: &Row, tokens_per_second: f64, utilization: f64) -> Vec<String> {
    let MeshLayout { num_partitions, zero, activation_dims, num_microbatches, remat_policy } =
        row.layout;
    let StepTime { products, attention, other, optimizer, inside, network, hidden } = row.time;
    let share = |seconds: f64| format!("{:.0}%", 100.0 * seconds / row.time.total());
    vec![
        format!("{} x {num_partitions}", row.data),
        zero.stage().to_string(),
        activation_dims.to_string(),
        num_microbatches.to_string(),
        remat_name(remat_policy).to_string(),
        bytes(row.memory),
        gigabytes(row.sent),
        milliseconds(row.time.total()),
        thousands(tokens_per_second),
        format!("{:.1}%", 100.0 * utilization),
        share(products),
        share(attention),
        share(other),
        share(optimizer),
        format!("{}+{} ({})", share(inside), share(network), share(hidden)),
    ]
}

/// Tells how many layouts the table does not show, and why.
fn describe_others(machine: &Cluster, plan: &MeshPlan, most: usize, out: &mut String) {
    let more = plan.rows.len().saturating_sub(most);
    if more > 0 {
        let _ = writeln!(out, "{more} more fit: --rows={} shows them", plan.rows.len());
    }
    if let Some(nearest) = plan.too_large.first() {
        let MeshLayout { num_partitions, zero, num_microbatches, remat_policy, .. } =
            nearest.layout;
        let with_zero = match zero {
            Zero::None => String::new(),
            zero => format!(", ZeRO-{}", zero.stage()),
        };
        let _ = writeln!(
            out,
            "{} do not fit: the nearest, {} x {num_partitions}{with_zero} in {num_microbatches} parts with remat_policy '{}', \
             needs {} of {}",
            plan.too_large.len(),
            nearest.data,
            remat_name(remat_policy),
            bytes(nearest.memory),
            bytes(machine.usable_memory() as u64),
        );
    }
    if let Some(reason) = plan.misfits.first() {
        let _ = writeln!(out, "{} do not divide the run: {reason}", plan.misfits.len());
    }
}

fn write_table(table: &[Vec<String>], out: &mut String) {
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADING.len()).map(width).collect();
    for row in table {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "));
    }
}

fn gigabytes(bytes: u64) -> String {
    match bytes as f64 / 1e9 {
        size if size < 1.0 => format!("{:.1} MB", size * 1e3),
        size => format!("{size:.2} GB"),
    }
}

fn milliseconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}
