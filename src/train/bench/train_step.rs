//! Measures the training step and the parts of its time.

use std::sync::Arc;

use crate::checkpoint::CheckpointConfig;
use crate::metrics::sum;
use crate::models::memory::{Estimate, StepShape};
use crate::nn::Axes;
use crate::nn::profiler::profile;
use crate::partition::{Mesh, Processes};
use crate::session::agreement::add_up;
use crate::session::error::SessionError;
use crate::telemetry::Laps;
use crate::train::inputs::training_shape;
use crate::train::memory::step_estimate;
use crate::train::spec::Train;
use crate::train::start::{check_memory, initialize};
use crate::train::step::Stepper;
use crate::train::step_graph::StepGraphs;
use crate::train::traffic::bytes_sent;

use super::breakdown::Breakdown;
use super::synthetic::{RowKind, batch};
use super::{Machine, Plan, peak_bytes, synchronize};

/// Number of steps under the profiler. They come last, so that the profiler disturbs no other step.
const PROFILED: usize = 2;

/// The results of measuring training steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainStepFigures {
    /// The machine of the measurement.
    pub machine: Machine,
    /// Rows and lengths of a batch.
    pub shape: StepShape,
    /// The timed steps.
    pub laps: Laps,
    /// The loss of each step, from the first one of the warmup.
    pub losses: Vec<f64>,
    /// Operations of the model in a step.
    pub flops: f64,
    /// Peak memory: of tensors on a GPU, of the process on a CPU.
    pub peak_bytes: u64,
    /// The same by arithmetic alone: see [`step_estimate`].
    pub estimate: Estimate,
    /// The parts of a step's time.
    pub breakdown: Breakdown,
    /// The exchange with other processes; `None` for one alone.
    pub exchanged: Option<Exchanged>,
}

/// The exchange of a process with others in a timed step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchanged {
    /// Bytes that it sent.
    pub bytes_sent: u64,
    /// Bytes that it sends by arithmetic alone: see [`bytes_sent`].
    pub bytes_foretold: u64,
    /// Seconds for which it waited for others.
    pub seconds_waited: f64,
}

/// Measures the training steps of a run by the processes of a mesh, starting with new parameters.
///
/// # Errors
/// Lengths are not bound, memory runs out, libtorch fails, or another process is lost.
pub fn bench_train_step(
    spec: &Train,
    mesh: &Mesh,
    (axes, processes): (&Axes, &Arc<Processes>),
    plan: Plan,
) -> Result<TrainStepFigures, SessionError> {
    let (shape, device) = (training_shape(spec)?, mesh.device());
    // Nothing is saved, so no memory is reserved for saving.
    let checkpoint_cfg = CheckpointConfig { save: None, ..spec.checkpoint_cfg.clone() };
    check_memory(&Train { checkpoint_cfg, ..spec.clone() }, mesh)?;
    let seed = spec.random_seed.unwrap_or(0) as u64;
    let stepper = Stepper::new(spec, seed, mesh, (axes, processes))?;
    let mut state = initialize(spec, seed, mesh, axes)?;
    let kind = if spec.train_dataset_cfg.pack { RowKind::Packed } else { RowKind::Plain };
    let features = stepper.forward.network.features();
    let batch = || batch(features, &shape, spec.model.num_ids(), kind, seed);
    let batch = stepper.guarded(0, batch)?;
    let (mut losses, mut laps, mut sent) = (Vec::new(), Laps::default(), 0);
    let mut graphs = match plan.graphs {
        true => StepGraphs::of(spec, &stepper),
        false => StepGraphs::none(),
    };
    let mut step = |graphs: &mut StepGraphs| {
        let mut report = stepper.train_step(&mut state, &batch, 1.0, graphs)?;
        add_up(processes, &mut report.sums, false)?;
        synchronize(device);
        losses.push(report.sums.get(sum::LOSS));
        sent = report.sent;
        Ok::<_, SessionError>(())
    };
    peak_bytes(device);
    for _ in 0..plan.warmup {
        step(&mut graphs)?;
    }
    let waited = stepper.waited()?;
    for _ in 0..plan.steps {
        laps.time(|| step(&mut graphs))?;
    }
    let waited = stepper.waited()? - waited;
    let peak_bytes = peak_bytes(device);
    graphs.forget();
    // The profiler assigns kernels to the operations that launch them.
    let mut plain = StepGraphs::none();
    let mut profiled = Laps::default();
    let (done, events) = stepper.guarded(0, || {
        profile(device, || profiled.time(|| (0..PROFILED).try_for_each(|_| step(&mut plain))))
    })?;
    done?;
    losses.truncate(plan.warmup + plan.steps);
    let exchanged = Exchanged {
        bytes_sent: sent,
        bytes_foretold: bytes_sent(spec, mesh)?,
        seconds_waited: waited / plan.steps as f64,
    };
    Ok(TrainStepFigures {
        machine: Machine::of(device),
        flops: spec.model.train_step_flops(&shape),
        shape,
        laps,
        losses,
        peak_bytes,
        estimate: step_estimate(spec, mesh)?,
        breakdown: Breakdown::new(&events, profiled.total(), PROFILED),
        exchanged: (!processes.is_alone()).then_some(exchanged),
    })
}
