//! One update: gradients of a batch, in parts if asked, then the optimizer.

use std::collections::BTreeMap;
use std::sync::Arc;

use tch::Tensor;

use crate::metrics::LossSums;
use crate::models::Batch;
use crate::models::given_rows::Anchored;
use crate::models::heads::{Divisors, LossOutput, LossSpec, RoutingLosses, UnreadSums};
use crate::nn::{Axes, Params, kind};
use crate::optim::{Incoming, LossScale, OptimError, Reduction, Watch, Watched};
use crate::partition::{Mesh, MeshAxis, ProcessError, Processes};
use crate::schedule::LearningRateSchedule;
use crate::session::error::SessionError;
use crate::session::forward::Forward;
use crate::session::guard::{TorchFailure, guarded};
use crate::session::loss_scaler::LossScaler;
use crate::session::seeds::{Purpose, derive};
use crate::session::spec::{MicrobatchLoss, WeightMetricsComputer};
use crate::session::state::TrainState;

use super::spec::Train;
use super::step_graph::{RecordedPart, StepGraphs, Told, Way, place};

/// Computes updates. No update changes its fields.
#[derive(Debug)]
pub struct Stepper {
    /// The network and its loss.
    pub forward: Forward,
    /// The term of the loss that keeps learned rows near given ones, if there is one.
    pub anchor: Option<Anchored>,
    /// Learning rate by step.
    pub schedule: LearningRateSchedule,
    /// Number of parts into which a batch is split; at least 1.
    pub num_microbatches: usize,
    /// The loss to which those of the parts add up.
    pub microbatch_loss: MicrobatchLoss,
    /// The scale of the loss, if there is one.
    pub loss_scaler: Option<LossScaler>,
    /// The measures of gradients and weights.
    pub watched: Watched,
    /// Seed of the run.
    pub seed: u64,
    /// The processes that share each microbatch, and this one among them.
    pub replicas: MeshAxis,
    /// The processes along the axes of the mesh.
    pub axes: Axes,
    /// The processes of the run.
    pub processes: Arc<Processes>,
    /// The sums of gradients over processes; `None` for one alone.
    pub reduction: Option<Reduction>,
}

/// A part of a batch on the device, the divisors of its loss, and the seed of its dropout.
struct StepPart {
    rows: Batch,
    divisors: Divisors,
    seed: u64,
}

/// The results of a step.
struct StepResults {
    sums: LossSums,
    weights: BTreeMap<String, f64>,
    is_updated: bool,
}

/// The report of one update.
#[derive(Debug)]
pub struct StepReport {
    /// Sums over the rows of this process.
    pub sums: LossSums,
    /// The learning rate applied.
    pub learning_rate: f32,
    /// Measures of gradients and weights, by T5X's tags.
    pub weights: BTreeMap<String, f64>,
    /// Bytes that this process has sent to others, but for sums of few numbers.
    pub sent: u64,
    /// The scale of the loss.
    pub loss_scale: Option<f64>,
    /// Whether the update was made. Without it there are no measures of gradients and weights.
    pub is_updated: bool,
}

impl Stepper {
    /// Creates the stepper of a run with this seed.
    ///
    /// # Errors
    /// A learning rate that is not possible, or a device that does not compute in the format of the model's activations.
    pub fn new(
        spec: &Train,
        seed: u64,
        mesh: &Mesh,
        (axes, processes): (&Axes, &Arc<Processes>),
    ) -> Result<Self, SessionError> {
        let trainer = spec.trainer_cls.0.trainer();
        let schedule = trainer.learning_rate_fn.build();
        let schedule = schedule.map_err(|error| SessionError::Unfit(error.to_string()))?;
        let fp8 = spec.te_config_cls.as_ref().map(|class| &class.0);
        let forward = Forward::new(&spec.model, fp8, mesh)?;
        let anchor = spec.model.anchor().map(|anchor| Anchored::new(&anchor, mesh.device()));
        let watched = match &trainer.weight_metrics_computer {
            Some(WeightMetricsComputer {}) => Watched::Weights,
            None => Watched::GradientNorm,
        };
        let pjit = spec.partitioner.pjit();
        let axis = axes.data.clone();
        Ok(Self {
            forward,
            anchor: anchor.transpose()?,
            schedule,
            num_microbatches: trainer.num_microbatches(),
            microbatch_loss: trainer.microbatch_loss,
            loss_scaler: trainer.loss_scaler(spec.model.dtype()),
            watched,
            seed,
            replicas: mesh.data(),
            axes: axes.clone(),
            processes: Arc::clone(processes),
            reduction: (!axis.is_alone())
                .then(|| Reduction { axis, kind: kind(pjit.reduce_dtype.into()) }),
        })
    }

    /// Makes one step in place with the rows of `batch` that are this process's, at the learning rate times `rate_scale`.
    /// Gradients are those of the whole batch. With a scale of the loss, gradients that are not finite make no update. `graphs`
    /// are those of earlier steps.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch; the state must not be used any more. Another
    /// process is lost.
    pub fn train_step(
        &self,
        state: &mut TrainState,
        batch: &Batch,
        rate_scale: f64,
        graphs: &mut StepGraphs,
    ) -> Result<StepReport, SessionError> {
        let scheduled = self.schedule.at(state.next_update());
        let learning_rate = (f64::from(scheduled) * rate_scale) as f32;
        let sent = self.axes.sent();
        let scaler = self.loss_scaler.as_ref();
        let loss_scale = scaler.map(|scaler| scaler.scale(&state.loss_scaling));
        let parts = self.guarded(state.step, || self.parts(state.step, batch))?;
        let made = match self.by_graphs(state, &parts, learning_rate, graphs)? {
            Some(made) => made,
            None => self.by_operations(state, &parts, (learning_rate, loss_scale))?,
        };
        let StepResults { mut sums, weights, is_updated } = made;
        self.check_axes()?;
        state.step += 1;
        if let Some(scaler) = scaler {
            scaler.see(&mut state.loss_scaling, is_updated);
        }
        if self.axes.model.index() > 0 {
            // The rows of the first process along the model axis are the same.
            sums.each(&mut |sum| *sum = 0.0);
        }
        let sent = self.axes.sent() - sent;
        Ok(StepReport { sums, learning_rate, weights, sent, loss_scale, is_updated })
    }

    /// Returns the parts of a batch on the device.
    fn parts(&self, step: u64, batch: &Batch) -> Vec<StepPart> {
        let of_batch = self.divisors(batch);
        let part = |index: usize| StepPart {
            rows: self.own_rows(batch, index).to_device(self.forward.device),
            divisors: match self.microbatch_loss {
                MicrobatchLoss::WholeBatch => of_batch.clone(),
                MicrobatchLoss::SumOfMeans => self.divisors(&self.microbatch(batch, index)),
            },
            // The second number was the process's before all processes shared their masks.
            seed: derive(self.seed, Purpose::Dropout, &[step, 0, index as u64]),
        };
        (0..self.num_microbatches).map(part).collect()
    }

    /// Makes a step by launching one operation after another.
    fn by_operations(
        &self,
        state: &mut TrainState,
        parts: &[StepPart],
        (learning_rate, loss_scale): (f32, Option<f64>),
    ) -> Result<StepResults, SessionError> {
        let (mut outputs, mut watch) = (Vec::new(), Watch::new(self.watched));
        let mut is_updated = true;
        for (index, part) in parts.iter().enumerate() {
            tch::manual_seed(part.seed as i64);
            let loss = || self.loss(&state.params, &part.rows, &part.divisors);
            let output = self.guarded(state.step, loss)?;
            let loss = match loss_scale {
                Some(scale) => output.loss * scale,
                None => output.loss,
            };
            // Gradients add up in the parameters; the last ones may be consumed as they are
            // computed.
            match index + 1 == parts.len() {
                false => self.guarded(state.step, || state.params.backward(&loss))?,
                true => {
                    is_updated =
                        self.update(state, learning_rate, (&loss, loss_scale), &mut watch)?;
                }
            }
            outputs.push(output.sums);
        }
        self.read(state.step, &outputs, &watch, is_updated)
    }

    /// Makes a step by graphs, if it can be made so.
    fn by_graphs(
        &self,
        state: &mut TrainState,
        parts: &[StepPart],
        learning_rate: f32,
        graphs: &mut StepGraphs,
    ) -> Result<Option<StepResults>, SessionError> {
        let told =
            |part: &StepPart| Told { shape: part.rows.shape(), divisors: part.divisors.clone() };
        let told: Vec<Told> = parts.iter().map(told).collect();
        let way = graphs.way(&told);
        if way == Way::Plain {
            return Ok(None);
        }
        // Recorded work reads them as they are.
        state.params.refresh_copies();
        let number = state.next_update();
        let rates = state.optimizer.rates(learning_rate, number);
        let rates = rates.map_err(|error| SessionError::Unfit(error.to_string()))?;
        let Some(rates) = rates else {
            graphs.give_up("only updates by kernels of Adafactor and Adam are recorded");
            return Ok(None);
        };
        let rates = Tensor::from_slice(&rates);
        match way {
            Way::Record => {
                graphs.begin_recording(told, rates.to_device(self.forward.device).copy());
            }
            _ => graphs.recorded_step().rates.copy_(&rates),
        }
        let handles = (way == Way::Record).then(|| state.optimizer.handles());
        match self.guarded(state.step, || self.launch(state, parts, graphs))? {
            Ok(outputs) => {
                state.optimizer.count_update();
                let last = graphs.recorded_step().parts.last().expect("a step has parts");
                let watch = last.watch.as_ref().expect("the last part makes the update");
                self.read(state.step, &outputs, watch, true).map(Some)
            }
            // Nothing was updated.
            Err(reason) => {
                let handles = handles.expect("only recording fails");
                state.optimizer.put_back(handles, &state.params);
                graphs.give_up(&reason);
                Ok(None)
            }
        }
    }

    /// Launches the parts of a step, which are recorded first if they are not.
    fn launch(
        &self,
        state: &mut TrainState,
        parts: &[StepPart],
        graphs: &mut StepGraphs,
    ) -> Result<Vec<UnreadSums>, String> {
        let StepGraphs { recorder: Some(recorder), recorded: Some(recorded), .. } = graphs else {
            panic!("a step is recorded")
        };
        let mut outputs = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let place = place(index, parts.len());
            let rates = recorded.rates.shallow_clone();
            let given = (index + 1 == parts.len()).then_some(&rates);
            let divisors = &part.divisors;
            // Everything that is random follows from the seed, which graphs read when they are launched.
            tch::manual_seed(part.seed as i64);
            if place == recorded.parts.len() {
                let batch = part.rows.copied();
                let mut made = None;
                let mut work = || made = Some(self.part(state, (&batch, divisors), given));
                let recording = recorder.record(&mut work)?;
                let (sums, watch) = made.expect("recording does the work once");
                recorded.parts.push(RecordedPart { recording, batch, sums, watch });
            } else {
                recorded.parts[place].batch.take(&part.rows);
            }
            let RecordedPart { recording, batch, sums, watch } = &mut recorded.parts[place];
            recorder.replay(*recording, &mut || {
                (*sums, *watch) = self.part(state, (batch, divisors), given);
            });
            outputs.push(sums.copied());
        }
        Ok(outputs)
    }

    /// Computes gradients of a part of a batch, and for the last part, with these rates, the update.
    fn part(
        &self,
        state: &mut TrainState,
        (batch, divisors): (&Batch, &Divisors),
        rates: Option<&Tensor>,
    ) -> (UnreadSums, Option<Watch>) {
        let LossOutput { loss, sums } = self.loss(&state.params, batch, divisors);
        let Some(rates) = rates else {
            state.params.backward(&loss);
            return (sums, None);
        };
        let mut watch = Watch::new(self.watched);
        let backward = || loss.backward();
        let made = state.optimizer.update_from(rates, &state.params, &mut watch, backward);
        made.expect("an update of one process after its first one");
        (sums, Some(watch))
    }

    /// Reads the results of a step, all of whose work is under way before the host waits for a number.
    fn read(
        &self,
        step: u64,
        outputs: &[UnreadSums],
        watch: &Watch,
        is_updated: bool,
    ) -> Result<StepResults, SessionError> {
        let weights = self.guarded(step, || watch.read())?;
        let parts: Vec<LossSums> =
            self.guarded(step, || outputs.iter().map(UnreadSums::read).collect())?;
        let mut parts = parts.into_iter();
        let mut sums = parts.next().expect("there is at least one part");
        parts.for_each(|part| sums += &part);
        Ok(StepResults { sums, weights, is_updated })
    }

    /// Ensures that all operations with other processes have succeeded.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn check_axes(&self) -> Result<(), ProcessError> {
        self.processes.told(self.axes.lost().map_or(Ok(()), Err))
    }

    /// Returns the seconds for which this process has waited for others, since the run began.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn waited(&self) -> Result<f64, ProcessError> {
        self.processes.waited(&self.axes)
    }

    /// Returns this process's rows of a microbatch.
    fn own_rows(&self, batch: &Batch, part: usize) -> Batch {
        let MeshAxis { index, size } = self.replicas;
        let rows = batch.num_rows() / (self.num_microbatches * size) as i64;
        batch.rows((part * size + index) as i64 * rows, rows)
    }

    /// Returns the rows of a microbatch, those of all processes.
    fn microbatch(&self, batch: &Batch, part: usize) -> Batch {
        let rows = batch.num_rows() / self.num_microbatches as i64;
        batch.rows(part as i64 * rows, rows)
    }

    /// Returns the loss of a part of a batch, with dropout by the generator's state. Losses of the processes' parts add up to that
    /// of a microbatch, and those of microbatches to the loss that `microbatch_loss` names.
    fn loss(&self, params: &Params, batch: &Batch, divisors: &Divisors) -> LossOutput {
        let Forward { network, loss, .. } = &self.forward;
        let MeshAxis { index, size } = self.replicas;
        let dropout = network.dropout().of_part(index, size);
        let parts = match self.microbatch_loss {
            MicrobatchLoss::WholeBatch => self.num_microbatches * size,
            MicrobatchLoss::SumOfMeans => size,
        };
        let share = 1.0 / parts as f64;
        let routing = loss.routing.map(|losses| RoutingLosses { share, ..losses });
        let spec = LossSpec { divisors: divisors.clone(), routing, ..loss.clone() };
        let output = network.loss(params, batch, &spec, dropout);
        match &self.anchor {
            None => output,
            Some(anchor) => {
                LossOutput { loss: output.loss + anchor.loss(params) * share, ..output }
            }
        }
    }

    /// Updates the state with the gradients of `loss`, which may be scaled, and those already in the parameters. Returns whether
    /// they were finite, if that is asked.
    fn update(
        &self,
        state: &mut TrainState,
        learning_rate: f32,
        (loss, scale): (&Tensor, Option<f64>),
        watch: &mut Watch,
    ) -> Result<bool, SessionError> {
        let (number, step) = (state.next_update(), state.step);
        let (params, optimizer) = (&state.params, &mut state.optimizer);
        let loss_scale = scale.map(|scale| LossScale { scale, axes: self.axes.clone() });
        let incoming =
            Incoming { reduction: self.reduction.as_ref(), loss_scale: loss_scale.as_ref() };
        let backward = || loss.backward();
        let update = || optimizer.update(params, learning_rate, number, watch, incoming, backward);
        match self.guarded(step, update)? {
            Err(OptimError::Lost(error)) => Ok(self.processes.told(Err(error))?),
            updated => updated.map_err(|error| SessionError::Unfit(error.to_string())),
        }
    }

    /// Returns the divisors of the loss of these rows, if it is computed in parts and divided.
    fn divisors(&self, batch: &Batch) -> Divisors {
        match self.num_microbatches * self.replicas.size {
            1 => Divisors::new(),
            _ => self.forward.network.divisors(batch, &self.forward.loss),
        }
    }

    /// Runs `body` as part of a step, and converts failures to errors.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn guarded<R>(&self, step: u64, body: impl FnOnce() -> R) -> Result<R, SessionError> {
        guarded(body).map_err(|failure| match failure {
            TorchFailure::OutOfMemory(detail) => {
                let parts = self.num_microbatches * 2;
                let remedy = format!(
                    "lower BATCH_SIZE, or keep it and set trainer.Trainer.num_microbatches = {parts}"
                );
                SessionError::OutOfMemory { step, detail, remedy }
            }
            TorchFailure::Other(detail) => SessionError::Torch { step, detail },
        })
    }
}
