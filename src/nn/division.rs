//! The division of a model's parameters over processes, and what a forward pass exchanges because of it.

use std::collections::BTreeMap;
use std::ops::Range;

use tch::Tensor;

use super::axis::{Axis, Portion};
use super::shard::{MeshDim, Shard};

/// The division of a model's parameters; by default each is whole.
#[derive(Clone, Debug, Default)]
pub struct Division {
    /// The processes that divide heads, feed-forward blocks and the vocabulary.
    pub model: Axis,
    /// The processes that divide batches, and parameters too if those are spread over them.
    pub data: Axis,
    /// Whether the processes along the model axis divide the residual stream along its length.
    pub splits_length: bool,
    /// The part of each parameter by name.
    pub shards: BTreeMap<String, Shard>,
}

impl Division {
    /// Returns the same division, but for parameters that are whole along the data axis.
    pub fn along_model(&self) -> Self {
        let shards = self.shards.iter();
        let shards = shards.map(|(name, part)| (name.clone(), part.clone().without(MeshDim::Data)));
        Self { data: Axis::default(), shards: shards.collect(), ..self.clone() }
    }

    /// The processes along an axis.
    pub fn axis(&self, axis: MeshDim) -> &Axis {
        match axis {
            MeshDim::Data => &self.data,
            MeshDim::Model => &self.model,
        }
    }

    /// The portion of a parameter, or of its gradient, along an axis; `None` if it is whole there.
    pub fn portion(&self, name: &str, tensor: &Tensor, axis: MeshDim) -> Option<Portion> {
        let shard = self.shards.get(name).filter(|_| !self.axis(axis).is_alone())?;
        let dim = shard.dim(axis)?;
        Some(Portion { tensor: tensor.shallow_clone(), dim, extent: shard.whole[dim] as i64 })
    }

    /// Returns the whole array of which this is a part.
    pub fn whole(&self, part: &Tensor, shard: &Shard) -> Tensor {
        [MeshDim::Data, MeshDim::Model].into_iter().fold(part.detach(), |tensor, name| {
            let Some(dim) = shard.dim(name) else { return tensor };
            let extent = shard.whole[dim] as i64;
            self.axis(name).gather_all(&[Portion { tensor, dim, extent }]).remove(0)
        })
    }

    /// Returns the stream `[batch, length, embed]` as this process keeps it between blocks.
    pub fn stream(&self, whole: Tensor) -> Tensor {
        if self.splits_length { self.model.split(&whole, 1) } else { whole }
    }

    /// Returns the stream `[batch, length, embed]` for work of which each process along the model axis does a part.
    pub fn entered(&self, stream: &Tensor) -> Tensor {
        match self.splits_length {
            true => self.model.gathered(stream, 1, stream.size()[1] * self.model.size() as i64),
            false => self.model.shared(stream),
        }
    }

    /// Returns the sum of the results `[batch, length, embed]` of that work, as this process keeps the stream.
    pub fn left(&self, result: Tensor) -> Tensor {
        match self.splits_length {
            true => self.model.scattered(&result, 1),
            false => self.model.summed(result),
        }
    }

    /// Returns a whole parameter for work on the stream between blocks.
    pub fn of_stream(&self, parameter: Tensor) -> Tensor {
        if self.splits_length { self.model.shared(&parameter) } else { parameter }
    }
}

impl Shard {
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
