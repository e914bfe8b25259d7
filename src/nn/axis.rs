//! The processes along one axis of the mesh, and the operations in which they exchange tensors.
//!
//! Those with a graph come in pairs of which each is the other's backward pass (Shoeybi et al. 2019,
//! arXiv:1909.08053; Korthikanti et al. 2022, arXiv:2205.05198). An operation that fails leaves numbers without
//! meaning, and later ones do nothing: a backward pass cannot return an error, so [`Axis::lost`] is asked after each step, and before
//! anything is saved or evaluated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::Tensor;

use super::autograd::custom_function;
use super::c10d::{ProcessGroup, Reduce, Work};
use super::error::C10dError;
use super::portion::Portion;
use super::products::{keep, recall};
use super::profiler::{Activity, part};
use super::shard::{MeshDim, part_of};

/// The processes along an axis; by default this one alone, with which nothing is sent.
#[derive(Clone, Debug, Default)]
pub struct Axis(Option<Arc<Members>>);

#[derive(Debug)]
struct Members {
    index: usize,
    group: Arc<ProcessGroup>,
    /// Bytes that this process has sent, as [`Axis::sent`] counts.
    sent: AtomicU64,
    lost: Arc<Lost>,
}

/// The first failure of an operation with other processes, which all axes share: after one, none waits again.
#[derive(Debug, Default)]
pub struct Lost(Mutex<Option<C10dError>>);

impl Lost {
    fn first(&self) -> MutexGuard<'_, Option<C10dError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Axis {
    /// The members of a group, of which this process is the one of that number.
    pub fn new(index: usize, group: Arc<ProcessGroup>, lost: &Arc<Lost>) -> Self {
        let (sent, lost) = (AtomicU64::new(0), Arc::clone(lost));
        Self(Some(Arc::new(Members { index, group, sent, lost })))
    }

    /// Whether there is no other process.
    pub fn is_alone(&self) -> bool {
        self.0.is_none()
    }

    /// Number of processes.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(1, |members| members.group.size())
    }

    /// The number of this process.
    pub fn index(&self) -> usize {
        self.0.as_ref().map_or(0, |members| members.index)
    }

    /// The group of the processes; `None` for one alone.
    pub fn group(&self) -> Option<Arc<ProcessGroup>> {
        self.0.as_ref().map(|members| Arc::clone(&members.group))
    }

    /// The first failure of an operation, also one on a GPU, where nobody waits for it.
    pub fn lost(&self) -> Option<C10dError> {
        let members = self.0.as_ref()?;
        members.lost.first().clone().or_else(|| members.group.check().err())
    }

    /// Returns the bytes that this process has sent, if a sum of b bytes over n processes sends 2 b (n - 1) / n, as rings
    /// do, and a gather, a scatter or an exchange half of that. Sums in place, which are of few numbers, do not count.
    pub fn sent(&self) -> u64 {
        self.0.as_ref().map_or(0, |members| members.sent.load(Ordering::Relaxed))
    }

    /// Begins to replace a contiguous tensor by its sum over the processes.
    ///
    /// # Errors
    /// This operation, or an earlier one, has failed.
    pub fn begin_sum(&self, tensor: &Tensor) -> Result<Option<Work>, C10dError> {
        let Some(members) = &self.0 else { return Ok(None) };
        if let Some(error) = members.lost.first().clone() {
            return Err(error);
        }
        self.count_sum(tensor);
        self.noted(members.group.all_reduce(tensor, Reduce::Sum)).map(Some)
    }

    /// Waits for the end of [`Axis::begin_sum`].
    ///
    /// # Errors
    /// It has failed.
    pub fn finish_sum(&self, work: Option<Work>) -> Result<(), C10dError> {
        self.noted(work.map_or(Ok(()), Work::wait))
    }

    fn noted<T>(&self, result: Result<T, C10dError>) -> Result<T, C10dError> {
        if let (Err(error), Some(members)) = (&result, &self.0) {
            members.lost.first().get_or_insert(error.clone());
        }
        result
    }

    /// Counts a sum of a tensor.
    fn count_sum(&self, tensor: &Tensor) {
        let others = self.size() as u64 - 1;
        self.count(2 * bytes(tensor) * others / self.size() as u64);
    }

    /// Counts bytes that are sent.
    pub(super) fn count(&self, sent: u64) {
        if let Some(members) = &self.0 {
            members.sent.fetch_add(sent, Ordering::Relaxed);
        }
    }

    /// Replaces a contiguous tensor by its sum over the processes.
    pub fn sum_in_place(&self, tensor: &Tensor) {
        self.run(|group| group.all_reduce(tensor, Reduce::Sum));
    }

    /// Replaces a contiguous tensor by its greatest elements over the processes.
    pub fn max_in_place(&self, tensor: &Tensor) {
        self.run(|group| group.all_reduce(tensor, Reduce::Max));
    }

    fn gather(&self, part: &Tensor, dim: usize, extent: i64) -> Tensor {
        self.gather_all(&[Portion { tensor: part.shallow_clone(), dim, extent }]).remove(0)
    }

    fn sum_part(&self, whole: &Tensor, dim: usize) -> Tensor {
        let extent = whole.size()[dim];
        self.sum_parts(&[Portion { tensor: whole.shallow_clone(), dim, extent }]).remove(0)
    }

    /// Returns the sum over the processes; its gradient is that of each addend.
    pub fn summed(&self, addend: Tensor) -> Tensor {
        if self.is_alone() {
            return addend;
        }
        let form = || {
            let sum = tch::no_grad(|| addend.detach().copy().contiguous());
            self.sum_in_place(&sum);
            self.count_sum(&sum);
            keep(&sum);
            sum
        };
        let unread = || addend.detach().empty_like();
        let sum = recall().map_or_else(form, |kept| kept.unwrap_or_else(unread));
        custom_function(&[&addend], vec![sum], |gradients| gradients).remove(0)
    }

    /// Returns what all processes hold alike, for work that they divide: its gradient is the sum of theirs. The
    /// gradient that arrives must be of this use alone, since the sum takes its memory.
    pub fn shared(&self, whole: &Tensor) -> Tensor {
        if self.is_alone() {
            return whole.shallow_clone();
        }
        let axis = self.clone();
        let sum = move |gradients: Vec<Tensor>| {
            let gradient = gradients[0].contiguous();
            axis.sum_in_place(&gradient);
            axis.count_sum(&gradient);
            vec![gradient]
        };
        custom_function(&[whole], vec![whole.data()], sum).remove(0)
    }

    /// Returns a tensor whose gradient is summed over the processes, for work that each of them does completely: its gradient
    /// counts once.
    pub fn repeated(&self, whole: &Tensor) -> Tensor {
        if self.is_alone() {
            return whole.shallow_clone();
        }
        let share = 1.0 / self.size() as f64;
        let of_one = move |gradients: Vec<Tensor>| vec![&gradients[0] * share];
        custom_function(&[whole], vec![whole.data()], of_one).remove(0)
    }

    /// Returns the whole of a dimension of which each process holds a part, for work that they divide.
    pub fn gathered(&self, part: &Tensor, dim: usize, extent: i64) -> Tensor {
        if self.is_alone() {
            return part.shallow_clone();
        }
        let whole = tch::no_grad(|| self.gather(&part.detach(), dim, extent).contiguous().data());
        let axis = self.clone();
        let backward = move |gradients: Vec<Tensor>| vec![axis.sum_part(&gradients[0], dim)];
        custom_function(&[part], vec![whole], backward).remove(0)
    }

    /// Returns this process's part, along a dimension, of the sum over the processes.
    pub fn scattered(&self, addend: &Tensor, dim: usize) -> Tensor {
        if self.is_alone() {
            return addend.shallow_clone();
        }
        let form = || {
            let part = tch::no_grad(|| self.sum_part(&addend.detach(), dim).contiguous().data());
            keep(&part);
            part
        };
        let unread = || {
            let mut size = addend.size();
            size[dim] = part_of(size[dim] as usize, self.index(), self.size()).len() as i64;
            Tensor::empty(size, (addend.kind(), addend.device()))
        };
        let part = recall().map_or_else(form, |kept| kept.unwrap_or_else(unread));
        self.with_gathered_gradient(addend, part, dim)
    }

    /// Returns the parts that the processes have for this one, in the order of their numbers. Each process has a part for
    /// every process, and all parts are equal, along the first dimension. Gradients go the way back.
    pub fn exchanged(&self, parts: &Tensor) -> Tensor {
        if self.is_alone() {
            return parts.shallow_clone();
        }
        let form = || {
            let received = tch::no_grad(|| self.exchange(&parts.detach()));
            keep(&received);
            received
        };
        let unread = || parts.detach().empty_like();
        let received = recall().map_or_else(form, |kept| kept.unwrap_or_else(unread));
        let axis = self.clone();
        let backward = move |gradients: Vec<Tensor>| vec![axis.exchange(&gradients[0])];
        custom_function(&[parts], vec![received], backward).remove(0)
    }

    fn exchange(&self, parts: &Tensor) -> Tensor {
        let parts = parts.contiguous();
        let received = parts.empty_like();
        self.run(|group| group.all_to_all(&parts, &received));
        let size = self.size() as u64;
        self.count(bytes(&parts) * (size - 1) / size);
        received
    }

    /// Returns this process's part, along a dimension, of what all processes hold alike.
    pub fn split(&self, whole: &Tensor, dim: usize) -> Tensor {
        if self.is_alone() {
            return whole.shallow_clone();
        }
        let range = part_of(whole.size()[dim] as usize, self.index(), self.size());
        let part = tch::no_grad(|| {
            let own = whole.detach().narrow(dim as i64, range.start as i64, range.len() as i64);
            own.copy()
        });
        self.with_gathered_gradient(whole, part, dim)
    }

    fn with_gathered_gradient(&self, whole: &Tensor, part: Tensor, dim: usize) -> Tensor {
        let (axis, extent) = (self.clone(), whole.size()[dim]);
        let backward = move |gradients: Vec<Tensor>| vec![axis.gather(&gradients[0], dim, extent)];
        custom_function(&[whole], vec![part], backward).remove(0)
    }

    fn run(&self, begin: impl FnOnce(&ProcessGroup) -> Result<Work, C10dError>) {
        let _part = part(Activity::Communication);
        self.finish(self.begin(begin));
    }

    /// Begins an operation, unless one has failed before.
    pub(super) fn begin(
        &self,
        begin: impl FnOnce(&ProcessGroup) -> Result<Work, C10dError>,
    ) -> Option<Work> {
        let members = self.0.as_ref()?;
        let mut lost = members.lost.first();
        if lost.is_some() {
            return None;
        }
        begin(&members.group).map_err(|error| *lost = Some(error)).ok()
    }

    /// Waits for the end of an operation, unless one has failed before.
    pub(super) fn finish(&self, work: Option<Work>) {
        let (Some(members), Some(work)) = (&self.0, work) else { return };
        let mut lost = members.lost.first();
        if lost.is_none() {
            *lost = work.wait().err();
        }
    }
}

/// The processes along both axes of a mesh; by default this one alone.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    /// Those that divide batches, and parameters too if those are spread over them.
    pub data: Axis,
    /// Those that divide heads, feed-forward blocks and the vocabulary.
    pub model: Axis,
}

impl Axes {
    /// The axes with their names, in the order of all operations on both.
    pub fn named(&self) -> [(MeshDim, &Axis); 2] {
        [(MeshDim::Data, &self.data), (MeshDim::Model, &self.model)]
    }

    /// Whether there is no other process.
    pub fn are_alone(&self) -> bool {
        self.named().iter().all(|(_, axis)| axis.is_alone())
    }

    /// The first failure of an operation: see [`Axis::lost`].
    pub fn lost(&self) -> Option<C10dError> {
        self.data.lost().or_else(|| self.model.lost())
    }

    /// Returns the bytes that this process has sent along both: see [`Axis::sent`].
    pub fn sent(&self) -> u64 {
        self.data.sent() + self.model.sent()
    }

    /// Replaces a contiguous tensor by its sum over all processes.
    pub fn sum_in_place(&self, tensor: &Tensor) {
        self.named().iter().for_each(|(_, axis)| axis.sum_in_place(tensor));
    }

    /// Replaces a contiguous tensor by its greatest elements over all processes.
    pub fn max_in_place(&self, tensor: &Tensor) {
        self.named().iter().for_each(|(_, axis)| axis.max_in_place(tensor));
    }
}

/// Number of bytes of a tensor.
pub(super) fn bytes(tensor: &Tensor) -> u64 {
    (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64
}
