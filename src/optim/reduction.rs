//! Sums of gradients over the processes of a run, in buckets, while a backward pass computes others.

use std::collections::VecDeque;
use std::mem;

use tch::{Device, Kind, Tensor};

use crate::nn::c10d::Work;
use crate::nn::profiler::{Activity, part};
use crate::nn::{Axis, C10dError, CopiedColumns};

/// Bytes of gradients that travel together, as in PyTorch's DistributedDataParallel: each operation
/// waits for the slowest network hop once.
pub(super) const BUCKET_BYTES: usize = 25 << 20;

/// Bytes from which a gradient on a CPU is sent by itself: copying it beside others would take the time of cores that
/// compute, and Gloo sends a large tensor in pieces anyway.
const BYTES_ALONE_ON_CPU: usize = 1 << 20;

/// The processes among which gradients are summed, and the type in which they travel.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The processes.
    pub axis: Axis,
    /// Float32, or bfloat16 for half of the bytes.
    pub kind: Kind,
}

/// A parameter and its gradient in float32, contiguous; in a process alone it may be that of the copy.
#[derive(Debug)]
pub(super) struct Completed {
    pub name: String,
    pub param: Tensor,
    pub grad: Tensor,
    /// The parameter's columns of a copy, if it has one.
    pub copy: Option<CopiedColumns>,
}

/// Gradients on their way to their sums. All processes add the same parameters in the same order.
#[derive(Debug)]
pub(super) struct Buckets {
    reduction: Reduction,
    filling: Vec<Completed>,
    under_way: VecDeque<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    work: Option<Work>, // none with one process alone
    sum: Tensor,        // the gradients one after the other
    members: Vec<Completed>,
}

impl Buckets {
    pub fn new(reduction: &Reduction) -> Self {
        Self { reduction: reduction.clone(), filling: Vec::new(), under_way: VecDeque::new() }
    }

    /// Adds a gradient, and returns those whose sums are there; never waits.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn add(&mut self, completed: Completed) -> Result<Vec<Completed>, C10dError> {
        let _part = part(Activity::Communication);
        if is_sent_alone(&completed.grad) {
            self.send(vec![completed])?;
        } else {
            self.filling.push(completed);
            if self.filling.iter().map(|one| bytes(&one.grad)).sum::<usize>() >= BUCKET_BYTES {
                self.send_filling()?;
            }
        }
        let mut summed = Vec::new();
        while self.under_way.front().is_some_and(UnderWay::is_done) {
            let first = self.under_way.pop_front();
            summed.extend(first.map(|first| first.finish(&self.reduction.axis)).transpose()?);
        }
        Ok(summed.into_iter().flatten().collect())
    }

    /// Waits for the sums of the gradients that were added.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn finish(&mut self) -> Result<Vec<Completed>, C10dError> {
        let _part = part(Activity::Communication);
        self.send_filling()?;
        let axis = &self.reduction.axis;
        let summed: Result<Vec<_>, _> =
            self.under_way.drain(..).map(|one| one.finish(axis)).collect();
        Ok(summed?.into_iter().flatten().collect())
    }

    fn send_filling(&mut self) -> Result<(), C10dError> {
        let members = mem::take(&mut self.filling);
        if members.is_empty() { Ok(()) } else { self.send(members) }
    }

    fn send(&mut self, members: Vec<Completed>) -> Result<(), C10dError> {
        let flat: Vec<Tensor> = members.iter().map(|one| one.grad.view(-1)).collect();
        let joined = if flat.len() == 1 { flat[0].shallow_clone() } else { Tensor::cat(&flat, 0) };
        let sum = joined.to_kind(self.reduction.kind);
        let work = self.reduction.axis.begin_sum(&sum)?;
        self.under_way.push_back(UnderWay { work, sum, members });
        Ok(())
    }
}

fn is_sent_alone(grad: &Tensor) -> bool {
    let least = if grad.device() == Device::Cpu { BYTES_ALONE_ON_CPU } else { BUCKET_BYTES };
    bytes(grad) >= least
}

/// Number of bytes of a tensor in float32.
pub(super) fn bytes(tensor: &Tensor) -> usize {
    tensor.numel() * size_of::<f32>()
}

impl UnderWay {
    fn is_done(&self) -> bool {
        self.work.as_ref().is_none_or(Work::is_done)
    }

    fn finish(self, axis: &Axis) -> Result<Vec<Completed>, C10dError> {
        axis.finish_sum(self.work)?;
        let sum = self.sum.to_kind(Kind::Float);
        let mut start = 0;
        let one = |member: Completed| {
            let length = member.grad.numel() as i64;
            let grad = sum.narrow(0, start, length).view_as(&member.grad);
            start += length;
            Completed { grad, ..member }
        };
        Ok(self.members.into_iter().map(one).collect())
    }
}
