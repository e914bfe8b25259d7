//! The starts and ends of examples in rows, as the host knows them: attention kernels take them
//! instead of a mask.

use tch::{Device, Kind, Tensor};

/// Runs of queries, each with the run of keys that it attends to, over all rows of a batch.
///
/// Padded queries, whose results are not read, attend to the keys of the last example of their row;
/// padded keys make a run without queries.
#[derive(Debug)]
pub struct Runs {
    /// int32 `[runs + 1]` for queries and for keys, in a batch laid out row after row; `None` if
    /// every query attends to every key of its row.
    starts: Option<[Tensor; 2]>,
    longest: [i64; 2],
}

impl Clone for Runs {
    /// Returns other handles of the same tensors.
    fn clone(&self) -> Self {
        let starts =
            self.starts.as_ref().map(|starts| starts.each_ref().map(Tensor::shallow_clone));
        Self { starts, longest: self.longest }
    }
}

impl Runs {
    /// Finds runs of equal ids, from 1 up in each row; 0 is padding. int64 `[batch, q_length]` and
    /// `[batch, kv_length]` on the CPU, put on `device`. `None` if ids do not increase, padding is
    /// not at the end, or an example has queries but no keys: then a mask is needed.
    pub fn between(query_ids: &Tensor, key_ids: &Tensor, device: Device) -> Option<Self> {
        let lengths = [query_ids, key_ids].map(|ids| ids.size()[1]);
        let [queries, keys] = [query_ids, key_ids].map(rows);
        // A row has at most that many examples, so that a wrong id needs no memory.
        let most = lengths[0].max(lengths[1]) as usize;
        let mut runs = Vec::new();
        for (queries, keys) in queries.iter().zip(&keys) {
            runs.extend(runs_of_row(&run_lengths(queries, most)?, &run_lengths(keys, most)?)?);
        }
        let side = |index: usize| runs.iter().map(move |run: &[i64; 2]| run[index]);
        let longest = [0, 1].map(|index| side(index).max().unwrap_or(0));
        let whole = runs.iter().all(|run| *run == lengths);
        let starts = (!whole).then(|| [0, 1].map(|index| starts(side(index)).to_device(device)));
        Some(Self { starts, longest })
    }

    /// Returns int32 `[runs + 1]`, the starts of runs of queries and of keys; `None` if every query
    /// attends to every key of its row.
    pub fn starts(&self) -> Option<&[Tensor; 2]> {
        self.starts.as_ref()
    }

    /// Returns the lengths of the longest runs of queries and of keys.
    pub fn longest(&self) -> [i64; 2] {
        self.longest
    }
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

/// `[0, a, a + b, ...]` of the lengths `a`, `b`, ...
fn starts(lengths: impl Iterator<Item = i64>) -> Tensor {
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    let starts: Vec<i64> = std::iter::once(0).chain(ends).collect();
    Tensor::from_slice(&starts).to_kind(Kind::Int)
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
    fn full_and_empty_rows_are_one_run() {
        let ids = |rows: &[[i64; 3]]| Tensor::from_slice2(rows);
        let full = ids(&[[1, 1, 1], [1, 1, 1]]);
        let runs = Runs::between(&full, &full, Device::Cpu).unwrap();
        assert!(runs.starts().is_none());
        assert_eq!(runs.longest(), [3, 3]);
        let empty = ids(&[[0, 0, 0], [1, 1, 1]]);
        let runs = Runs::between(&full, &empty, Device::Cpu);
        assert!(runs.is_none(), "queries of the first row meet no key");
        let runs = Runs::between(&empty, &empty, Device::Cpu).unwrap();
        assert!(runs.starts().is_none(), "padding that meets padding is read by nobody");
    }
}
