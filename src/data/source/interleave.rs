//! Reads many files in turn, epoch after epoch, and takes this shard's share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bad::BadRecordGuard;
use super::counts::is_blank;
use super::read::{Body, RecordPosition, RecordReader, Restart, open_records};
use super::split::SourceFile;
use crate::data::error::DataError;
use crate::data::pipeline::{Pull, StageState};
use crate::data::random::StageSeed;

/// Records read without an example coming out at the other end before the data count as empty.
const BARREN: u64 = 100_000;

/// One line or other record of a file.
pub(crate) struct Record {
    pub file: Arc<SourceFile>,
    /// From 1.
    pub number: u64,
    /// Where it begins, in uncompressed bytes.
    pub offset: u64,
    pub body: Body,
}

/// What to read, and how often.
pub(crate) struct ReadPlan {
    pub task: String,
    pub split: String,
    pub files: Vec<SourceFile>,
    /// Records of an epoch, over all shards; all if None.
    pub most: Option<u64>,
    pub cycle_length: usize,
    pub block_length: usize,
    pub skip_header_lines: u64,
    /// Shuffles the files anew in each epoch.
    pub shuffle: Option<StageSeed>,
    /// `None` repeats forever.
    pub num_epochs: Option<u64>,
    pub shard_index: usize,
    pub num_shards: usize,
    /// Counts the examples that come out of the task's pipeline.
    pub produced: Arc<AtomicU64>,
    /// What becomes of records that cannot be read.
    pub bad_records: BadRecordGuard,
}

/// Pulls records as `tf.data`'s interleave orders them: `cycle_length` files are open, and each
/// yields `block_length` lines before it is the next one's turn.
pub(crate) struct Reader {
    plan: ReadPlan,
    files: Vec<Arc<SourceFile>>,
    /// Whether a shard is every n-th example instead of every n-th file.
    shards_examples: bool,
    epoch: u64,
    /// Indices into `files` in this epoch's order.
    order: Vec<usize>,
    /// Files of `order` that were opened.
    opened: usize,
    slots: Vec<Option<OpenFile>>,
    slot: usize,
    /// Lines of the current block taken.
    in_block: usize,
    /// Records of this epoch before sharding by example.
    in_epoch: u64,
    /// Records handed on since an example was produced, and the examples produced by then.
    barren: (u64, u64),
}

struct OpenFile {
    file: usize,
    records: Box<dyn RecordReader>,
}

impl Reader {
    /// A reader at the beginning of the first epoch.
    pub(crate) fn new(mut plan: ReadPlan) -> Self {
        // As SeqIO: whole files go to shards where there are enough of them.
        // The first records of all files are those of every shard alike.
        let shards_examples = plan.files.len() < plan.num_shards || plan.most.is_some();
        let files = std::mem::take(&mut plan.files).into_iter().map(Arc::new).enumerate();
        let files: Vec<Arc<SourceFile>> = files
            .filter(|(i, _)| shards_examples || i % plan.num_shards == plan.shard_index)
            .map(|(_, file)| file)
            .collect();
        let slots = (0..plan.cycle_length.min(files.len()).max(1)).map(|_| None).collect();
        let mut reader = Self {
            plan,
            files,
            shards_examples,
            epoch: 0,
            order: Vec::new(),
            opened: 0,
            slots,
            slot: 0,
            in_block: 0,
            in_epoch: 0,
            barren: (0, 0),
        };
        reader.order = reader.order_of(0);
        reader
    }

    /// Where the reader of a single file is, by the state of the stages above it.
    pub(crate) fn file_position(state: &StageState) -> RecordPosition {
        match state.inputs.first() {
            Some(input) => Self::file_position(input),
            None => state.counters.get(6..9).map_or(RecordPosition::default(), |slot| {
                RecordPosition { records: slot[0], bytes: slot[1], within: slot[2] }
            }),
        }
    }

    /// The order of files in an epoch.
    fn order_of(&self, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        if let Some(seed) = &self.plan.shuffle {
            seed.draw(epoch).shuffle(&mut order);
        }
        order
    }

    fn advance(&mut self) {
        self.slot = (self.slot + 1) % self.slots.len();
        self.in_block = 0;
    }

    /// The next record of this epoch, of all shards by example.
    fn next_in_epoch(&mut self) -> Result<Option<Record>, DataError> {
        if self.plan.most.is_some_and(|most| self.in_epoch >= most) {
            return Ok(None);
        }
        loop {
            if let Some(open) = &mut self.slots[self.slot] {
                let offset = open.records.position().bytes;
                match open.records.next_record() {
                    // Of so many examples, a blank line is none.
                    Ok(Some(Body::Bytes(line)))
                        if self.plan.most.is_some()
                            && is_blank(&line, &self.files[open.file].format) => {}
                    Ok(Some(body)) => {
                        let file = self.files[open.file].clone();
                        let number = open.records.position().records;
                        self.in_block += 1;
                        if self.in_block == self.plan.block_length {
                            self.advance();
                        }
                        return Ok(Some(Record { file, number, offset, body }));
                    }
                    Ok(None) => self.leave_file(),
                    Err(error) => self.pass_bad_record(error)?,
                }
            } else if self.opened < self.order.len() {
                let file = self.order[self.opened];
                self.slots[self.slot] = Some(self.open(file, RecordPosition::default(), None)?);
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

    /// Goes on behind a record that cannot be read, or with the next file where that one breaks
    /// off; passes on what is no bad record or may not be skipped.
    fn pass_bad_record(&mut self, error: DataError) -> Result<(), DataError> {
        let Some(open) = &self.slots[self.slot] else { return Err(error) };
        let number = open.records.position().records + u64::from(!open.records.recovers());
        self.plan.bad_records.skip(error, self.files[open.file].path.as_str(), number)?;
        if !open.records.recovers() {
            self.leave_file();
        }
        Ok(())
    }

    fn open(
        &self,
        file: usize,
        position: RecordPosition,
        restart: Option<&Arc<Restart>>,
    ) -> Result<OpenFile, DataError> {
        let mut records = open_records(&self.files[file], position, restart)?;
        let skipped = self.plan.skip_header_lines;
        while records.position().records < skipped && records.next_record()?.is_some() {}
        Ok(OpenFile { file, records })
    }

    fn start_next_epoch(&mut self) -> Result<(), DataError> {
        if self.in_epoch == 0 {
            return Err(self.empty(": its files are empty"));
        }
        self.epoch += 1;
        self.order = self.order_of(self.epoch);
        (self.opened, self.slot, self.in_block, self.in_epoch) = (0, 0, 0, 0);
        self.slots.iter_mut().for_each(|slot| *slot = None);
        Ok(())
    }

    fn empty(&self, detail: &str) -> DataError {
        let (task, split) = (self.plan.task.clone(), self.plan.split.clone());
        DataError::Empty { task, split, detail: detail.to_string() }
    }

    /// Notices data that would be repeated forever without yielding an example.
    fn check_yield(&mut self) -> Result<(), DataError> {
        let produced = self.plan.produced.load(Ordering::Relaxed);
        if produced != self.barren.1 {
            self.barren = (0, produced);
        }
        self.barren.0 += 1;
        if self.epoch >= 2 && self.barren.0 > BARREN.max(2 * self.in_epoch) {
            return Err(self.empty(": its preprocessors drop every one"));
        }
        Ok(())
    }

    fn is_mine(&self, index: u64) -> bool {
        let num_shards = self.plan.num_shards as u64;
        !self.shards_examples || index % num_shards == self.plan.shard_index as u64
    }
}

impl Pull for Reader {
    type Item = Record;

    fn pull(&mut self) -> Result<Option<Record>, DataError> {
        loop {
            if self.plan.num_epochs.is_some_and(|epochs| self.epoch >= epochs) {
                return Ok(None);
            }
            let Some(record) = self.next_in_epoch()? else {
                if self.plan.num_epochs.is_none()
                    && self.in_epoch <= self.plan.shard_index as u64
                    && self.shards_examples
                    && self.in_epoch > 0
                {
                    return Err(self.empty(" for every shard; use fewer hosts"));
                }
                self.start_next_epoch()?;
                continue;
            };
            self.in_epoch += 1;
            if self.is_mine(self.in_epoch - 1) {
                self.check_yield()?;
                return Ok(Some(record));
            }
        }
    }

    fn save(&self) -> StageState {
        let Self { epoch, opened, slot, in_block, in_epoch, .. } = *self;
        let mut counters = vec![epoch, opened as u64, slot as u64, in_block as u64, in_epoch];
        for slot in &self.slots {
            // Files count from 1, so that 0 is an empty slot.
            let (file, RecordPosition { records, bytes, within }) =
                slot.as_ref().map_or((0, RecordPosition::default()), |open| {
                    (open.file + 1, open.records.position())
                });
            counters.extend([file as u64, records, bytes, within]);
        }
        let restart =
            |slot: &Option<OpenFile>| slot.as_ref().and_then(|open| open.records.restart());
        let restarts: Vec<_> = self.slots.iter().map(restart).collect();
        let mut state = StageState::new("read", counters, Vec::new());
        if restarts.iter().any(Option::is_some) {
            state.restarts = restarts;
        }
        state
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        state.expect("read", Some(5 + 4 * self.slots.len()), 0)?;
        let counter = |i: usize| state.counters[i];
        self.epoch = counter(0);
        self.order = self.order_of(self.epoch);
        (self.opened, self.slot) = (counter(1) as usize, counter(2) as usize);
        (self.in_block, self.in_epoch) = (counter(3) as usize, counter(4));
        for i in 0..self.slots.len() {
            let [file, records, bytes, within] = std::array::from_fn(|j| counter(5 + 4 * i + j));
            self.slots[i] = match file {
                0 => None,
                file if file as usize > self.files.len() => {
                    return Err(DataError::State { reason: "there are fewer files".to_string() });
                }
                file => {
                    let position = RecordPosition { records, bytes, within };
                    let restart = state.restarts.get(i).and_then(Option::as_ref);
                    Some(self.open(file as usize - 1, position, restart)?)
                }
            };
        }
        Ok(())
    }
}
