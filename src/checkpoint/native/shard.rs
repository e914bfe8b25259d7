//! Arrays that are divided among processes.

use crate::array::ArrayView;

/// The part of an array that a process holds. All parts of an array have the same shape and lie
/// side by side, like XLA's shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard<'a> {
    /// The dimensions of the whole array, multiples of the part's dimensions.
    pub shape: Vec<usize>,
    /// Start of the part in each dimension, a multiple of the part's size in that dimension.
    pub start: Vec<usize>,
    /// The processes that hold this same part, ascending, including this process. One of them
    /// writes the part.
    pub holders: Vec<usize>,
    /// The part.
    pub array: ArrayView<'a>,
}

impl<'a> Shard<'a> {
    /// A shard that consists of the whole array, held by these processes.
    pub fn whole(array: ArrayView<'a>, holders: Vec<usize>) -> Self {
        let (shape, start) = (array.shape.to_vec(), vec![0; array.shape.len()]);
        Self { shape, start, holders, array }
    }

    /// Whether the shard is the whole array.
    pub(super) fn is_whole(&self) -> bool {
        self.shape == self.array.shape
    }

    /// Checks that the shard can be one of several of its shape, and that this process holds it.
    pub(super) fn check(&self, name: &str, rank: usize) {
        let Self { shape, start, holders, array } = self;
        let ascend = holders.is_sorted_by(|one, next| one < next);
        assert!(
            ascend && holders.contains(&rank),
            "the holders {holders:?} of `{name}` ascend, and process {rank} is one of them"
        );
        let part = array.shape;
        assert_eq!((part.len(), start.len()), (shape.len(), shape.len()), "dimensions of `{name}`");
        let fits = |((whole, part), start): ((&usize, &usize), &usize)| {
            whole.is_multiple_of((*part).max(1))
                && start.is_multiple_of((*part).max(1))
                && start + part <= *whole
        };
        let lies_in_grid = shape.iter().zip(part).zip(start).all(fits);
        assert!(lies_in_grid, "`{name}` {shape:?} has no part {part:?} at {start:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "`a` [10] has no part [3] at [3]")]
    fn parts_that_do_not_divide_an_array_are_refused() {
        let array = ArrayView { dtype: crate::DType::U8, shape: &[3], data: &[0; 3] };
        Shard { shape: vec![10], start: vec![3], ..Shard::whole(array, vec![0]) }.check("a", 0);
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
