//! `gimlet bench train_step --find_batch`: a training step with ever more rows, until memory ends.
//!
//! All sizes are measured in one process, from the smallest on: the first that does not fit is the last that is tried, and
//! libtorch returns the memory of earlier ones to the device before it gives up.

use std::sync::Arc;

use anyhow::anyhow;
use serde_json::{Value, json};

use crate::nn::Axes;
use crate::partition::{LocalDevice, Mesh, Processes};
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::session::error::SessionError;
use crate::session::memory::gib;
use crate::telemetry::{available_on_host, thousands};
use crate::train::bench::{Plan, TrainStepFigures, bench_train_step};
use crate::train::{Train, step_estimate};

use super::report::{Report, rate, seconds};
use super::torch::report_train_step;

/// Prints the speed of each size of a batch from the run's own on, and names the fastest.
pub(super) fn find_batch(
    train: &Train,
    (mesh, processes): (&Mesh, Processes),
    (plan, most): (Plan, usize),
    json: bool,
) -> Result<(), Failure> {
    if !processes.is_alone() {
        return Err(Failure::Usage(anyhow!(
            "--find_batch measures one process, without a launcher"
        )));
    }
    let (axes, processes) = (Axes::default(), Arc::new(processes));
    let first = train.train_dataset_cfg.batch_size;
    let mut sizes = Vec::new();
    let ended = doubled((first, most), |rows| {
        let mut train = train.clone();
        train.train_dataset_cfg.batch_size = rows;
        if let Some(message) = shortage(&train, mesh)? {
            return Ok(Measured::NoRoom(SessionError::Unfit(message)));
        }
        let figures = match bench_train_step(&train, mesh, (&axes, &processes), plan) {
            Ok(figures) => figures,
            Err(error) if is_shortage(&error) => return Ok(Measured::NoRoom(error)),
            Err(error) => return Err(error.into()),
        };
        if !json {
            write(&line(&figures))?;
        }
        sizes.push(report_train_step(&train, mesh, &figures, plan).json);
        Ok(Measured::Fits)
    })?;
    report(sizes, ended).print(json)
}

/// The result of trying a size.
enum Measured {
    Fits,
    NoRoom(SessionError),
}

/// Tries `first` rows, twice as many and so on up to `most`. Returns the reason for which it ended.
fn doubled(
    (first, most): (usize, usize),
    mut measure: impl FnMut(usize) -> Result<Measured, Failure>,
) -> Result<String, Failure> {
    let mut rows = first;
    while rows <= most.max(first) {
        match measure(rows)? {
            Measured::Fits => rows *= 2,
            Measured::NoRoom(error) if rows == first => return Err(error.into()),
            Measured::NoRoom(error) => return Ok(format!("with {rows} rows: {error}")),
        }
    }
    Ok(format!("{rows} rows are more than --find_batch={most}"))
}

/// Returns the message for the user if a step needs more memory than this host has left. A GPU is asked itself: its allocator fails
/// without harm, while the system kills a process that takes too much of the host.
fn shortage(train: &Train, mesh: &Mesh) -> Result<Option<String>, Failure> {
    if mesh.local_device() != LocalDevice::Cpu {
        return Ok(None);
    }
    let needed = step_estimate(train, mesh).map_err(Failure::usage)?.tensors();
    let available = available_on_host().filter(|available| needed > *available);
    Ok(available.map(|available| {
        let [needed, available] = [needed, available].map(|bytes| gib(bytes as f64));
        format!("a step needs about {needed} of memory, and {available} are available")
    }))
}

/// Whether a step failed for want of memory. A size that is refused before its first step is: a smaller one was not.
fn is_shortage(error: &SessionError) -> bool {
    matches!(
        error,
        SessionError::OutOfMemory { .. }
            | SessionError::ModelTooLarge { .. }
            | SessionError::Unfit(_)
    )
}

fn line(figures: &TrainStepFigures) -> String {
    let TrainStepFigures { shape, laps, peak_bytes, .. } = figures;
    let step = laps.median();
    let speed = |count: usize| rate(count as f64 / step);
    format!(
        "{:<9}  {}, {} sequences/s, {} tokens/s, {} MB\n",
        format!("{} rows", shape.rows),
        seconds(step),
        speed(shape.rows),
        speed(shape.num_tokens()),
        thousands(*peak_bytes as f64 / 1e6),
    )
}

fn report(sizes: Vec<Value>, ended: String) -> Report {
    let speed = |size: &Value| size["sequences_per_second"].as_f64().unwrap_or_default();
    let best = sizes.iter().max_by(|a, b| speed(a).total_cmp(&speed(b)));
    let best = best.expect("the first size fits").clone();
    let mut report = Report::new("find_batch");
    report.say("ended", ended.clone());
    report.say("best", format!("{} rows, {} sequences/s", best["rows"], rate(speed(&best))));
    report.set(json!({ "sizes": sizes, "best": best, "ended": ended }));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the sizes that are tried if so many rows fit, and the last words.
    fn check(limits: (usize, usize), room: usize, tried: &[usize], expected: &str) {
        let mut sizes = Vec::new();
        let ended = doubled(limits, |rows| {
            sizes.push(rows);
            let no_room = || Measured::NoRoom(SessionError::Unfit("no room".into()));
            Ok(if rows <= room { Measured::Fits } else { no_room() })
        });
        assert_eq!(ended.unwrap_or_else(|failure| failure.to_string()), expected);
        assert_eq!(sizes, tried);
    }

    #[test]
    fn rows_double_until_memory_or_the_limit_ends() {
        check((8, 1000), 40, &[8, 16, 32, 64], "with 64 rows: no room");
        check((8, 20), 40, &[8, 16], "32 rows are more than --find_batch=20");
        check((8, 4), 40, &[8], "16 rows are more than --find_batch=4");
        check((8, 1000), 4, &[8], "no room");
    }
}
