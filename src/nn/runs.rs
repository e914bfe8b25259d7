//! The starts and ends of examples in rows, as the host knows them: attention kernels take them
//! instead of a mask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tch::{Device, Kind, Tensor};

/// Numbers of runs that are used between a power of two and the next.
const SIZES_OF_A_POWER: usize = 8;

/// Runs of queries, each with the run of keys that it attends to, over all rows of a batch.
///
/// Padded queries, whose results are not read, attend to the keys of the last example of their row;
/// padded keys make a run without queries. Runs without either follow, so that batches with about as many
/// runs have equal shapes.
#[derive(Clone, Debug)]
pub struct Runs {
    /// `None` if every query attends to every key of its row.
    ragged: Option<Ragged>,
    longest: [i64; 2],
    causal: bool,
}

/// Runs that are parts of rows, of queries and of keys.
#[derive(Debug)]
struct Ragged {
    /// int32 `[runs + 1]`, in a batch laid out row after row.
    starts: [Tensor; 2],
    /// The same of the runs with queries alone.
    attended: [Tensor; 2],
    /// The lengths of these, int32 `[runs]`.
    lengths: [Tensor; 2],
    /// Multiples of their starts, by side and factor.
    multiples: Arc<Mutex<HashMap<(usize, i64), Tensor>>>,
}

impl Clone for Ragged {
    /// Returns other handles of the same tensors.
    fn clone(&self) -> Self {
        Self {
            starts: self.starts.each_ref().map(Tensor::shallow_clone),
            attended: self.attended.each_ref().map(Tensor::shallow_clone),
            lengths: self.lengths.each_ref().map(Tensor::shallow_clone),
            multiples: Arc::clone(&self.multiples),
        }
    }
}

/// The number of positions with each id in the rows of a batch, padding first.
#[derive(Debug)]
pub struct SegmentLengths {
    rows: Vec<Vec<i64>>,
    length: i64,
}

impl SegmentLengths {
    /// Counts ids from 1 up to `most`, 0 being padding: int64 `[batch, length]` on the CPU. `None` if ids do not increase, or
    /// padding is not at the end.
    pub fn of(ids: &Tensor, most: usize) -> Option<Self> {
        let counted: Option<Vec<_>> = rows(ids).iter().map(|row| run_lengths(row, most)).collect();
        Some(Self { rows: counted?, length: ids.size()[1] })
    }
}

/// The facts about runs that the host tells kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsShape {
    counts: Option<[i64; 2]>, // of parts of rows, and of those with queries
    longest: [i64; 2],
    causal: bool,
}

impl Runs {
    /// Finds runs of equal ids, from 1 up in each row; 0 is padding. int64 `[batch, q_length]` and
    /// `[batch, kv_length]` on the CPU, put on `device`. `None` if ids do not increase, padding is
    /// not at the end, or an example has queries but no keys: then a mask is needed.
    pub fn between(query_ids: &Tensor, key_ids: &Tensor, device: Device) -> Option<Self> {
        // A row has at most that many examples, so that a wrong id needs no memory.
        let most = query_ids.size()[1].max(key_ids.size()[1]) as usize;
        let [queries, keys] = [query_ids, key_ids].map(|ids| SegmentLengths::of(ids, most));
        Self::of_segments(&queries?, &keys?, device)
    }

    /// Finds the same from the lengths of the segments of both.
    pub fn of_segments(
        queries: &SegmentLengths,
        keys: &SegmentLengths,
        device: Device,
    ) -> Option<Self> {
        let lengths = [queries.length, keys.length];
        let mut runs = Vec::new();
        for (queries, keys) in queries.rows.iter().zip(&keys.rows) {
            runs.extend(runs_of_row(queries, keys)?);
        }
        let side = |index: usize| runs.iter().map(move |run: &[i64; 2]| run[index]);
        let longest = [0, 1].map(|index| side(index).max().unwrap_or(0));
        let whole = runs.iter().all(|run| *run == lengths);
        let longest = if whole { longest } else { longest.map(rounded_up) };
        let ragged = (!whole).then(|| Ragged::new(runs, device));
        Some(Self { ragged, longest, causal: false })
    }

    /// The same, without pairs whose key is after the query, both counted from the starts of their runs.
    pub fn causal(self) -> Self {
        Self { causal: true, ..self }
    }

    /// Whether it is without these pairs.
    pub fn are_causal(&self) -> bool {
        self.causal
    }

    /// Whether every query attends to every key of its row, or to those up to its own position.
    pub fn are_whole_rows(&self) -> bool {
        self.ragged.is_none()
    }

    /// Returns int32 `[runs + 1]`, the starts of runs of queries and of keys; `None` if every query
    /// attends to every key of its row.
    pub fn starts(&self) -> Option<&[Tensor; 2]> {
        self.ragged.as_ref().map(|ragged| &ragged.starts)
    }

    /// Returns int32 `[runs]`, the lengths of queries and of keys of the runs with queries, where they have starts.
    pub fn run_lengths(&self) -> Option<&[Tensor; 2]> {
        self.ragged.as_ref().map(|ragged| &ragged.lengths)
    }

    /// Returns the starts of queries (0) or keys (1) of these runs times a factor, made once, where they have starts.
    pub fn multiplied_starts(&self, side: usize, factor: i64) -> Option<Tensor> {
        let ragged = self.ragged.as_ref()?;
        let mut made = ragged.multiples.lock().unwrap_or_else(PoisonError::into_inner);
        let multiple =
            made.entry((side, factor)).or_insert_with(|| &ragged.attended[side] * factor);
        Some(multiple.shallow_clone())
    }

    /// Returns the facts that the host tells kernels of them.
    pub fn shape(&self) -> RunsShape {
        let counts = self.ragged.as_ref().map(|ragged| {
            [&ragged.starts, &ragged.attended].map(|[queries, _]| queries.size()[0] - 1)
        });
        RunsShape { counts, longest: self.longest, causal: self.causal }
    }

    /// The same in memory of their own.
    pub fn copied(&self) -> Self {
        let copied = |tensors: &[Tensor; 2]| tensors.each_ref().map(Tensor::copy);
        let ragged = self.ragged.as_ref().map(|ragged| Ragged {
            starts: copied(&ragged.starts),
            attended: copied(&ragged.attended),
            lengths: copied(&ragged.lengths),
            multiples: Arc::default(),
        });
        Self { ragged, ..*self }
    }

    /// Writes others of the same shape into the memory of these.
    pub fn take(&self, others: &Self) {
        let (Some(own), Some(others)) = (&self.ragged, &others.ragged) else { return };
        for side in [0, 1] {
            own.starts[side].shallow_clone().copy_(&others.starts[side]);
            own.attended[side].shallow_clone().copy_(&others.attended[side]);
            own.lengths[side].shallow_clone().copy_(&others.lengths[side]);
        }
        let made = own.multiples.lock().unwrap_or_else(PoisonError::into_inner);
        for ((side, factor), multiple) in made.iter() {
            multiple.shallow_clone().copy_(&(&own.attended[*side] * *factor));
        }
    }

    /// Returns the lengths of the longest runs of queries and of keys; of parts of rows rounded up, so that batches agree.
    pub fn longest(&self) -> [i64; 2] {
        self.longest
    }
}

impl Ragged {
    fn new(mut runs: Vec<[i64; 2]>, device: Device) -> Self {
        let mut end = [0; 2];
        let mut places = Vec::new(); // start and length of queries and of keys
        for run in &runs {
            places.extend((run[0] > 0).then(|| [0, 1].map(|side| (end[side], run[side]))));
            end = [0, 1].map(|side| end[side] + run[side]);
        }
        // Empty runs follow.
        places.resize(shared_count(places.len()), end.map(|end| (end, 0)));
        runs.resize(shared_count(runs.len()), [0; 2]);
        let on_device = |numbers: Vec<i64>| int32(&numbers).to_device(device);
        let of = |side: usize| places.iter().map(move |place: &[(i64, i64); 2]| place[side]);
        Self {
            starts: [0, 1]
                .map(|side: usize| starts(runs.iter().map(move |run| run[side])).to_device(device)),
            attended: [0, 1].map(|side| {
                on_device(of(side).map(|(start, _)| start).chain([end[side]]).collect())
            }),
            lengths: [0, 1].map(|side| on_device(of(side).map(|(_, length)| length).collect())),
            multiples: Arc::default(),
        }
    }
}

/// The number of runs to which so many are filled up, so that batches with about as many have equal shapes.
fn shared_count(runs: usize) -> usize {
    let step = (runs.next_power_of_two() / SIZES_OF_A_POWER).max(1);
    runs.next_multiple_of(step)
}

fn rows(ids: &Tensor) -> Vec<Vec<i64>> {
    Vec::try_from(ids).expect("ids are int64 of two axes")
}

/// Counts the positions with each id up to `most`, padding first; `None` if the ids are not in order.
fn run_lengths(ids: &[i64], most: usize) -> Option<Vec<i64>> {
    let mut lengths = vec![0];
    let real = ids.iter().rposition(|&id| id != 0).map_or(0, |last| last + 1);
    lengths[0] = (ids.len() - real) as i64;
    for &id in &ids[..real] {
        let in_order = |id: &usize| (1..=most).contains(id) && id + 1 >= lengths.len();
        let id = usize::try_from(id).ok().filter(in_order)?;
        lengths.resize(id + 1, 0);
        lengths[id] += 1;
    }
    Some(lengths)
}

/// A row's runs of queries and keys.
fn runs_of_row(queries: &[i64], keys: &[i64]) -> Option<Vec<[i64; 2]>> {
    let count = queries.len().max(keys.len());
    let length = |lengths: &[i64], id: usize| lengths.get(id).copied().unwrap_or(0);
    let mut runs: Vec<[i64; 2]> =
        (1..count).map(|id| [length(queries, id), length(keys, id)]).collect();
    if runs.iter().any(|&[queries, keys]| queries > 0 && keys == 0) {
        return None;
    }
    match runs.last_mut() {
        Some(last) => {
            last[0] += queries[0];
            runs.push([0, keys[0]]);
        }
        None => runs.push([queries[0], keys[0]]),
    }
    runs.retain(|run| *run != [0, 0]);
    Some(runs)
}

/// The next power of two: longest lengths differ between batches.
fn rounded_up(length: i64) -> i64 {
    (length as u64).next_power_of_two() as i64
}

/// `[0, a, a + b, ...]` of the lengths `a`, `b`, ...
fn starts(lengths: impl Iterator<Item = i64>) -> Tensor {
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    int32(&std::iter::once(0).chain(ends).collect::<Vec<_>>())
}

fn int32(numbers: &[i64]) -> Tensor {
    Tensor::from_slice(numbers).to_kind(Kind::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of one row, as starts of queries and of keys.
    fn check<const Q: usize, const K: usize>(
        queries: [i64; Q],
        keys: [i64; K],
        expected: Option<(&[i32], &[i32])>,
    ) {
        let row = |ids: &[i64]| Tensor::from_slice(ids).unsqueeze(0);
        let found = Runs::between(&row(&queries), &row(&keys), Device::Cpu);
        let found = found.map(|runs| {
            let [queries, keys] = runs.starts().expect("parts of rows").each_ref();
            [queries, keys].map(|starts| Vec::<i32>::try_from(starts).unwrap())
        });
        let expected = expected.map(|(queries, keys)| [queries.to_vec(), keys.to_vec()]);
        assert_eq!(found, expected);
    }

    #[test]
    fn runs_are_examples_and_then_padding() {
        check([1, 1, 0], [1, 1, 1, 0], Some((&[0, 3, 3], &[0, 3, 4])));
        check([1, 2, 2, 0], [1, 1, 2, 0, 0], Some((&[0, 1, 4, 4], &[0, 2, 3, 5])));
        check([1, 1], [1, 1, 0], Some((&[0, 2, 2], &[0, 2, 3])));
        check([1, 3], [1, 2, 3], Some((&[0, 1, 1, 2], &[0, 1, 2, 3])));
    }

    #[test]
    fn rows_in_another_order_take_a_mask() {
        check([1, 0, 1], [1, 1, 0], None);
        check([2, 1], [1, 2], None);
        check([1, 2], [1, 0], None);
        check([1, 9], [1, 9], None);
        check([1, -1], [1, 1], None);
    }

    #[test]
    fn many_runs_are_filled_up_with_empty_ones() {
        let ids = Tensor::arange_start(1, 10, (Kind::Int64, Device::Cpu)).repeat([2, 1]);
        let runs = Runs::between(&ids, &ids, Device::Cpu).unwrap().causal();
        assert!(runs.are_causal() && !runs.are_whole_rows());
        let numbers = |tensor: &Tensor| Vec::<i32>::try_from(tensor).unwrap();
        let starts: Vec<i32> = (0..=18).chain([18; 2]).collect();
        assert_eq!(numbers(&runs.starts().unwrap()[1]), starts);
        let lengths = [[1; 18].as_slice(), &[0; 2]].concat();
        let parts = Tensor::from_slice2(&[[1i64, 1, 2, 0], [1, 2, 0, 0]]);
        let padded = Runs::between(&parts, &parts, Device::Cpu).unwrap();
        assert_eq!(numbers(&padded.starts().unwrap()[1]), [0, 2, 3, 4, 5, 6, 8]);
        assert_eq!(numbers(&runs.run_lengths().unwrap()[0]), lengths);
        let multiples = |runs: &Runs| numbers(&runs.multiplied_starts(0, 24).unwrap());
        assert_eq!(multiples(&runs), starts.iter().map(|start| start * 24).collect::<Vec<_>>());

        let pairs = Tensor::from_slice(&[1i64, 1, 2, 3, 4, 5, 6, 7, 8]).repeat([2, 1]);
        let others = Runs::between(&pairs, &pairs, Device::Cpu).unwrap().causal();
        assert!(others.shape() != runs.shape(), "there are only 16");
        let singles = Runs::between(&ids, &ids.flip([0]), Device::Cpu).unwrap().causal();
        assert_eq!(singles.shape(), runs.shape());
        let own = singles.copied();
        let _ = own.starts().unwrap()[0].shallow_clone().zero_();
        let _ = own.multiplied_starts(0, 24);
        own.take(&runs);
        assert_eq!(multiples(&own), multiples(&runs));
        assert_eq!(multiples(&singles), multiples(&runs));
    }

    #[test]
    fn full_and_empty_rows_are_one_run() {
        let ids = |rows: &[[i64; 3]]| Tensor::from_slice2(rows);
        let full = ids(&[[1, 1, 1], [1, 1, 1]]);
        let runs = Runs::between(&full, &full, Device::Cpu).unwrap();
        assert!(runs.are_whole_rows() && runs.multiplied_starts(0, 2).is_none());
        assert_eq!(runs.longest(), [3, 3]);
        let empty = ids(&[[0, 0, 0], [1, 1, 1]]);
        let runs = Runs::between(&full, &empty, Device::Cpu);
        assert!(runs.is_none(), "queries of the first row meet no key");
        let runs = Runs::between(&empty, &empty, Device::Cpu).unwrap();
        assert!(runs.starts().is_none(), "padding that meets padding is read by nobody");
    }
}
