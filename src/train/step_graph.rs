//! Training steps that are recorded: on a GPU a step is a few thousand kernels, and small models wait for their launches. A step
//! whose shapes have occurred is recorded as a CUDA graph for each of its parts, and later steps are one launch for a part. The
//! numbers are the same: batches are copied into fixed tensors, the rates of the optimizer and the seed of dropout are read from
//! the device's memory, and nothing else differs between steps.

use std::fmt::Debug;

use tch::{Device, Tensor};

use crate::models::heads::{Divisors, UnreadSums};
use crate::models::{Batch, BatchShape};
use crate::nn::RematPolicy;
use crate::nn::cuda_graph::CudaGraph;
use crate::optim::Watch;
use crate::telemetry;

use super::spec::Train;
use super::step::Stepper;

/// Changes of shape after which steps are no longer recorded: each costs two steps at the usual speed.
const MOST_CHANGES: usize = 16;
/// Recorded steps that make up for a change.
const REPLAYS_FOR_A_CHANGE: usize = 32;

/// Records work and does it again.
pub trait Recorder: Debug {
    /// Records `work` without doing it; returns the number of the recording. The device has done such work before.
    ///
    /// # Errors
    /// The part of it that cannot be recorded.
    fn record(&mut self, work: &mut dyn FnMut()) -> Result<usize, String>;

    /// Does recorded work. `again` is the same work for a recorder of tests, which cannot do it otherwise.
    fn replay(&mut self, recording: usize, again: &mut dyn FnMut());

    /// Forgets the recordings, and frees their memory.
    fn clear(&mut self);
}

/// Recordings on a CUDA device, which share their memory.
#[derive(Debug)]
struct OnDevice {
    device: usize,
    graphs: Vec<CudaGraph>,
}

impl Recorder for OnDevice {
    fn record(&mut self, work: &mut dyn FnMut()) -> Result<usize, String> {
        self.graphs.push(CudaGraph::record(self.device, self.graphs.first(), work)?);
        Ok(self.graphs.len() - 1)
    }

    fn replay(&mut self, recording: usize, _: &mut dyn FnMut()) {
        self.graphs[recording].replay();
    }

    fn clear(&mut self) {
        self.graphs.clear();
    }
}

/// The recorded steps of a run, at most those of one shape.
#[derive(Debug)]
pub struct StepGraphs {
    /// `None` if steps are not recorded.
    pub(super) recorder: Option<Box<dyn Recorder>>,
    pub(super) recorded: Option<RecordedStep>,
    /// The host's facts about the last step, if it was not recorded.
    warmed_up: Option<Vec<Told>>,
    changes: usize,
    replays: usize,
    must_record: bool,
}

/// The facts that the host tells a part of a step, which cannot change in recorded work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub shape: BatchShape,
    pub divisors: Divisors,
}

/// A recorded step: what it reads, and where it leaves its results.
#[derive(Debug)]
pub(super) struct RecordedStep {
    told: Vec<Told>,
    /// The rates of the optimizer, which the last part reads.
    pub rates: Tensor,
    /// The parts of a batch: the first, one of those between, and the last, as far as there are such.
    pub parts: Vec<RecordedPart>,
}

/// A recorded part of a step.
#[derive(Debug)]
pub(super) struct RecordedPart {
    /// The number of the recording.
    pub recording: usize,
    pub batch: Batch,
    pub sums: UnreadSums,
    /// The measures of the update, in the last part.
    pub watch: Option<Watch>,
}

/// The way in which a step is made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    Record,
    Replay,
}

impl StepGraphs {
    /// No recordings, at any time.
    pub fn none() -> Self {
        Self {
            recorder: None,
            recorded: None,
            warmed_up: None,
            changes: 0,
            replays: 0,
            must_record: false,
        }
    }

    /// Recordings of a run's steps, if they are possible; on a GPU the user is told why they are not.
    pub fn of(spec: &Train, stepper: &Stepper) -> Self {
        let Device::Cuda(device) = stepper.forward.device else { return Self::none() };
        let mut graphs = Self::by(Box::new(OnDevice { device, graphs: Vec::new() }));
        if let Some(reason) = obstacle(spec, stepper) {
            graphs.give_up(reason);
        }
        graphs
    }

    /// The same, for tests of recording.
    ///
    /// # Panics
    /// When steps are not recorded, or no longer.
    pub fn or_panic(self) -> Self {
        assert!(self.recorder.is_some(), "steps are not recorded");
        Self { must_record: true, ..self }
    }

    /// Recordings by that recorder.
    pub fn by(recorder: Box<dyn Recorder>) -> Self {
        Self { recorder: Some(recorder), ..Self::none() }
    }

    /// Frees the recordings, for other work on the device; steps are recorded again after another one.
    pub fn forget(&mut self) {
        (self.recorded, self.warmed_up) = (None, None);
        if let Some(recorder) = &mut self.recorder {
            recorder.clear();
        }
    }

    /// Ends recording, and tells the user why.
    pub(super) fn give_up(&mut self, reason: &str) {
        assert!(!self.must_record, "{reason}");
        self.forget();
        self.recorder = None;
        telemetry::notice(&format!(
            "training steps are launched operation by operation, which small models wait for: {reason}"
        ));
    }

    /// Decides on a step of whose parts the host tells this.
    pub(super) fn way(&mut self, told: &[Told]) -> Way {
        if self.recorder.is_none() {
            return Way::Plain;
        }
        if self.recorded.as_ref().is_some_and(|recorded| recorded.told == told) {
            self.replays += 1;
            if self.replays.is_multiple_of(REPLAYS_FOR_A_CHANGE) {
                self.changes = self.changes.saturating_sub(1);
            }
            return Way::Replay;
        }
        let recorded = self.recorded.take().map(|recorded| recorded.told);
        let before = recorded.or(self.warmed_up.take()).unwrap_or_default();
        self.forget();
        self.warmed_up = Some(told.to_vec());
        let pairs = || before.iter().zip(told);
        let are_shaped_alike = !before.is_empty() && pairs().all(|(a, b)| a.shape == b.shape);
        if are_shaped_alike && pairs().any(|(a, b)| a.divisors != b.divisors) {
            self.give_up("the host counts the targets by which a loss in parts is divided");
            return Way::Plain;
        }
        // One recording serves all parts between the first and the last.
        let between = if told.len() > 2 { &told[1..told.len() - 1] } else { &[] };
        let are_alike = between.windows(2).all(|pair| pair[0] == pair[1]);
        if before == told && are_alike {
            return Way::Record;
        }
        self.changes += usize::from(!before.is_empty());
        if self.changes > MOST_CHANGES {
            self.give_up("lengths differ between batches");
        }
        Way::Plain
    }

    /// The step that is recorded, or being recorded.
    pub(super) fn recorded_step(&mut self) -> &mut RecordedStep {
        self.recorded.as_mut().expect("a step is recorded")
    }

    /// Begins the recording of a step of whose parts the host tells this.
    pub(super) fn begin_recording(&mut self, told: Vec<Told>, rates: Tensor) {
        self.recorded = Some(RecordedStep { told, rates, parts: Vec::new() });
    }
}

/// The reason why steps are not recorded.
fn obstacle(spec: &Train, stepper: &Stepper) -> Option<&'static str> {
    let keeps_all = spec.model.with_remat_policy(RematPolicy::None).as_ref() == Some(&spec.model);
    let obstacles = [
        (!stepper.processes.is_alone(), "several processes exchange gradients"),
        (stepper.loss_scaler.is_some(), "the host chooses the scale of a loss in float16"),
        (!keeps_all, "`remat_policy` asks the host for the state of random numbers"),
    ];
    obstacles.into_iter().find(|(is_there, _)| *is_there).map(|(_, reason)| reason)
}

/// The number of the recorded part that serves a part of a step.
pub(super) fn place(part: usize, num_parts: usize) -> usize {
    match part {
        0 => 0,
        _ if part + 1 < num_parts => 1,
        _ => num_parts.min(3) - 1,
    }
}
