//! Parameters of which each process updates a part: sums over a whole parameter are sums over processes.

use tch::{Kind, Tensor};

use crate::nn::{Axes, Axis, MeshDim, Portion, Shard};

/// The part of a parameter that this process updates.
#[derive(Clone, Debug)]
pub struct OwnPart {
    shard: Shard,
    /// The dimension that is divided over the data axis although each process there holds all of the parameter.
    spread: Option<usize>,
    /// The processes that update other parts of parameters. An axis along which all update the same is left out.
    peers: Axes,
}

impl OwnPart {
    /// The part `updated` of a parameter of which the part `held` is here.
    pub fn new(updated: Shard, held: &Shard, peers: &Axes) -> Self {
        let spread = updated.dim(MeshDim::Data).filter(|_| held.dim(MeshDim::Data).is_none());
        Self { shard: updated, spread, peers: peers.clone() }
    }

    /// All of a parameter.
    pub fn whole(shape: &[usize]) -> Self {
        Self { shard: Shard::whole(shape), spread: None, peers: Axes::default() }
    }

    /// The ranges in the whole parameter.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The processes with the other parts.
    pub(super) fn peers(&self) -> &Axes {
        &self.peers
    }

    /// This process's share of a sum over the part: what the peers with the same part add up to.
    pub(super) fn shared(&self, sum: Tensor) -> Tensor {
        let copies = self.copies();
        if copies == 1.0 { sum } else { sum / copies }
    }

    /// The number of processes among the peers that update the same part.
    fn copies(&self) -> f64 {
        let alike =
            self.peers.named().into_iter().filter(|(name, _)| self.shard.dim(*name).is_none());
        alike.map(|(_, axis)| axis.size() as f64).product()
    }

    /// Whether no other process has another part of it.
    pub fn is_whole(&self) -> bool {
        self.dividing(&self.all_dims()).next().is_none()
    }

    /// Number of elements of the whole parameter along some dimensions.
    pub fn extent(&self, dims: &[usize]) -> f64 {
        dims.iter().map(|&dim| self.shard.whole[dim] as f64).product()
    }

    /// Number of elements of the whole parameter.
    pub fn numel(&self) -> f64 {
        self.extent(&self.all_dims())
    }

    /// Returns the sum over the whole parameter of a sum over this part along some dimensions.
    pub fn sum(&self, own: Tensor, dims: &[usize]) -> Tensor {
        let mut axes = self.dividing(dims).peekable();
        if axes.peek().is_none() {
            return own;
        }
        let sum = own.contiguous();
        axes.for_each(|axis| axis.sum_in_place(&sum));
        sum
    }

    fn dividing<'a>(&'a self, dims: &'a [usize]) -> impl Iterator<Item = &'a Axis> {
        let divides = |name: MeshDim| self.shard.dim(name).is_some_and(|dim| dims.contains(&dim));
        let axes = self.peers.named().into_iter();
        axes.filter(move |(name, axis)| divides(*name) && !axis.is_alone()).map(|(_, axis)| axis)
    }

    fn all_dims(&self) -> Vec<usize> {
        (0..self.shard.whole.len()).collect()
    }

    /// The portion of a tensor of the parameter's shape that is spread; `None` if this process updates all that it
    /// holds.
    pub(super) fn portion(&self, tensor: &Tensor) -> Option<Portion> {
        let dim = self.spread?;
        let extent = self.shard.whole[dim] as i64;
        Some(Portion { tensor: tensor.shallow_clone(), dim, extent })
    }

    /// Returns the part of the parameter to update, contiguous; the parameter itself if it is all.
    pub(super) fn of(&self, param: &Tensor) -> Tensor {
        let Some(dim) = self.spread else { return param.shallow_clone() };
        let range = &self.shard.ranges[dim];
        param.detach().narrow(dim as i64, range.start as i64, range.len() as i64).contiguous()
    }

    /// Whether gradients come summed over the data axis from the backward pass: the parameter itself is spread.
    pub(super) fn is_summed(&self) -> bool {
        self.spread.is_none() && self.shard.dim(MeshDim::Data).is_some()
    }

    /// Returns the root of the mean square of the whole parameter's elements along `dims`, which stay with size 1.
    pub fn root_mean_square(&self, own: &Tensor, dims: &[usize]) -> Tensor {
        let root = super::norms::root_mean_square(own, dims);
        if self.dividing(dims).next().is_none() {
            return root;
        }
        let count: i64 = dims.iter().map(|&dim| own.size()[dim]).product();
        (self.sum(root.square() * count as f64, dims) / self.extent(dims)).sqrt()
    }

    /// Returns the root of the sum of squares of the whole parameter's elements, a scalar.
    pub fn norm(&self, own: &Tensor) -> Tensor {
        let square = super::norms::norm(own).square();
        self.sum(square, &self.all_dims()).sqrt().to_kind(Kind::Float)
    }
}
