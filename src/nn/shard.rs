//! The part of an array on one process of a mesh.

use std::ops::Range;

/// An axis of the mesh of processes. Source: T5X `partitioning.py`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeshDim {
    /// Divides batches, and parameters that are spread over it too.
    Data,
    /// Divides heads, feed-forward blocks and the vocabulary.
    Model,
}

/// The part of an array on one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Extents of the whole array.
    pub whole: Vec<usize>,
    /// The part along each dimension.
    pub ranges: Vec<Range<usize>>,
    /// The axis of the mesh that divides each dimension.
    pub axes: Vec<Option<MeshDim>>,
    /// Number of parts along each dimension.
    pub counts: Vec<usize>,
    /// Whether a training step leaves the parts along the data axis where they are, and sends tokens to them, as to
    /// experts. Other parts along that axis are gathered while a layer computes.
    pub stays: bool,
}

impl Shard {
    /// An array that is whole on every process.
    pub fn whole(shape: &[usize]) -> Self {
        let ranges = shape.iter().map(|&extent| 0..extent).collect();
        let (axes, counts) = (vec![None; shape.len()], vec![1; shape.len()]);
        Self { whole: shape.to_vec(), ranges, axes, counts, stays: false }
    }

    /// Extents of the part.
    pub fn shape(&self) -> Vec<usize> {
        self.ranges.iter().map(ExactSizeIterator::len).collect()
    }

    /// Extents of the array's first part, than which none is larger.
    pub fn largest(&self) -> Vec<usize> {
        let extents = self.whole.iter().zip(&self.counts);
        extents.map(|(extent, count)| part_of(*extent, 0, *count).len()).collect()
    }

    /// The dimension that an axis of the mesh divides.
    pub fn dim(&self, axis: MeshDim) -> Option<usize> {
        self.axes.iter().position(|found| *found == Some(axis))
    }

    /// The same array, of which a dimension is divided: this process is number `index` of `size` along the axis.
    pub fn divided(mut self, dim: usize, axis: MeshDim, (index, size): (usize, usize)) -> Self {
        self.ranges[dim] = part_of(self.whole[dim], index, size);
        self.axes[dim] = Some(axis);
        self.counts[dim] = size;
        self
    }

    /// The same array, of which a step leaves the parts along the data axis where they are.
    pub fn staying(self) -> Self {
        Self { stays: true, ..self }
    }

    /// The same array, whole along an axis of the mesh.
    pub fn without(mut self, axis: MeshDim) -> Self {
        if let Some(dim) = self.dim(axis) {
            self.ranges[dim] = 0..self.whole[dim];
            self.axes[dim] = None;
            self.counts[dim] = 1;
        }
        self
    }

    /// The part of an array that keeps only some of the dimensions.
    pub fn of_dims(&self, dims: &[usize]) -> Self {
        Self {
            whole: dims.iter().map(|&dim| self.whole[dim]).collect(),
            ranges: dims.iter().map(|&dim| self.ranges[dim].clone()).collect(),
            axes: dims.iter().map(|&dim| self.axes[dim]).collect(),
            counts: dims.iter().map(|&dim| self.counts[dim]).collect(),
            stays: self.stays,
        }
    }

    /// The same part of an array of which dimension `dim` and the next one, which is whole, are one.
    pub fn joined(mut self, dim: usize) -> Self {
        let size = self.whole.remove(dim + 1);
        self.ranges.remove(dim + 1);
        self.axes.remove(dim + 1);
        self.counts.remove(dim + 1);
        self.whole[dim] *= size;
        let range = &mut self.ranges[dim];
        *range = range.start * size..range.end * size;
        self
    }
}

/// The part of an extent that lies on member `index` of `size`: parts are equal, but for the last.
pub fn part_of(extent: usize, index: usize, size: usize) -> Range<usize> {
    let part = extent.div_ceil(size);
    (part * index).min(extent)..(part * (index + 1)).min(extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves() -> Shard {
        Shard::whole(&[4, 6]).divided(0, MeshDim::Data, (0, 2)).divided(1, MeshDim::Model, (1, 2))
    }

    #[test]
    fn parts_cover_an_extent_once_and_the_last_may_be_smaller() {
        let parts: Vec<_> = (0..4).map(|index| part_of(10, index, 4)).collect();
        assert_eq!(parts, [0..3, 3..6, 6..9, 9..10]);
        assert_eq!(part_of(2, 3, 4), 2..2);
    }

    #[test]
    fn a_part_is_made_whole_along_one_axis() {
        let gathered = halves().without(MeshDim::Data);
        assert_eq!((gathered.shape(), gathered.dim(MeshDim::Data)), (vec![4, 3], None));
        assert_eq!(gathered.dim(MeshDim::Model), Some(1));
        assert_eq!(halves().of_dims(&[1]).shape(), [3]);
    }
}
