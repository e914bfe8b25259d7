//! The division of a model's parameters over processes, and what a forward pass exchanges because of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tch::Tensor;

use super::axis::{Axes, Axis};
use super::portion::Portion;
use super::shard::{MeshDim, Shard};

/// The division of a model's parameters; by default each is whole.
#[derive(Clone, Debug, Default)]
pub struct Division {
    /// The processes.
    pub axes: Axes,
    /// Whether the processes along the model axis divide the residual stream along its length.
    pub splits_length: bool,
    /// The part of each parameter by name.
    pub shards: BTreeMap<String, Shard>,
    /// The result of [`Division::gathered`], which each pass through a layer asks for.
    gathered: OnceLock<Arc<Self>>,
}

impl Division {
    /// Creates a division over these processes.
    pub fn new(axes: Axes, splits_length: bool, shards: BTreeMap<String, Shard>) -> Self {
        Self { axes, splits_length, shards, gathered: OnceLock::new() }
    }

    /// The same division after parameters were gathered along the data axis, as far as they do not stay.
    pub fn gathered(&self) -> &Arc<Self> {
        self.gathered.get_or_init(|| {
            let gathered = |part: &Shard| match part.stays {
                true => part.clone(),
                false => part.clone().without(MeshDim::Data),
            };
            let shards = self.shards.iter().map(|(name, part)| (name.clone(), gathered(part)));
            Arc::new(Self::new(self.axes.clone(), self.splits_length, shards.collect()))
        })
    }

    /// Whether no axis divides any parameter.
    pub fn is_whole(&self) -> bool {
        self.shards.values().all(|shard| shard.axes.iter().all(Option::is_none))
    }

    /// The processes among which the first dimension of a parameter is divided that stays; this one alone for others.
    pub fn exchange(&self, shard: &Shard) -> Axis {
        if shard.stays { self.axes.data.clone() } else { Axis::default() }
    }

    /// The portion of a parameter, or of its gradient, that is spread over the data axis; `None` if it is whole there, or
    /// stays.
    pub fn spread(&self, name: &str, tensor: &Tensor) -> Option<Portion> {
        let shard = self.shards.get(name).filter(|_| !self.axes.data.is_alone())?;
        if shard.stays { None } else { shard.portion(tensor, MeshDim::Data) }
    }

    /// Returns the whole array of which this is a part.
    pub fn whole(&self, part: &Tensor, shard: &Shard) -> Tensor {
        self.axes.named().into_iter().fold(part.detach(), |tensor, (name, axis)| {
            match shard.portion(&tensor, name) {
                Some(portion) => axis.gather_all(&[portion]).remove(0),
                None => tensor,
            }
        })
    }

    /// Returns the stream `[batch, length, embed]` as this process keeps it between blocks.
    pub fn stream(&self, whole: Tensor) -> Tensor {
        if self.splits_length { self.axes.model.split(&whole, 1) } else { whole }
    }

    /// Returns the stream `[batch, length, embed]` for work of which each process along the model axis does a part.
    pub fn entered(&self, stream: &Tensor) -> Tensor {
        match self.splits_length {
            true => self.axes.model.gathered(
                stream,
                1,
                stream.size()[1] * self.axes.model.size() as i64,
            ),
            false => self.axes.model.shared(stream),
        }
    }

    /// Returns the sum of the results `[batch, length, embed]` of that work, as this process keeps the stream.
    pub fn left(&self, result: Tensor) -> Tensor {
        match self.splits_length {
            true => self.axes.model.scattered(&result, 1),
            false => self.axes.model.summed(result),
        }
    }

    /// Returns a whole parameter for work on the stream between blocks.
    pub fn of_stream(&self, parameter: Tensor) -> Tensor {
        if self.splits_length { self.axes.model.shared(&parameter) } else { parameter }
    }
}

impl Shard {
    /// A tensor of which an axis of the mesh divides a dimension; `None` if it divides none.
    pub fn portion(&self, tensor: &Tensor, axis: MeshDim) -> Option<Portion> {
        let dim = self.dim(axis)?;
        let extent = self.whole[dim] as i64;
        Some(Portion { tensor: tensor.shallow_clone(), dim, extent })
    }

    /// The part of a whole array, as a view.
    pub fn of(&self, whole: &Tensor) -> Tensor {
        let narrowed = |part: Tensor, (dim, range): (usize, &Range<usize>)| {
            part.narrow(dim as i64, range.start as i64, range.len() as i64)
        };
        self.ranges.iter().enumerate().fold(whole.shallow_clone(), narrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn a_part_is_a_view_of_its_ranges() {
        let whole = Tensor::arange(24, (Kind::Int64, Device::Cpu)).view([4, 6]);
        let rows = Shard::whole(&[4, 6]).divided(0, MeshDim::Data, (0, 2));
        let part = rows.divided(1, MeshDim::Model, (1, 2));
        assert_eq!(part.of(&whole), Tensor::from_slice2(&[[3i64, 4, 5], [9, 10, 11]]));
        assert_eq!(Shard::whole(&[4, 6]).of(&whole), whole);
    }
}
