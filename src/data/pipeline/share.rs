//! The records of a split of which one of several processes makes examples. Each process reads all records, which is cheap,
//! and parses and maps its own.

use std::sync::Arc;

use super::map::MapItems;
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;

/// Records that go to one process at once: many times what a thread gets.
const BLOCK: u64 = 4096;
/// The name under which the number of its block travels with an example.
const BLOCK_NUMBER: &str = "\0block";

/// The share of one of several processes: blocks of records go to them in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordShare {
    /// This process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub count: usize,
    /// The process that gets the first block.
    pub first: usize,
}

impl RecordShare {
    /// The process that makes the examples of a block.
    pub fn owner(&self, block: u64) -> usize {
        ((block + self.first as u64) % self.count as u64) as usize
    }

    /// Whether this process makes the examples of a block.
    pub fn owns(&self, block: u64) -> bool {
        self.owner(block) == self.rank
    }
}

/// Takes the number of its block out of an example.
pub(crate) fn take_block(example: &mut Example) -> u64 {
    match example.take(BLOCK_NUMBER) {
        Some(Value::Int(block)) => block as u64,
        _ => 0,
    }
}

/// Maps of the items of a share; others are dropped.
pub(super) struct ShareOf<In> {
    pub share: RecordShare,
    pub maps: Arc<dyn MapItems<In>>,
}

impl<In> MapItems<In> for ShareOf<In> {
    fn apply(&self, item: In, counter: u64) -> Result<Option<Example>, DataError> {
        let block = counter / BLOCK;
        if !self.share.owns(block) {
            return Ok(None);
        }
        let mapped = self.maps.apply(item, counter)?;
        Ok(mapped.map(|mut example| {
            example.set(BLOCK_NUMBER.into(), Value::Int(block as i64));
            example
        }))
    }
}
