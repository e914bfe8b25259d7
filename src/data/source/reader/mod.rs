//! One shard's records, and shards that read the same files together.
//!
//! If there are fewer files than shards, several shards share a file's records
//! ([`Deal`](super::Deal)). The shards of one host then form a group: a record is read once, and
//! kept for its shard if another shard read it. The records of a shard, and their order, are the
//! same as if the shard read all the files by itself. A shard does so if it falls too far behind
//! the others, and after an error, so that the shard gets the error itself.

mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::interleave::{Interleave, ReadPlan};
use super::read::Record;
use super::read::RecordPosition;
use super::reader_position::ReaderPosition;
use crate::error::DataError;
use crate::pipeline::{Pull, StageState};

/// Number of records read without any example produced, after which the data may count as empty.
const BARREN: u64 = 100_000;
/// Minimum number of passes over all records before the data count as empty.
const ROUNDS: u64 = 4;
/// Maximum bytes of records kept by a group, and by all groups of a data set.
const MOST_KEPT: usize = 64 << 20;
const MOST_KEPT_OF_ALL: usize = 1 << 30;

/// The groups of a data set's pipelines, by the data they read. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct SharedReads(Arc<Mutex<HashMap<String, SharedGroup>>>);

type SharedGroup = Arc<Mutex<Group>>;

impl SharedReads {
    /// Makes the shards of each group read together from now on; called when all of them exist and
    /// are at their starting positions.
    pub(crate) fn begin(&self) {
        let groups = lock(&self.0);
        for group in groups.values() {
            let mut group = lock(group);
            group.most_kept = group.most_kept.min(MOST_KEPT_OF_ALL / groups.len());
            group.begin();
        }
    }
}

impl fmt::Debug for SharedReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedReads")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pulls the records of one shard.
pub(crate) struct Reader {
    group: SharedGroup,
    plan: ReadPlan,
    barren: Barren,
}

/// The yield of the records that were returned.
#[derive(Default)]
struct Barren {
    /// Records since an example was produced.
    records: u64,
    /// The epoch of the first of them.
    since: Option<u64>,
    /// Number of examples produced by then.
    produced: u64,
}

/// The progress in an epoch.
pub(crate) struct Reached {
    /// Records read.
    pub records: u64,
    /// Number of files that were opened, in their order.
    pub num_opened: usize,
    /// The open files, and the position in each.
    pub open: Vec<(usize, RecordPosition)>,
}

impl Reader {
    /// A reader at the beginning of the first epoch. Readers with the same `name` and the same
    /// plan, except for the shard, read together.
    pub(crate) fn new(plan: ReadPlan, name: String, shared: &SharedReads) -> Self {
        let group = match plan.deal.shares_files() && plan.num_epochs.is_none() {
            true => {
                let name = format!("{name}{}", plan.deal.group());
                lock(&shared.0).entry(name).or_default().clone()
            }
            false => SharedGroup::default(),
        };
        let own = Some(Interleave::new(plan.clone()));
        let member =
            Member { plan: plan.clone(), own, place: None, kept: VecDeque::new(), size: 0 };
        lock(&group).members.insert(plan.deal.member(), member);
        Self { group, plan, barren: Barren::default() }
    }

    /// The position of the reader of a single file, from the state of the stages above it.
    pub(crate) fn file_position(state: &StageState) -> RecordPosition {
        let place = Self::place_in(state);
        let open = place.and_then(|place| place.open().next());
        open.map_or_else(RecordPosition::default, |open| open.position)
    }

    /// The progress in the first epoch, from the state of the stages above. `None` after that
    /// epoch.
    pub(crate) fn reached(state: &StageState) -> Option<Reached> {
        let place = Self::place_in(state).filter(|place| place.epoch == 0)?;
        let open = place.open().map(|open| (open.file, open.position)).collect();
        Some(Reached { records: place.in_epoch, num_opened: place.opened, open })
    }

    /// The position of the reader in the state of the stages above it.
    fn place_in(state: &StageState) -> Option<ReaderPosition> {
        match state.inputs.first() {
            Some(input) => Self::place_in(input),
            None => ReaderPosition::of_state(state).ok(),
        }
    }

    /// Detects data that would be repeated forever without yielding an example.
    fn check_yield(&mut self, epoch: u64) -> Result<(), DataError> {
        let produced = self.plan.produced.load(Ordering::Relaxed);
        if produced != self.barren.produced {
            self.barren = Barren { produced, ..Barren::default() };
        }
        self.barren.records += 1;
        let epochs = epoch - *self.barren.since.get_or_insert(epoch);
        // More than one round, since a record may not reach the shard in one round.
        if epochs > ROUNDS * self.plan.deal.round() && self.barren.records > BARREN {
            return Err(self.plan.empty(": its preprocessors drop every one"));
        }
        Ok(())
    }
}

impl Pull for Reader {
    type Item = Record;

    fn pull(&mut self) -> Result<Option<Record>, DataError> {
        let pulled = lock(&self.group).pull(self.plan.deal.member())?;
        let Some((record, epoch)) = pulled else { return Ok(None) };
        self.check_yield(epoch)?;
        Ok(Some(record))
    }

    fn save(&self) -> StageState {
        lock(&self.group).place(self.plan.deal.member()).to_state()
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let mut group = lock(&self.group);
        let own = group.member(self.plan.deal.member()).own.as_mut();
        own.expect("reading together begins after restoring").restore(state)
    }
}

/// Shards that read the same files.
struct Group {
    /// By their number within the group.
    members: BTreeMap<usize, Member>,
    /// The common reader of all shards that do not read alone.
    together: Option<Interleave>,
    /// Bytes of the records kept, and their maximum.
    size: usize,
    most_kept: usize,
}

impl Default for Group {
    fn default() -> Self {
        Self { members: BTreeMap::new(), together: None, size: 0, most_kept: MOST_KEPT }
    }
}

/// A shard of a group.
struct Member {
    plan: ReadPlan,
    /// The reader of a shard that reads alone.
    own: Option<Interleave>,
    /// The place after the last record that the shard took; `own` has the place if there is an own
    /// reader.
    place: Option<ReaderPosition>,
    /// Its records that other shards read, each with the place after it; and their total size in
    /// bytes.
    kept: VecDeque<(Record, ReaderPosition)>,
    size: usize,
}

/// A record, and its epoch.
type Dated = (Record, u64);

impl Member {
    fn place(&self) -> ReaderPosition {
        match (&self.own, &self.place) {
            (Some(own), _) => own.place(),
            (None, place) => place.clone().expect("who has no reader has a place"),
        }
    }

    fn pull_alone(&mut self) -> Result<Option<Dated>, DataError> {
        let own = self.own.as_mut().expect("it reads alone");
        loop {
            if self.plan.num_epochs.is_some_and(|epochs| own.epoch() >= epochs) {
                return Ok(None);
            }
            match own.read()? {
                Some(record) if own.owner() == self.plan.deal.member() => {
                    return Ok(Some((record, own.epoch())));
                }
                Some(_) => {}
                None => own.start_next_epoch()?,
            }
        }
    }

    /// Makes the shard read alone from now on. Returns the bytes of the kept records, which the
    /// shard reads again.
    fn leave(&mut self) -> Result<usize, DataError> {
        let mut own = Interleave::new(self.plan.clone());
        own.go_to(&self.place())?;
        (self.own, self.place) = (Some(own), None);
        self.kept = VecDeque::new();
        Ok(std::mem::take(&mut self.size))
    }
}

impl Group {
    fn member(&mut self, shard: usize) -> &mut Member {
        self.members.get_mut(&shard).expect("a reader's shard is a member")
    }

    fn place(&self, shard: usize) -> ReaderPosition {
        self.members[&shard].place()
    }

    /// Starts reading together, with the reader of the shard that is furthest behind.
    fn begin(&mut self) {
        if self.members.len() < 2 {
            return;
        }
        for member in self.members.values_mut() {
            let place = member.place();
            let own = member.own.take();
            if self.together.as_ref().is_none_or(|least| least.place().is_behind(&place)) {
                self.together = own;
            }
            member.place = Some(place);
        }
    }

    /// A shard's next record.
    fn pull(&mut self, shard: usize) -> Result<Option<Dated>, DataError> {
        loop {
            let member = self.members.get_mut(&shard).expect("a reader's shard is a member");
            if member.own.is_some() {
                return member.pull_alone();
            }
            if let Some((record, place)) = member.kept.pop_front() {
                let size = record.size() + place.size();
                member.size -= size;
                self.size -= size;
                let epoch = place.epoch;
                member.place = Some(place);
                return Ok(Some((record, epoch)));
            }
            let Some(mut together) = self.together.take() else {
                member.leave()?;
                continue;
            };
            // After an error there is no common reader.
            let record = match together.read()? {
                Some(record) => Some(record),
                None => together.start_next_epoch().map(|()| None)?,
            };
            if let Some(record) = record {
                self.keep(record, &together);
            }
            self.together = Some(together);
            self.bound()?;
        }
    }

    /// Keeps a record that was just read for its shard, if the shard is in the group and has not
    /// had the record.
    fn keep(&mut self, record: Record, together: &Interleave) {
        let Some(member) = self.members.get_mut(&together.owner()) else { return };
        let at = (together.epoch(), together.in_epoch());
        let is_new = |place: &ReaderPosition| at > (place.epoch, place.in_epoch);
        if member.place.as_ref().is_some_and(is_new) {
            let place = together.place();
            let size = record.size() + place.size();
            member.size += size;
            self.size += size;
            member.kept.push_back((record, place));
        }
    }

    /// Makes shards that are far behind read alone if too many bytes are kept for them; then the
    /// common reader continues at the place of the others.
    fn bound(&mut self) -> Result<(), DataError> {
        if self.size <= self.most_kept {
            return Ok(());
        }
        while self.size > self.most_kept {
            let last = self.members.values_mut().max_by_key(|member| member.size);
            self.size -= last.expect("records are kept for members").leave()?;
        }
        let mut places = self.members.values().filter_map(|member| member.place.as_ref());
        let Some(first) = places.next() else { return Ok(()) };
        let least = places.fold(first, |least, at| if least.is_behind(at) { at } else { least });
        let is_late = |together: &mut Interleave| least.is_behind(&together.place());
        if let Some(mut together) = self.together.take_if(is_late) {
            // After an error there is no common reader.
            together.go_to(least)?;
            self.together = Some(together);
        }
        Ok(())
    }
}
