//! Divides the writing of arrays among processes that hold their parts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Writer;
use crate::array::num_elements;
use crate::error::CheckpointError;
use crate::native::shard::Shard;
use crate::native::written_format::T5X;
use crate::parallel;

impl Writer {
    /// Writes arrays like [`Writer::array`], several at a time and the largest first. If several processes
    /// save, each passes all arrays of the checkpoint in one call, with its own parts, and writes its share of
    /// the parts ([`writes`]); chunks are no larger than the parts, as in T5X. Arrays in the file `checkpoint`
    /// must be whole in process 0. A thread needs a few hundred KiB beside the arrays themselves.
    ///
    /// # Errors
    /// The first error; arrays that have not been started by then are not written.
    pub fn shards(&self, shards: &[(&str, Shard<'_>)]) -> Result<(), CheckpointError> {
        let rank = self.rank();
        let num_threads = parallel::num_threads(self.path());
        let order = in_order(shards).into_iter().map(|at| &shards[at]);
        let assigned = order.zip(writers(shards));
        parallel::for_each(num_threads, assigned, |((name, shard), writer)| {
            self.shard(name, shard, writer == rank)?;
            self.count(shard.array.data.len());
            Ok(())
        })
    }
}

/// Whether process `rank` needs the elements of each part, to write it into a folder of its own or into the file
/// `checkpoint` of T5X's format.
pub fn writes(rank: usize, shards: &[(&str, Shard<'_>)]) -> Vec<bool> {
    let mut writes = vec![false; shards.len()];
    for (at, writer) in in_order(shards).into_iter().zip(writers(shards)) {
        let (name, shard) = &shards[at];
        writes[at] = rank == if lies_in_tree(name, &shard.shape) { 0 } else { writer };
    }
    writes
}

/// Whether T5X's format has the array in the file `checkpoint`, where it cannot have parts.
pub fn lies_in_tree(name: &str, shape: &[usize]) -> bool {
    (T5X.is_inline)(name, shape)
}

/// Returns the indices of the parts, the largest first.
fn in_order(shards: &[(&str, Shard<'_>)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..shards.len()).collect();
    // By the first part, which is as large in every process.
    let bytes = |shard: &Shard<'_>| num_elements(&shard.part) * shard.array.dtype.size();
    order.sort_by_key(|&at| (Reverse(bytes(&shards[at].1)), shards[at].0));
    order
}

/// Chooses the holder that writes each part, in their order.
fn writers(shards: &[(&str, Shard<'_>)]) -> Vec<usize> {
    let shards = in_order(shards).into_iter().map(|at| &shards[at].1);
    assigned(shards.map(|shard| (&shard.holders[..], shard.num_bytes())))
}

/// Chooses the holder that writes each part: the one with the fewest bytes so far among parts with
/// the same holders. Each holder computes the same result without communication.
fn assigned<'a>(parts: impl Iterator<Item = (&'a [usize], usize)>) -> Vec<usize> {
    let mut loads: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
    let writer = |(holders, bytes): (&'a [usize], usize)| {
        let loads = loads.entry(holders).or_insert_with(|| vec![0; holders.len()]);
        let at = (0..loads.len()).min_by_key(|at| loads[*at]).expect("a part has a holder");
        loads[at] += bytes;
        holders[at]
    };
    parts.map(writer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_hold_is_spread_over_them_by_size() {
        let found = |parts: &[(&'static [usize], usize)]| assigned(parts.iter().copied());
        assert_eq!(found(&[(&[0, 1], 9), (&[0, 1], 5), (&[0, 1], 4), (&[0, 1], 3)]), [0, 1, 1, 0]);
        assert_eq!(found(&[(&[0, 2], 9), (&[2], 5), (&[0, 2], 4)]), [0, 2, 2]);
        // A process that holds no part of the first kind computes the same result for the second
        // kind.
        assert_eq!(found(&[(&[1, 3], 9), (&[1, 3], 9)]), [1, 3]);
    }
}
