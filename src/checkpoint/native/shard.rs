//! Arrays that are divided among processes.

use crate::array::{ArrayView, num_elements};

/// The part of an array that a process holds. Parts lie side by side, like XLA's shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard<'a> {
    /// The dimensions of the whole array.
    pub shape: Vec<usize>,
    /// The dimensions of its parts; those at the end of the array may be smaller, or empty.
    pub part: Vec<usize>,
    /// Start of this part in each dimension, a multiple of the size of parts in that dimension.
    pub start: Vec<usize>,
    /// The processes that hold this same part, ascending, including this process. One of them
    /// writes the part.
    pub holders: Vec<usize>,
    /// This part. A process that does not write it may leave its elements out: see
    /// [`writes`](super::writes).
    pub array: ArrayView<'a>,
}

impl<'a> Shard<'a> {
    /// A shard that consists of the whole array, held by these processes.
    pub fn whole(array: ArrayView<'a>, holders: Vec<usize>) -> Self {
        let (shape, start) = (array.shape.to_vec(), vec![0; array.shape.len()]);
        Self { part: shape.clone(), shape, start, holders, array }
    }

    /// Number of bytes of this part, whether they are here or not.
    pub(super) fn num_bytes(&self) -> usize {
        num_elements(self.array.shape) * self.array.dtype.size()
    }

    /// Whether all parts of the array have the same shape.
    pub(super) fn is_even(&self) -> bool {
        let mut extents = self.shape.iter().zip(&self.part);
        extents.all(|(whole, part)| whole.is_multiple_of((*part).max(1)))
    }

    /// Whether the shard is the whole array.
    pub(super) fn is_whole(&self) -> bool {
        self.shape == self.array.shape
    }

    /// Checks that the shard can be one of several of its shape, and that this process holds it.
    pub(super) fn check(&self, name: &str, rank: usize) {
        let Self { shape, part, start, holders, array } = self;
        let ascend = holders.is_sorted_by(|one, next| one < next);
        assert!(
            ascend && holders.contains(&rank),
            "the holders {holders:?} of `{name}` ascend, and process {rank} is one of them"
        );
        let own = array.shape;
        let dimensions = [part.len(), start.len(), own.len()];
        assert_eq!(dimensions, [shape.len(); 3], "dimensions of `{name}`");
        let lies_in_grid = (0..shape.len()).all(|at| {
            // A process without elements is at the end.
            let is_end = start[at] == shape[at];
            let is_start = start[at] < shape[at] && start[at].is_multiple_of(part[at].max(1));
            (is_end || is_start) && own[at] == part[at].min(shape[at] - start[at])
        });
        assert!(
            lies_in_grid,
            "`{name}` {shape:?} in parts of {part:?} has no part {own:?} at {start:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(start: usize, own: usize) -> bool {
        let array = ArrayView { dtype: crate::DType::U8, shape: &[own], data: &[] };
        let (shape, part, start) = (vec![10], vec![3], vec![start]);
        let shard = Shard { shape, part, start, ..Shard::whole(array, vec![0]) };
        std::panic::catch_unwind(|| shard.check("a", 0)).is_ok()
    }

    #[test]
    fn the_last_part_may_be_smaller_and_others_may_not() {
        assert!(check(0, 3) && check(6, 3) && check(9, 1) && check(10, 0));
        assert!(!check(2, 3) && !check(3, 2) && !check(9, 3) && !check(12, 0));
    }

    #[test]
    fn holders_out_of_order_and_without_this_process_are_refused() {
        let array = ArrayView { dtype: crate::DType::U8, shape: &[3], data: &[0; 3] };
        let check = |holders: &[usize]| {
            let shard = Shard::whole(array, holders.to_vec());
            std::panic::catch_unwind(|| shard.check("a", 1)).is_ok()
        };
        assert!(check(&[1]) && check(&[0, 1, 3]));
        assert!(!check(&[0, 2]) && !check(&[1, 0]) && !check(&[0, 1, 1]) && !check(&[]));
    }
}
