//! The position of a reader of many files, and its form in the state of a pipeline.

use super::read::{FrameStart, RecordPosition};
use crate::error::DataError;
use crate::pipeline::{Counters, StageState};

/// The name of the reader in the state of a pipeline.
pub(super) const STAGE: &str = "interleave";

/// The position of a reader: after a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReaderPosition {
    pub epoch: u64,
    /// Number of records of this epoch before the position, over all shards that share the files.
    pub in_epoch: u64,
    /// Files of the epoch's order that were opened.
    pub opened: usize,
    pub slot: usize,
    /// Lines of the current block taken.
    pub in_block: usize,
    pub slots: Vec<Option<OpenPlace>>,
}

/// The position of an open file's reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OpenPlace {
    pub file: usize,
    pub position: RecordPosition,
}

impl ReaderPosition {
    /// Whether the place is after another.
    pub(super) fn is_behind(&self, other: &Self) -> bool {
        (self.epoch, self.in_epoch) > (other.epoch, other.in_epoch)
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.slots[..])
    }

    /// The files that are open, with their positions.
    pub(super) fn open(&self) -> impl Iterator<Item = OpenPlace> {
        self.slots.iter().copied().flatten()
    }

    /// Converts the place to a stage's state.
    pub(super) fn to_state(&self) -> StageState {
        let frame = |slot: &Option<OpenPlace>| {
            slot.map_or_else(Default::default, |open| open.position.frame)
        };
        let mut frames: Vec<_> = self.slots.iter().map(frame).collect();
        if frames.iter().all(|frame| *frame == FrameStart::default()) {
            frames.clear();
        }
        StageState { frames, ..StageState::new::<StageState>(STAGE, self, []) }
    }

    /// The place in a stage's state.
    pub(super) fn of_state(state: &StageState) -> Result<Self, DataError> {
        let mut place: Self = state.read(STAGE, 0)?;
        for (slot, frame) in place.slots.iter_mut().zip(&state.frames) {
            if let Some(open) = slot {
                open.position.frame = *frame;
            }
        }
        Ok(place)
    }
}

/// The numbers without the frames, of which only compressed files have any.
impl Counters for ReaderPosition {
    fn list(&self) -> Vec<u64> {
        let Self { epoch, in_epoch, opened, slot, in_block, .. } = *self;
        let mut list = vec![epoch, opened as u64, slot as u64, in_block as u64, in_epoch];
        for slot in &self.slots {
            // Files count from 1, so 0 is an empty slot.
            let (file, RecordPosition { records, bytes, within, .. }) =
                slot.map_or_else(Default::default, |open| (open.file + 1, open.position));
            list.extend([file as u64, records, bytes, within]);
        }
        list
    }

    fn of_list(list: &[u64]) -> Option<Self> {
        let &[epoch, opened, slot, in_block, in_epoch, ref slots @ ..] = list else { return None };
        let (opened, slot, in_block) = (opened as usize, slot as usize, in_block as usize);
        let (slots, rest) = slots.as_chunks();
        let slots = slots.iter().map(|&[file, records, bytes, within]| {
            let position = RecordPosition { records, bytes, within, ..RecordPosition::default() };
            (file > 0).then(|| OpenPlace { file: file as usize - 1, position })
        });
        let slots = slots.collect();
        rest.is_empty().then_some(Self { epoch, in_epoch, opened, slot, in_block, slots })
    }
}
