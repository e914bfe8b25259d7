//! Gradients and updates of parameters of which each process updates a part (ZeRO-1): parts of sums come, and updated
//! parts go, in buckets, while a backward pass computes other gradients.
//!
//! Unlike sums in place, each arrival leads to another operation. So that all processes begin them in the same order, a bucket
//! is taken when the next one is sent, and not when it happens to arrive.

use std::mem;

use tch::Tensor;

use super::reduction::{BUCKET_BYTES, Completed, bytes};
use crate::nn::{Axis, Gathering, Portion, Scattering};

/// Whether a tensor fills a bucket by itself. It is exchanged in pieces at once: a bucket takes three times the memory of its
/// tensors, and the largest ones, those of the vocabulary, come first and last in a backward pass.
fn is_alone(tensor: &Tensor) -> bool {
    bytes(tensor) >= BUCKET_BYTES
}

/// Parts on their way.
#[derive(Debug)]
pub(super) struct Zero1Exchange {
    axis: Axis,
    /// Gradients of the next bucket.
    gradients: Vec<(Completed, Portion)>,
    /// The bucket whose sums arrive.
    arriving: Option<(Scattering, Vec<Completed>)>,
    /// Updated parts of the next bucket, with the whole parameters.
    updated: Vec<(Portion, Tensor)>,
    /// The parameters whose updated parts arrive from all processes.
    leaving: Option<(Gathering, Vec<Tensor>)>,
}

impl Zero1Exchange {
    pub fn new(axis: &Axis) -> Self {
        let (gradients, updated) = (Vec::new(), Vec::new());
        Self { axis: axis.clone(), gradients, arriving: None, updated, leaving: None }
    }

    /// Adds a gradient with its portion, and returns the parts of earlier sums that are taken now.
    pub fn add(&mut self, completed: Completed, portion: Portion) -> Vec<Completed> {
        if is_alone(&completed.grad) {
            let grad = self.axis.sum_parts(&[portion]).remove(0).contiguous();
            return vec![Completed { grad, ..completed }];
        }
        self.gradients.push((completed, portion));
        let filled: usize = self.gradients.iter().map(|(one, _)| bytes(&one.grad)).sum();
        if filled >= BUCKET_BYTES { self.send() } else { Vec::new() }
    }

    /// Returns the parts of the sums of all gradients that were added and not yet returned.
    pub fn finish(&mut self) -> Vec<Completed> {
        let mut summed = self.send();
        summed.extend(self.taken());
        summed
    }

    /// Sends the gradients that were added, and returns the sums of those before.
    fn send(&mut self) -> Vec<Completed> {
        if self.gradients.is_empty() {
            return Vec::new();
        }
        let (mut members, portions): (Vec<Completed>, Vec<_>) =
            mem::take(&mut self.gradients).into_iter().unzip();
        let next = self.axis.begin_sum_parts(&portions);
        members.iter_mut().for_each(|member| member.grad = Tensor::new());
        let summed = self.taken();
        self.arriving = Some((next, members));
        summed
    }

    fn taken(&mut self) -> Vec<Completed> {
        let Some((arriving, members)) = self.arriving.take() else { return Vec::new() };
        let parts = arriving.finish().into_iter();
        let one =
            |(member, part): (Completed, Tensor)| Completed { grad: part.contiguous(), ..member };
        members.into_iter().zip(parts).map(one).collect()
    }

    /// Takes an updated part of a parameter, which all processes get.
    pub fn put_back(&mut self, updated: Portion, mut whole: Tensor) {
        if is_alone(&whole) {
            return whole.copy_(&self.axis.gather_all(&[updated]).remove(0));
        }
        self.updated.push((updated, whole));
        let filled: usize = self.updated.iter().map(|(_, whole)| bytes(whole)).sum();
        if filled >= BUCKET_BYTES {
            self.send_updated();
        }
    }

    /// Waits until all parameters have the updates of all processes.
    pub fn settle(&mut self) {
        self.send_updated();
        self.copy_arrived();
    }

    fn send_updated(&mut self) {
        if self.updated.is_empty() {
            return;
        }
        let (portions, wholes): (Vec<_>, Vec<_>) = mem::take(&mut self.updated).into_iter().unzip();
        let next = self.axis.begin_gather(&portions);
        self.copy_arrived();
        self.leaving = Some((next, wholes));
    }

    fn copy_arrived(&mut self) {
        let Some((leaving, wholes)) = self.leaving.take() else { return };
        for (mut whole, updated) in wholes.into_iter().zip(leaving.finish()) {
            whole.copy_(&updated);
        }
    }
}
