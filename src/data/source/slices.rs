//! Parts of splits, in the notation of TFDS: `train[:90%]`, `train[-100:]`, `train+validation`,
//! `all`. Source: TFDS `core/splits.py`, `core/utils/shard_utils.py`.

use std::ops::Range;
use std::sync::Arc;

use super::contract::unknown_split;
use super::counts::Counted;
use super::file::SourceFile;
use crate::error::DataError;

/// The properties of a data set that slicing needs.
pub(super) trait SplitCounts {
    /// The names of the data set's splits.
    fn names(&self) -> Result<Vec<String>, DataError>;

    /// The files of a split; `None` if there is no such split.
    fn files(&self, split: &str) -> Result<Option<Vec<SourceFile>>, DataError>;

    /// Handling of a bound beyond the examples.
    fn beyond(&self) -> Beyond;

    /// The examples of each of these files.
    fn count(&self, files: &[SourceFile]) -> Result<Vec<Arc<Counted>>, DataError>;
}

/// Handling of a bound beyond the examples of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// The bound is an error, as in TFDS.
    Refused,
    /// The bound becomes that of the split, as in `datasets`.
    Clipped,
}

/// One part of a split: `train[10:20]`.
#[derive(Debug, PartialEq)]
struct Slice<'a> {
    split: &'a str,
    /// Beginning and end of the part; `None` for the whole split.
    bounds: Option<(Bound, Bound)>,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Records,
    Percent,
    Shards,
}

/// Beginning or end of a part; `None` means that of the split.
type Bound = Option<f64>;

/// The files of a part of a data set, each with its range of records.
pub(super) fn slice_files(
    task: &str,
    wanted: &str,
    counts: &dyn SplitCounts,
) -> Result<Vec<SourceFile>, DataError> {
    let mut files = Vec::new();
    for part in wanted.split('+').map(str::trim) {
        let slice = Slice::parse(part).map_err(|reason| unfit(wanted, &reason))?;
        if slice.split == "all" && slice.bounds.is_none() {
            for split in counts.names()? {
                files.extend(counts.files(&split)?.into_iter().flatten());
            }
            continue;
        }
        let Some(whole) = counts.files(slice.split)? else {
            return Err(unknown_split(task, slice.split, counts.names()?.into_iter()));
        };
        files.extend(slice.files(whole, counts, wanted)?);
    }
    // A file without records is not opened; TFDS also omits empty shards.
    files.retain(|file| file.records.as_ref().is_none_or(|records| !records.is_empty()));
    Ok(files)
}

fn unfit(wanted: &str, reason: &str) -> DataError {
    DataError::Config(format!("the split '{wanted}' {reason}"))
}

impl<'a> Slice<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let odd = || {
            "is not one that TFDS knows: expected such as 'train', 'train[:90%]', 'train[10:20]' or \
             'train+validation'"
                .to_string()
        };
        let Some((split, rest)) = text.split_once('[') else {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            let fits = !text.is_empty() && text.chars().all(is_name);
            return fits
                .then_some(Self { split: text, bounds: None, unit: Unit::Records })
                .ok_or_else(odd);
        };
        let selector = rest.strip_suffix(']').ok_or_else(odd)?;
        if split == "all" {
            return Err("takes a part of 'all', which TFDS does not allow".to_string());
        }
        let bounds: Vec<(Bound, Option<Unit>)> =
            selector.split(':').map(bound).collect::<Option<_>>().ok_or_else(odd)?;
        match bounds[..] {
            [(Some(shard), Some(Unit::Shards))] => {
                let bounds = Some((Some(shard), Some(shard + 1.0)));
                Ok(Self { split, bounds, unit: Unit::Shards })
            }
            [(from, first), (to, second)] if from.is_some() || to.is_some() => {
                let unit = first.or(second).unwrap_or(Unit::Records);
                let over = |bound: Bound| bound.is_some_and(|bound| bound.abs() > 100.0);
                if unit == Unit::Percent && (over(from) || over(to)) {
                    return Err("has a bound beyond 100%".to_string());
                }
                let whole = |bound: Bound| bound.is_none_or(|bound| bound.fract() == 0.0);
                if unit != Unit::Percent && !(whole(from) && whole(to)) {
                    return Err(odd());
                }
                Ok(Self { split, bounds: Some((from, to)), unit })
            }
            _ => Err(odd()),
        }
    }

    /// The files that contain the part, each with its range of records.
    fn files(
        &self,
        whole: Vec<SourceFile>,
        counts: &dyn SplitCounts,
        wanted: &str,
    ) -> Result<Vec<SourceFile>, DataError> {
        if self.bounds.is_none() {
            return Ok(whole);
        }
        let counted = counts.count(&whole)?;
        let lengths: Vec<u64> = counted.iter().map(|counted| counted.examples).collect();
        let range =
            self.range(&lengths, counts.beyond()).map_err(|reason| unfit(wanted, &reason))?;
        let mut start = 0;
        let part = whole.into_iter().zip(counted).filter_map(|(file, counted)| {
            let (from, to) = (range.start.max(start), range.end.min(start + counted.examples));
            let examples = from.saturating_sub(start)..to.saturating_sub(start);
            start += counted.examples;
            let records = (from < to).then(|| counted.records(examples))?;
            Some(SourceFile { records: Some(records), ..file })
        });
        Ok(part.collect())
    }

    /// The range of the split's records in the part.
    fn range(&self, lengths: &[u64], beyond: Beyond) -> Result<Range<u64>, String> {
        let total: u64 = lengths.iter().sum();
        let Some((from, to)) = self.bounds else { return Ok(0..total) };
        let sum = |shards: &[u64]| shards.iter().sum::<u64>() as f64;
        let (from, to) = match self.unit {
            Unit::Records => (from.unwrap_or(0.0), to.unwrap_or(total as f64)),
            Unit::Percent => {
                let records = |percent: f64| (percent * total as f64 / 100.0).round_ties_even();
                (from.map_or(0.0, records), to.map_or(total as f64, records))
            }
            Unit::Shards => {
                let from = from.map_or(0.0, |from| sum(until(lengths, from)));
                let to = to.map(|to| if to <= 0.0 { to + lengths.len() as f64 } else { to });
                (from, to.map_or(total as f64, |to| sum(until(lengths, to))))
            }
        };
        let is_over = from.abs() > total as f64 || to.abs() > total as f64;
        if is_over && beyond == Beyond::Refused {
            return Err(format!("reaches beyond the {total} examples of '{}'", self.split));
        }
        let at = |bound: f64| {
            let bound = if bound < 0.0 { total as f64 + bound } else { bound };
            bound.clamp(0.0, total as f64) as u64
        };
        Ok(at(from)..at(to))
    }
}

/// Python's `shards[:end]`.
fn until(shards: &[u64], end: f64) -> &[u64] {
    let length = shards.len() as f64;
    let end = if end < 0.0 { (length + end).max(0.0) } else { end.min(length) };
    &shards[..end as usize]
}

/// Parses `-54%`, `10`, `1shard` or nothing.
fn bound(text: &str) -> Option<(Bound, Option<Unit>)> {
    let (number, unit) = if let Some(number) = text.strip_suffix('%') {
        (number, Some(Unit::Percent))
    } else if let Some(number) = text.strip_suffix("shard") {
        (number, Some(Unit::Shards))
    } else {
        (text, None)
    };
    if text.is_empty() {
        return Some((None, None));
    }
    let digits = number.replace('_', "");
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '.');
    let number = digits.parse().ok().filter(|_| digits.chars().all(is_number))?;
    Some((Some(number), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Result<Range<u64>, String> {
        Slice::parse(text)?.range(&[5, 6, 6], Beyond::Refused)
    }

    // TFDS 4.9.10 resolves them in this way; `tests/pipeline/data/sources` compares the records
    // read.
    #[test]
    fn parts_are_those_of_tfds() {
        for (text, expected) in [
            ("train", 0..17),
            ("train[:50%]", 0..8),
            ("train[33%:66%]", 6..11),
            ("train[-3:]", 14..17),
            ("train[:-3]", 0..14),
            ("train[1shard]", 5..11),
            ("train[-1shard:]", 11..17),
            ("train[1_0:12]", 10..12),
        ] {
            assert_eq!(range(text), Ok(expected), "{text}");
        }
    }

    // `datasets` 5.2.0 resolves them in this way.
    #[test]
    fn bounds_beyond_a_split_of_the_hub_are_its_own() {
        for (text, expected) in [
            ("train[:18]", 0..17),
            ("train[-20:3]", 0..3),
            ("train[16:99]", 16..17),
            ("train[20:]", 17..17),
        ] {
            let range = Slice::parse(text).unwrap().range(&[5, 6, 6], Beyond::Clipped);
            assert_eq!(range, Ok(expected), "{text}");
        }
    }

    #[test]
    fn odd_parts_are_refused() {
        for (text, expected) in [
            ("train[3]", "is not one that TFDS knows"),
            ("train[:]", "is not one that TFDS knows"),
            ("train[:101%]", "has a bound beyond 100%"),
            ("train[:18]", "reaches beyond the 17 examples of 'train'"),
            ("train[1:2:3]", "is not one that TFDS knows"),
            ("all[:2]", "takes a part of 'all'"),
        ] {
            assert!(range(text).unwrap_err().starts_with(expected), "{text}: {:?}", range(text));
        }
    }
}
