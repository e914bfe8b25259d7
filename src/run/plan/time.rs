//! The predicted time of a step: a roofline for each kind of operation, and rings of processes that send one after the
//! other.
//!
//! A product takes the longer of its operations and its bytes, at the shares of the device's rates that kernels reach;
//! everything else on activations takes its bytes. A backward pass is two forward passes, inside attention two and a half.

use crate::models::parts::{ForwardWork, MatrixProducts};
use crate::models::transformer::{StackSpec, TransformerSpec};
use crate::nn::{Dtype, MeshDim, ParamSpec, RematPolicy};
use crate::partition::Mesh;
use crate::session::check::UnfitSpec;
use crate::train::{Traffic, Train, step_estimate, traffic, training_shape};

use super::cluster::{Cluster, RingPlace};
use super::layout::Zero;

/// The passes of products in a step: forward, and for the gradients of both factors.
const PASSES: f64 = 3.0;
/// Those of attention: kernels compute scores once more in the backward pass.
const ATTENTION_PASSES: f64 = 3.5;
/// The share of a step's computing in its backward passes.
const BACKWARD: f64 = 2.0 / 3.0;
/// Bytes of a parameter that an update reads and writes beside the optimizer's state: value and gradient, the gradient for
/// its norm, the new value.
const UPDATED: f64 = 16.0;
/// Bytes that conversions to fp8 move for each number before and each gradient after a product, which are converted once a
/// step: reading 16 bits and writing 8, in both orders.
const CONVERTED: f64 = 4.0;
/// Sums over processes with which Adafactor updates an array that they divide: for its scale, for a mean of squares, for the
/// size of the update, and for every other array for the mean of these means. None waits for several arrays.
const SUMS_OF_UPDATE: f64 = 3.5;
/// Bytes of a bucket of gradients (`optim/reduction.rs`).
const BUCKET: f64 = 25.0 * 1024.0 * 1024.0;

/// Seconds of a step by their cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// Products of matrices.
    pub products: f64,
    /// Attention between its projections.
    pub attention: f64,
    /// Work bound by memory: norms, activations, residuals, the loss, conversions.
    pub other: f64,
    /// The optimizer's updates.
    pub optimizer: f64,
    /// Waiting for processes of the same host.
    pub inside: f64,
    /// Waiting for the network between hosts.
    pub network: f64,
    /// Communication beside computing, which takes no time of its own.
    pub hidden: f64,
}

impl StepTime {
    /// Returns the length of the step.
    pub fn total(&self) -> f64 {
        let Self { products, attention, other, optimizer, inside, network, hidden: _ } = self;
        products + attention + other + optimizer + inside + network
    }

    fn scaled(self, pace: f64) -> Self {
        Self {
            products: pace * self.products,
            attention: pace * self.attention,
            other: pace * self.other,
            optimizer: pace * self.optimizer,
            ..self
        }
    }

    fn wait(&mut self, place: RingPlace, seconds: f64) {
        match place {
            RingPlace::Inside => self.inside += seconds,
            RingPlace::Network => self.network += seconds,
        }
    }
}

/// Predicts a step of a run on a mesh of a machine, whose data axis divides those arrays.
///
/// # Errors
/// A length is not bound, or the optimizer's rules do not cover a parameter.
pub fn step_time(
    train: &Train,
    mesh: &Mesh,
    machine: &Cluster,
    zero: Zero,
) -> Result<StepTime, UnfitSpec> {
    let trainer = train.trainer_cls.0.trainer();
    let num_microbatches = trainer.num_microbatches();
    let batch = training_shape(train)?;
    let shape = batch.divided(num_microbatches, mesh.data().size);
    let spec = transformer(train, zero);
    let work = spec.forward_work(&shape, mesh);
    let mut time = computing(&spec, &work, machine, num_microbatches as f64);
    time.optimizer = updating(train, mesh, machine)?;
    time = time.scaled(machine.pace);
    let sent = traffic(train, mesh)?;
    add_model_axis(&mut time, &spec, sent, mesh, machine, num_microbatches as f64);
    add_data_axis(&mut time, sent, mesh, machine, (zero, num_microbatches as f64));
    add_sums_of_updates(&mut time, train, mesh, machine);
    if sent.experts > 0.0 {
        let exchanges = num_microbatches as f64 * spec.num_exchanges();
        add_experts(&mut time, (sent.experts, exchanges), mesh, machine);
    }
    Ok(time)
}

/// The network as a step computes it: layers whose parameters are gathered are made again, products excepted.
fn transformer(train: &Train, zero: Zero) -> TransformerSpec {
    let fp8 = train.te_config_cls.as_ref().map(|class| &class.0);
    let mut spec = train.model.transformer().with_fp8(fp8);
    let is_fp8 = is_fp8(&spec);
    for stack in spec.encoder.iter_mut().chain([&mut spec.last]) {
        let policy = &mut stack.dims.remat_policy;
        if zero == Zero::Parameters && *policy == RematPolicy::None {
            *policy = RematPolicy::Minimal;
        }
        // MatrixProducts in fp8 are not kept.
        if is_fp8 && *policy == RematPolicy::Minimal {
            *policy = RematPolicy::Full;
        }
    }
    spec
}

fn is_fp8(spec: &TransformerSpec) -> bool {
    spec.fp8.as_ref().is_some_and(|fp8| fp8.enable_fp8)
}

/// The time of forward and backward passes.
fn computing(
    spec: &TransformerSpec,
    work: &ForwardWork,
    machine: &Cluster,
    num_microbatches: f64,
) -> StepTime {
    let dims = &spec.last.dims;
    let again = |is_again: bool| if is_again { 1.0 } else { 0.0 };
    let remat = again(dims.remat_policy != RematPolicy::None);
    let products_again = again(dims.remat_policy == RematPolicy::Full);
    let fp8 = machine.fp8_products().filter(|_| is_fp8(spec));
    let (rate, memory) = (machine.products(dims.dtype), machine.memory_rate());
    let of_product = |products: &MatrixProducts| {
        let rate = fp8.filter(|_| products.is_projection).unwrap_or(rate);
        let moved = work.size * products.numbers() / memory;
        let one = (products.flops() / products.count / rate).max(moved);
        products.count * (one + machine.efficiency.operation)
    };
    let converted = work.products.iter().filter(|products| fp8.is_some() && products.is_projection);
    let converted: f64 = converted
        .map(|products| {
            CONVERTED * products.count * products.rows * (products.inner + products.columns)
        })
        .sum();
    let products: f64 = work.products.iter().map(of_product).sum();
    let other = work.stream_bytes / memory + work.num_operations * machine.efficiency.operation;
    StepTime {
        products: num_microbatches * (PASSES + products_again) * products,
        attention: num_microbatches * (ATTENTION_PASSES + remat) * work.attention_flops
            / attention_rate(machine, dims.dtype),
        other: num_microbatches * ((PASSES + remat) * other + converted / memory),
        ..StepTime::default()
    }
}

/// Attention in float32 is as much slower as products are.
fn attention_rate(machine: &Cluster, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float32 => {
            machine.attention() * machine.products(dtype) / machine.products(Dtype::Bfloat16)
        }
        Dtype::Bfloat16 | Dtype::Float16 => machine.attention(),
    }
}

/// The time of the optimizer, and of casting parameters.
fn updating(train: &Train, mesh: &Mesh, machine: &Cluster) -> Result<f64, UnfitSpec> {
    let own: usize = train
        .model
        .param_tree()
        .iter()
        .map(|param| mesh.state_shard(&param.axes, &param.shape).shape().iter().product::<usize>())
        .sum();
    let state = step_estimate(train, mesh)?.optimizer as f64;
    Ok((UPDATED * own as f64 + 2.0 * state) / machine.memory_rate())
}

/// Adds the sums of activations over the model axis, for which everything waits.
fn add_model_axis(
    time: &mut StepTime,
    spec: &TransformerSpec,
    sent: Traffic,
    mesh: &Mesh,
    machine: &Cluster,
    num_microbatches: f64,
) {
    let size = mesh.model().size;
    if size == 1 {
        return;
    }
    let num_parts: usize = spec.stacks().map(StackSpec::num_parts).sum();
    let is_remade = spec.last.dims.remat_policy != RematPolicy::None;
    let sums = num_microbatches * num_parts as f64 * if is_remade { 3.0 } else { 2.0 };
    let (rate, place) = machine.link(size.min(machine.per_host), size);
    time.wait(place, sent.model / rate + sums * latency(machine, size));
}

/// Adds gradients and parameters along the data axis. Buckets of gradients travel beside the last backward pass; nothing else does.
fn add_data_axis(
    time: &mut StepTime,
    sent: Traffic,
    mesh: &Mesh,
    machine: &Cluster,
    (zero, num_microbatches): (Zero, f64),
) {
    let size = mesh.data().size;
    if size == 1 {
        return;
    }
    let (rate, place) = machine.link(neighbours(mesh, machine), size);
    let buckets = (sent.data / 2.0 / BUCKET).ceil();
    let seconds = sent.data / rate + buckets * latency(machine, size);
    let computing = time.products + time.attention + time.other;
    let beside = machine.efficiency.overlap * BACKWARD * computing / num_microbatches;
    // The last bucket has nothing beside it.
    let hidden = match zero {
        Zero::None => beside.min(seconds * (1.0 - 1.0 / buckets)),
        Zero::State | Zero::Parameters => 0.0,
    };
    time.hidden = hidden;
    time.wait(place, seconds - hidden);
}

/// Adds the sums, of a few numbers each, by which an optimizer knows a whole array of which each process updates a part.
fn add_sums_of_updates(time: &mut StepTime, train: &Train, mesh: &Mesh, machine: &Cluster) {
    if !train.model.optimizer_def().needs_whole_params() {
        return;
    }
    let (data, model) = (mesh.data().size, mesh.model().size);
    let axes = [
        (MeshDim::Data, data, neighbours(mesh, machine)),
        (MeshDim::Model, model, model.min(machine.per_host)),
    ];
    let params = train.model.param_tree();
    for (name, size, neighbours) in axes.into_iter().filter(|(_, size, _)| *size > 1) {
        let is_divided =
            |param: &&ParamSpec| mesh.state_shard(&param.axes, &param.shape).dim(name).is_some();
        let sums = SUMS_OF_UPDATE * params.iter().filter(is_divided).count() as f64;
        time.wait(machine.link(neighbours, size).1, sums * latency(machine, size));
    }
}

/// Adds the bytes of tokens on their way to experts and back in so many exchanges, for which everything waits.
fn add_experts(time: &mut StepTime, (bytes, count): (f64, f64), mesh: &Mesh, machine: &Cluster) {
    let size = mesh.data().size;
    let (seconds, place) = machine.exchange(bytes, neighbours(mesh, machine), size);
    time.wait(place, seconds + count * latency(machine, size));
}

/// The processes of a host along the data axis.
fn neighbours(mesh: &Mesh, machine: &Cluster) -> usize {
    (machine.per_host / mesh.model().size).max(1).min(mesh.data().size)
}

/// The seconds of a collective that has nothing to send.
fn latency(machine: &Cluster, size: usize) -> f64 {
    machine.efficiency.collective * (size as f64).log2()
}
