//! `gimlet bench train_step` and `decode`: the figures of `train::bench`, for people and for programs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value, json};

use crate::launch::DistributedArgs;
use crate::models::memory::{Estimate, StepShape};
use crate::nn::cpu;
use crate::nn::enable_copies;
use crate::nn::fused::kernels::Kernel;
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::commands::joined::{end, join, laid_out};
use crate::run::failure::Failure;
use crate::run::world::world;
use crate::session::kernel_trials::try_kernels;
use crate::telemetry::{Laps, thousands};
use crate::train::Train;
use crate::train::bench::{
    Breakdown, DecodeFigures, Exchanged, Longest, Machine, Plan, TrainStepFigures, bench_decode,
    bench_train_step,
};

use super::find_batch::find_batch;
use super::report::{Report, rate, seconds};
use super::{BenchArgs, Means, TrainStepArgs};

/// Number of timed steps.
const STEPS: usize = 10;
/// Characters of an operation's name that a table shows: those of CUDA are long.
const LONGEST_NAME: usize = 60;

/// Prints the figures of the training step.
pub(super) fn train_step(args: &TrainStepArgs, color: bool) -> Result<(), Failure> {
    let configured = args.bench.configured(color)?;
    cpu::prepare();
    let graphs = !args.without.contains(&Means::Graphs);
    let (plan, flags) = (Plan { graphs, ..plan(&args.bench) }, DistributedArgs::default());
    let (processes, device) = join(world(&flags)?.as_ref(), &flags, &AtomicBool::new(false))?;
    let (processes, mesh, axes) = laid_out(&configured.spec, processes, device)?;
    try_kernels(mesh.device());
    for (means, kernel) in
        [(Means::Cudnn, Kernel::CudnnAttention), (Means::Head, Kernel::HeadProduct)]
    {
        if args.without.contains(&means) {
            kernel.trust(false);
        }
    }
    enable_copies(!args.without.contains(&Means::Copies));
    if let Some(most) = args.find_batch {
        return find_batch(&configured.spec, (&mesh, processes), (plan, most), args.bench.json);
    }
    let processes = Arc::new(processes);
    let figures = bench_train_step(&configured.spec, &mesh, (&axes, &processes), plan);
    let figures = match (figures.map_err(Failure::from), Arc::into_inner(processes)) {
        (Err(failure), Some(processes)) => return Err(end(processes, failure)),
        (figures, _) => figures?,
    };
    if mesh.process().rank > 0 {
        return Ok(());
    }
    report_train_step(&configured.spec, &mesh, &figures, plan).print(args.bench.json)
}

/// Describes a training step.
pub(super) fn report_train_step(
    train: &Train,
    mesh: &Mesh,
    figures: &TrainStepFigures,
    plan: Plan,
) -> Report {
    let mut report = Report::new("train_step");
    describe_model(train, &figures.shape, &mut report);
    describe_machine(&figures.machine, &mut report);
    describe_mesh(mesh, &mut report);
    describe_time("step", &figures.laps, plan.warmup, &mut report);
    describe_speed(figures, &mut report);
    describe_exchange(figures, &mut report);
    describe_memory(&figures.machine, figures.peak_bytes, Some(&figures.estimate), &mut report);
    let loss = figures.losses.last().copied();
    report.set(json!({ "losses": figures.losses, "loss": loss }));
    let steps = figures.losses.len();
    report.say("loss", format!("{:.4} in step {steps}", loss.unwrap_or(f64::NAN)));
    describe_breakdown(&figures.breakdown, &mut report);
    report
}

/// Prints the figures of decoding.
pub(super) fn decode(args: &BenchArgs, color: bool) -> Result<(), Failure> {
    let configured = args.configured(color)?;
    cpu::prepare();
    let plan = plan(args);
    let figures = bench_decode(&configured.spec, &mesh(&configured.spec), plan);
    let figures = figures.map_err(Failure::from)?;
    let mut report = Report::new("decode");
    describe_model(&configured.spec, &figures.shape, &mut report);
    describe_machine(&figures.machine, &mut report);
    describe_decoding(&figures, plan, &mut report);
    describe_memory(&figures.machine, figures.peak_bytes, None, &mut report);
    report.print(args.json)
}

/// The mesh of this process alone, whose device has tried its kernels.
fn mesh(train: &Train) -> Mesh {
    let mesh = Mesh::of_replicas(&train.partitioner, Process::ALONE, LocalDevice::available());
    try_kernels(mesh.device());
    mesh
}

fn plan(args: &BenchArgs) -> Plan {
    Plan { warmup: args.warmup, steps: args.steps_or(STEPS), graphs: true }
}

/// Describes the model and its device.
fn describe_model(train: &Train, shape: &StepShape, report: &mut Report) {
    let (model, rows) = (&train.model, shape.rows);
    let (dtype, num_params) = (model.dtype().as_str(), model.num_params());
    report.set(json!({
        "dtype": dtype,
        "parameters": num_params,
        "rows": rows,
        "inputs_length": shape.inputs_length(),
        "targets_length": shape.last_length(),
    }));
    let num_params = thousands(num_params as f64);
    report.say("model", format!("{num_params} parameters, activations in {dtype}"));
    report.say("batch", format!("{rows} rows of {shape}"));
}

/// Describes the time of a step, or of another repeated operation.
fn describe_time(what: &'static str, laps: &Laps, warmup: usize, report: &mut Report) {
    let (median, best, count) = (laps.median(), laps.best(), laps.seconds.len());
    report.set(json!({
        "warmup": warmup,
        "steps": count,
        "step_seconds": laps.seconds,
        "step_cpu_seconds": laps.cpu_seconds,
        "median_seconds": median,
        "best_seconds": best,
    }));
    report.say(what, format!("{} median, {} best of {count}", seconds(median), seconds(best)));
}

fn describe_machine(machine: &Machine, report: &mut Report) {
    let Machine { device, num_threads, peak_flops } = machine;
    report.set(json!({ "device": device, "threads": num_threads, "peak_flops": peak_flops }));
    let threads = num_threads.map(|count| match count {
        1 => ", 1 thread".to_string(),
        count => format!(", {count} threads"),
    });
    report.say("device", format!("{device}{}", threads.unwrap_or_default()));
}

fn describe_mesh(mesh: &Mesh, report: &mut Report) {
    let (count, data, model) = (mesh.process().count, mesh.data().size, mesh.model().size);
    report.set(json!({ "processes": count, "data": data, "model": model }));
    if count > 1 {
        report.say("processes", format!("{count}: {data} divide batches, {model} the model"));
    }
}

fn describe_exchange(figures: &TrainStepFigures, report: &mut Report) {
    let Some(Exchanged { bytes_sent, bytes_foretold, seconds_waited }) = figures.exchanged else {
        return;
    };
    report.set(json!({
        "bytes_sent": bytes_sent,
        "bytes_foretold": bytes_foretold,
        "seconds_waited": seconds_waited,
    }));
    let [sent, foretold] = [bytes_sent, bytes_foretold].map(|bytes| thousands(bytes as f64));
    let waited = seconds(seconds_waited);
    report.say(
        "traffic",
        format!("{sent} bytes sent by a process a step, {foretold} foretold; {waited} of waiting"),
    );
}

/// Rates are those of the median step.
fn describe_speed(figures: &TrainStepFigures, report: &mut Report) {
    let step = figures.laps.median();
    let sequences = figures.shape.rows as f64 / step;
    let tokens = figures.shape.num_tokens() as f64 / step;
    let flops = figures.flops / step;
    let utilization = figures.machine.peak_flops.map(|peak| flops / peak);
    report.set(json!({
        "sequences_per_second": sequences,
        "tokens_per_second": tokens,
        "model_flops": figures.flops,
        "flops_per_second": flops,
        "utilization": utilization,
    }));
    report.say("speed", format!("{} tokens/s, {} sequences/s", rate(tokens), rate(sequences)));
    let of_model = format!("{} of the model in a step", scaled(figures.flops, "FLOP"));
    let mut text = format!("{of_model}, {}", scaled(flops, "FLOP/s"));
    if let Some((share, peak)) = utilization.zip(figures.machine.peak_flops) {
        let peak = scaled(peak, "FLOP/s");
        text += &format!("; {:.1}% of {peak}, dense in bfloat16", 100.0 * share);
    }
    report.say("compute", text);
}

fn describe_decoding(figures: &DecodeFigures, plan: Plan, report: &mut Report) {
    let DecodeFigures { decode_fn, num_decodes, laps, encoder, .. } = figures;
    report.set(json!({ "decode_fn": decode_fn, "num_decodes": num_decodes }));
    report.say("decoding", format!("{decode_fn}, {num_decodes} a row"));
    describe_time("time", laps, plan.warmup, report);
    let sequences = figures.shape.rows as f64 / laps.median();
    let tokens = sequences * figures.num_tokens as f64;
    report.set(json!({
        "encoder_seconds": encoder.median(),
        "sequences_per_second": sequences,
        "tokens_per_second": tokens,
    }));
    let before_steps = if figures.shape.inputs_length() > 0 { "encoder" } else { "prompt" };
    report.say(before_steps, format!("{} of it", seconds(encoder.median())));
    let speed = format!("{} tokens/s, {} sequences/s", rate(tokens), rate(sequences));
    report.say("speed", speed + if *num_decodes > 1 { ", one counted for each row" } else { "" });
}

fn describe_memory(
    machine: &Machine,
    peak_bytes: u64,
    foretold: Option<&Estimate>,
    report: &mut Report,
) {
    report.set(json!({ "peak_memory_bytes": peak_bytes }));
    let whose = if machine.num_threads.is_some() { "the process" } else { "tensors" };
    let megabytes = |bytes: u64| thousands(bytes as f64 / 1e6);
    let mut text = format!("{} MB of {whose} at the peak", megabytes(peak_bytes));
    if let Some(estimate) = foretold {
        report.set(json!({
            "foretold_memory_bytes": estimate.total(),
            "foretold_process_bytes": estimate.process,
        }));
        text += &format!(", {} foretold", megabytes(estimate.total()));
    }
    report.say("memory", text);
}

fn describe_breakdown(breakdown: &Breakdown, report: &mut Report) {
    let rows = breakdown.rows();
    let share = |seconds: f64| seconds / breakdown.seconds;
    let shares: Map<String, Value> =
        rows.iter().map(|(name, seconds)| (name.to_string(), json!(share(*seconds)))).collect();
    let Breakdown { seconds: step, timeline, longest, .. } = breakdown;
    let timeline = timeline.name();
    let named =
        |one: &Longest| json!({ "name": one.name, "seconds": one.seconds, "runs": one.runs });
    report.set(json!({
        "breakdown": {
            "timeline": timeline, "seconds": step, "shares": shares,
            "longest": longest.iter().map(named).collect::<Vec<_>>(),
        },
    }));
    let step = seconds(*step);
    report.say("breakdown", format!("of the {timeline}'s {step} a step under the profiler:"));
    for (name, time) in rows {
        let share = 100.0 * share(time);
        report.say(name, format!("{share:5.1}%  {}", seconds(time)));
    }
    for (index, one) in longest.iter().enumerate() {
        let heading = if index == 0 { "longest" } else { "" };
        let share = 100.0 * share(one.seconds);
        let (time, runs) = (seconds(one.seconds), one.runs.round());
        let name: String = one.name.chars().take(LONGEST_NAME).collect();
        report.say(heading, format!("{share:5.1}%  {time} in {runs} runs of {name}"));
    }
}

/// Formats a number with a suitable prefix and at least three digits, if it has so many.
fn scaled(number: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")];
    let fits = |(size, _): &&(f64, &str)| number >= *size;
    let (size, prefix) = PREFIXES.iter().find(fits).unwrap_or(&PREFIXES[3]);
    let number = number / size;
    let digits = if number >= 100.0 { 0 } else { 2 };
    format!("{number:.digits$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_prefixes() {
        assert_eq!(scaled(989e12, "FLOP/s"), "989 TFLOP/s");
        assert_eq!(scaled(850_027_216_896.0, "FLOP"), "850 GFLOP");
        assert_eq!(scaled(2.346e12, "FLOP"), "2.35 TFLOP");
        assert_eq!(scaled(12_000.0, "FLOP"), "0.01 MFLOP");
    }
}
