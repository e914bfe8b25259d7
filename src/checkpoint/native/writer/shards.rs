//! Divides the writing of arrays among processes that hold their parts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Writer;
use crate::error::CheckpointError;
use crate::native::shard::Shard;
use crate::parallel;

impl Writer {
    /// Writes arrays like [`Writer::array`], several at a time and the largest first. If several processes
    /// save, each passes all arrays of the checkpoint in one call, with its own parts, and writes its share of
    /// the parts; chunks are no larger than the parts, as in T5X. Arrays in the file `checkpoint` must be
    /// whole in process 0. A thread needs a few hundred KiB beside the arrays themselves.
    ///
    /// # Errors
    /// The first error; arrays that have not been started by then are not written.
    pub fn shards(&self, shards: &[(&str, Shard<'_>)]) -> Result<(), CheckpointError> {
        let rank = self.rank();
        let mut order: Vec<&(&str, Shard<'_>)> = shards.iter().collect();
        order.sort_by_key(|(name, shard)| (Reverse(shard.array.data.len()), *name));
        let writers =
            writers(order.iter().map(|(_, shard)| (&shard.holders[..], shard.array.data.len())));
        let num_threads = parallel::num_threads(self.path());
        parallel::for_each(
            num_threads,
            order.into_iter().zip(writers),
            |((name, shard), writer)| {
                self.shard(name, shard, writer == rank)?;
                self.count(shard.array.data.len());
                Ok(())
            },
        )
    }
}

/// Chooses the holder that writes each part: the one with the fewest bytes so far among parts with
/// the same holders. Each holder computes the same result without communication.
fn writers<'a>(parts: impl Iterator<Item = (&'a [usize], usize)>) -> Vec<usize> {
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
        let found = |parts: &[(&'static [usize], usize)]| writers(parts.iter().copied());
        assert_eq!(found(&[(&[0, 1], 9), (&[0, 1], 5), (&[0, 1], 4), (&[0, 1], 3)]), [0, 1, 1, 0]);
        assert_eq!(found(&[(&[0, 2], 9), (&[2], 5), (&[0, 2], 4)]), [0, 2, 2]);
        // A process that holds no part of the first kind computes the same result for the second
        // kind.
        assert_eq!(found(&[(&[1, 3], 9), (&[1, 3], 9)]), [1, 3]);
    }
}
