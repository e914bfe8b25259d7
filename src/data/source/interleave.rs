//! Reads many files in turn, epoch after epoch.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::bad::BadRecordGuard;
use super::counts::is_blank;
use super::deal::Deal;
use super::file::SourceFile;
use super::read::{Body, Record, RecordPosition, RecordReader, lost_behind, open_records};
use super::reader_position::{OpenPlace, ReaderPosition, STAGE};
use crate::error::DataError;
use crate::pipeline::StageState;
use crate::random::StageSeed;

/// The files to read, and the number of passes.
#[derive(Clone)]
pub(crate) struct ReadPlan {
    pub task: String,
    pub split: String,
    pub files: Arc<[Arc<SourceFile>]>,
    /// Records of an epoch, over all shards; all if None.
    pub most: Option<u64>,
    pub cycle_length: usize,
    pub block_length: usize,
    pub skip_header_lines: u64,
    /// Shuffles the files differently in each epoch.
    pub shuffle: Option<StageSeed>,
    /// `None` repeats forever.
    pub num_epochs: Option<u64>,
    /// The part that this shard reads.
    pub deal: Deal,
    /// Counts the examples that come out of the task's pipeline.
    pub produced: Arc<AtomicU64>,
    /// Handles records that cannot be read.
    pub bad_records: BadRecordGuard,
}

impl ReadPlan {
    /// The error of data without examples.
    pub(super) fn empty(&self, detail: &str) -> DataError {
        let (task, split) = (self.task.clone(), self.split.clone());
        DataError::Empty { task, split, detail: detail.to_string() }
    }
}

/// Reads records as `tf.data`'s interleave orders them: `cycle_length` files are open, and each
/// yields `block_length` lines before the next file's turn.
pub(super) struct Interleave {
    plan: ReadPlan,
    epoch: u64,
    /// Number of consecutive epochs without a record.
    empty_epochs: u64,
    /// The numbers of this epoch's files, in its order.
    order: Vec<usize>,
    /// Files of `order` that were opened.
    opened: usize,
    slots: Vec<Option<OpenFile>>,
    slot: usize,
    /// Lines of the current block taken.
    in_block: usize,
    /// Records of this epoch that were read.
    in_epoch: u64,
}

struct OpenFile {
    file: usize,
    records: Box<dyn RecordReader>,
}

impl Interleave {
    /// A reader at the beginning of the first epoch. It reads all records of the group's files.
    pub(super) fn new(plan: ReadPlan) -> Self {
        let most_files = plan.deal.most_files(plan.files.len());
        let slots = (0..plan.cycle_length.min(most_files).max(1)).map(|_| None).collect();
        let mut reader = Self {
            plan,
            epoch: 0,
            empty_epochs: 0,
            order: Vec::new(),
            opened: 0,
            slots,
            slot: 0,
            in_block: 0,
            in_epoch: 0,
        };
        reader.order = reader.order_of(0);
        reader
    }

    /// The current place.
    pub(super) fn place(&self) -> ReaderPosition {
        let open_place =
            |open: &OpenFile| OpenPlace { file: open.file, position: open.records.position() };
        let Self { epoch, in_epoch, opened, slot, in_block, .. } = *self;
        let slots = self.slots.iter().map(|slot| slot.as_ref().map(open_place)).collect();
        ReaderPosition { epoch, in_epoch, opened, slot, in_block, slots }
    }

    /// Restores a place that a stage saved.
    pub(super) fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let place = ReaderPosition::of_state(state)?;
        match place.slots.len() == self.slots.len() {
            true => self.go_to(&place),
            false => Err(state.unexpected(STAGE)),
        }
    }

    /// Restores a place in the same files.
    pub(super) fn go_to(&mut self, place: &ReaderPosition) -> Result<(), DataError> {
        self.epoch = place.epoch;
        self.order = self.order_of(self.epoch);
        (self.opened, self.slot) = (place.opened, place.slot);
        (self.in_block, self.in_epoch) = (place.in_block, place.in_epoch);
        for (i, slot) in place.slots.iter().enumerate() {
            self.slots[i] = match slot {
                None => None,
                Some(open) if open.file >= self.plan.files.len() => {
                    return Err(DataError::State { reason: "there are fewer files".to_string() });
                }
                Some(open) => Some(self.open(open.file, open.position)?),
            };
        }
        Ok(())
    }

    /// Number of epochs that ended.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Records of this epoch that were read.
    pub(super) fn in_epoch(&self) -> u64 {
        self.in_epoch
    }

    /// The shard that owns the last record read, as an index among those that share the files.
    pub(super) fn owner(&self) -> usize {
        self.plan.deal.owner(self.epoch, self.in_epoch - 1)
    }

    /// The next record of this epoch; `None` at its end.
    pub(super) fn read(&mut self) -> Result<Option<Record>, DataError> {
        let record = self.next_in_epoch()?;
        self.in_epoch += u64::from(record.is_some());
        Ok(record)
    }

    /// Begins the next epoch.
    pub(super) fn start_next_epoch(&mut self) -> Result<(), DataError> {
        self.empty_epochs = if self.in_epoch == 0 { self.empty_epochs + 1 } else { 0 };
        if self.empty_epochs == self.plan.deal.num_groups() as u64 {
            return Err(self.plan.empty(": its files are empty"));
        }
        self.epoch += 1;
        self.order = self.order_of(self.epoch);
        (self.opened, self.slot, self.in_block, self.in_epoch) = (0, 0, 0, 0);
        self.slots.iter_mut().for_each(|slot| *slot = None);
        Ok(())
    }

    /// The order of files in an epoch.
    fn order_of(&self, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = self.plan.deal.files(self.plan.files.len(), epoch).collect();
        if let Some(seed) = &self.plan.shuffle {
            seed.draw(epoch).shuffle(&mut order);
        }
        order
    }

    fn advance(&mut self) {
        self.slot = (self.slot + 1) % self.slots.len();
        self.in_block = 0;
    }

    fn next_in_epoch(&mut self) -> Result<Option<Record>, DataError> {
        if self.plan.most.is_some_and(|most| self.in_epoch >= most) {
            return Ok(None);
        }
        loop {
            if let Some(open) = &mut self.slots[self.slot] {
                let offset = open.records.position().bytes;
                match open.records.next_record() {
                    // If the number of examples is limited, blank lines do not count.
                    Ok(Some(Body::Bytes(line)))
                        if self.plan.most.is_some()
                            && is_blank(&line, &self.plan.files[open.file].format) => {}
                    Ok(Some(body)) => {
                        let file = self.plan.files[open.file].clone();
                        let number = open.records.position().records;
                        self.in_block += 1;
                        if self.in_block == self.plan.block_length {
                            self.advance();
                        }
                        return Ok(Some(Record { file, number, offset, body }));
                    }
                    Ok(None) => self.leave_file(),
                    Err(error) => self.pass_bad_record(error, offset)?,
                }
            } else if self.opened < self.order.len() {
                let file = self.order[self.opened];
                self.slots[self.slot] = Some(self.open(file, RecordPosition::default())?);
                self.opened += 1;
            } else if self.slots.iter().all(Option::is_none) {
                return Ok(None);
            } else {
                self.advance();
            }
        }
    }

    fn leave_file(&mut self) {
        self.slots[self.slot] = None;
        self.advance();
    }

    /// Skips a record that cannot be read, or the rest of a file that breaks off; returns errors of
    /// other kinds and errors that may not be skipped. Only one record is skipped, never the
    /// records after it.
    fn pass_bad_record(&mut self, error: DataError, offset: u64) -> Result<(), DataError> {
        let Some(open) = &self.slots[self.slot] else { return Err(error) };
        let (file, recovers) = (&self.plan.files[open.file], open.records.recovers());
        if !recovers && !open.records.breaks_off() && self.plan.bad_records.may_skip(&error) {
            let rest = lost_behind(file, offset);
            return Err(DataError::RestOfFile { error: Box::new(error), rest });
        }
        let number = open.records.position().records + u64::from(!recovers);
        self.plan.bad_records.skip(error, file.path.as_str(), number)?;
        if !recovers {
            self.leave_file();
        }
        Ok(())
    }

    fn open(&self, file: usize, position: RecordPosition) -> Result<OpenFile, DataError> {
        let mut records = open_records(&self.plan.files[file], position)?;
        let skipped = self.plan.skip_header_lines;
        while records.position().records < skipped && records.next_record()?.is_some() {}
        Ok(OpenFile { file, records })
    }
}
