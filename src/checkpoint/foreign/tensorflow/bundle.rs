//! Reads a tensor bundle: its table describes the tensors, whose bytes lie in
//! `.data-00000-of-0000N`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use prost::Message;

use super::super::sums::{Compared, Expected, Piece, Sum};
use super::super::{MAX_RANK, RawTensors};
use super::index_of;
use super::proto::{BundleEntry, Header, numpy_type};
use super::slices::{MAX_SLICES, SLICE, check_cover, place};
use super::table::read_table;
use crate::error::CheckpointError;
use crate::raw::{RawInfo, RawInfos};
use gimlet_storage::{Path, RangeFile};

/// The number of the string type; strings are not arrays.
const STRING: i32 = 7;

/// Maximum number of files of a bundle: the largest models have hundreds of files.
const MAX_SHARDS: i32 = 100_000;

/// The byte range of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    shard: usize,
    start: u64,
    end: u64,
    crc32c: u32,
}

/// A tensor or a slice of a tensor: its region and its byte range.
#[derive(Debug)]
struct SlicePart {
    region: Vec<Range<usize>>,
    extent: Extent,
}

/// The entries of slices by their keys.
type Slices<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// An open bundle.
#[derive(Debug)]
pub(super) struct Bundle {
    index: Path,
    shards: BTreeMap<usize, RangeFile>,
    tensors: RawInfos,
    /// The parts of each tensor; a tensor that is not sliced has one part with all of its elements.
    parts: BTreeMap<String, Vec<SlicePart>>,
    compared: Compared,
}

impl Bundle {
    /// Reads the table and opens the data files that it names.
    ///
    /// # Errors
    /// A file is missing, truncated or damaged.
    pub fn open(prefix: &Path) -> Result<Self, CheckpointError> {
        let index = index_of(prefix);
        let table = read_table(&index.open_ranges()?)?;
        let Some(((_, header), entries)) =
            table.split_first().filter(|(first, _)| first.0.is_empty())
        else {
            return Err(CheckpointError::damaged(&index, "it has no header"));
        };
        let num_shards = num_shards(&index, header)?;
        let mut bundle = Self {
            index,
            shards: BTreeMap::new(),
            tensors: RawInfos::new(),
            parts: BTreeMap::new(),
            compared: Compared::default(),
        };
        let (slices, entries): (Vec<_>, Vec<_>) =
            entries.iter().partition(|(key, _)| key.first() == Some(&SLICE));
        let slices = slices.into_iter().map(|(key, entry)| (&key[..], &entry[..])).collect();
        for (name, entry) in entries {
            bundle.add(name, entry, &slices, num_shards)?;
        }
        bundle.open_shards(prefix, num_shards)?;
        bundle.check_overlaps()?;
        Ok(bundle)
    }

    fn add(
        &mut self,
        key: &[u8],
        entry: &[u8],
        slices: &Slices<'_>,
        shards: usize,
    ) -> Result<(), CheckpointError> {
        let name = String::from_utf8_lossy(key).into_owned();
        let damaged =
            |reason: String| CheckpointError::damaged(&self.index, format!("`{name}`: {reason}"));
        let entry = BundleEntry::decode(entry).map_err(|error| damaged(error.to_string()))?;
        if entry.dtype == STRING {
            return Ok(());
        }
        let dtype = numpy_type(entry.dtype).ok_or_else(|| CheckpointError::Unsupported {
            path: self.index.to_string(),
            reason: format!(
                "`{name}` is of TensorFlow's type {}, expected floats or integers",
                entry.dtype
            ),
        })?;
        let shape = shape(&entry).ok_or_else(|| damaged("it has no shape".to_string()))?;
        let info = RawInfo { dtype, shape };
        let parts = match entry.slices.is_empty() {
            true => part(&entry, &info, shards).map(|part| vec![part]),
            false => sliced(key, &entry, &info, slices, shards),
        };
        let parts = parts.map_err(damaged)?;
        self.tensors.insert(name.clone(), info);
        self.parts.insert(name, parts);
        Ok(())
    }

    /// Returns every part with the name of its tensor.
    fn all_parts(&self) -> impl Iterator<Item = (&String, &SlicePart)> {
        self.parts.iter().flat_map(|(name, parts)| parts.iter().map(move |part| (name, part)))
    }

    /// Opens the data files that hold tensors.
    fn open_shards(&mut self, prefix: &Path, num_shards: usize) -> Result<(), CheckpointError> {
        let used: BTreeSet<usize> = self.all_parts().map(|(_, part)| part.extent.shard).collect();
        for shard in used {
            let file = Path::parse(&format!("{prefix}.data-{shard:05}-of-{num_shards:05}"))?;
            let file = file.open_ranges().map_err(|error| match error.is_not_found() {
                true => CheckpointError::damaged(&self.index, error.to_string()),
                false => error.into(),
            })?;
            self.shards.insert(shard, file);
        }
        for (name, SlicePart { extent, .. }) in self.all_parts() {
            let file = &self.shards[&extent.shard];
            if extent.end > file.size() {
                let found = file.size();
                let reason =
                    format!("`{name}` ends at byte {}, but the file has {found}", extent.end);
                return Err(CheckpointError::damaged(file.path(), reason));
            }
        }
        Ok(())
    }

    fn piece<'a>(&'a self, name: &'a str, extent: &Extent) -> Piece<'a> {
        let sum = Sum::MaskedCrc32c(extent.crc32c);
        Piece {
            name,
            file: &self.shards[&extent.shard],
            range: extent.start..extent.end,
            expected: Some(Expected { sum, compared: &self.compared }),
        }
    }

    /// Reads some rows of a part, counted from the part's first row.
    fn rows_of(
        &self,
        name: &str,
        part: &SlicePart,
        rows: Range<usize>,
    ) -> Result<Vec<u8>, CheckpointError> {
        let SlicePart { region, extent } = part;
        let columns = region.get(1..).unwrap_or_default().iter().map(Range::len);
        let row = (columns.product::<usize>() * self.tensors[name].dtype.size()) as u64;
        let range = extent.start + rows.start as u64 * row..extent.start + rows.end as u64 * row;
        self.piece(name, extent).read(range)
    }

    /// Checks that no byte belongs to two tensors.
    fn check_overlaps(&self) -> Result<(), CheckpointError> {
        let extents = self.all_parts().map(|(name, part)| (part.extent, name));
        let mut extents: Vec<_> = extents.filter(|(e, _)| e.end > e.start).collect();
        extents.sort_unstable();
        let overlaps = |pair: &&[(Extent, &String)]| {
            pair[0].0.shard == pair[1].0.shard && pair[0].0.end > pair[1].0.start
        };
        match extents.windows(2).find(overlaps) {
            None => Ok(()),
            Some(pair) => Err(CheckpointError::damaged(
                &self.index,
                format!("`{}` and `{}` lie on the same bytes", pair[0].1, pair[1].1),
            )),
        }
    }
}

fn num_shards(index: &Path, header: &[u8]) -> Result<usize, CheckpointError> {
    let header = Header::decode(header)
        .map_err(|error| CheckpointError::damaged(index, format!("its header: {error}")))?;
    if header.endianness != 0 {
        let reason = "it was written by a big-endian machine".to_string();
        return Err(CheckpointError::Unsupported { path: index.to_string(), reason });
    }
    match header.num_shards {
        count @ 0..=MAX_SHARDS => Ok(count as usize),
        count => Err(CheckpointError::damaged(index, format!("it has {count} files of data"))),
    }
}

/// Reads the entry of a tensor that is not sliced.
///
/// # Errors
/// The entry does not fit the files.
fn part(entry: &BundleEntry, info: &RawInfo, shards: usize) -> Result<SlicePart, String> {
    let (start, size) = (u64::try_from(entry.offset), u64::try_from(entry.size));
    let (Ok(start), Ok(size)) = (start, size) else {
        return Err("it lies before the file".to_string());
    };
    if info.num_bytes() != Some(size) {
        let RawInfo { dtype, shape } = info;
        return Err(format!("{size} bytes do not hold {dtype} of shape {shape:?}"));
    }
    let shard = usize::try_from(entry.shard_id).ok().filter(|shard| *shard < shards);
    let (Some(shard), Some(end)) = (shard, start.checked_add(size)) else {
        return Err(format!("it lies in file {} of {shards}", entry.shard_id));
    };
    let region = info.shape.iter().map(|size| 0..*size).collect();
    Ok(SlicePart { region, extent: Extent { shard, start, end, crc32c: entry.crc32c } })
}

/// Reads the entries of the slices of a tensor.
///
/// # Errors
/// The slices do not cover the tensor.
fn sliced(
    key: &[u8],
    entry: &BundleEntry,
    info: &RawInfo,
    slices: &Slices<'_>,
    shards: usize,
) -> Result<Vec<SlicePart>, String> {
    let RawInfo { dtype, shape } = info;
    if info.num_bytes().is_none() {
        return Err(format!("no machine holds {dtype} of shape {shape:?}"));
    }
    let count = entry.slices.len();
    if count > MAX_SLICES {
        return Err(format!("it lies in {count} slices, and {MAX_SLICES} are read at most"));
    }
    let mut parts = Vec::with_capacity(count);
    for slice in &entry.slices {
        let region = slice.region(shape);
        let region =
            region.ok_or_else(|| format!("a slice lies outside of its shape {shape:?}"))?;
        let held = slices.get(&slice.key(key)[..]);
        let held = held.ok_or_else(|| format!("its slice {region:?} has no entry"))?;
        let held = BundleEntry::decode(*held).map_err(|error| error.to_string())?;
        let of_slice = RawInfo { dtype: *dtype, shape: region.iter().map(Range::len).collect() };
        if held.dtype != entry.dtype || self::shape(&held).as_ref() != Some(&of_slice.shape) {
            return Err(format!("its slice {region:?} is of another type or shape"));
        }
        let part = SlicePart { region, ..part(&held, &of_slice, shards)? };
        if !part.region.iter().any(Range::is_empty) {
            parts.push(part);
        }
    }
    let regions: Vec<_> = parts.iter().map(|part| &part.region[..]).collect();
    check_cover(&regions, shape)?;
    Ok(parts)
}

/// The dimensions of an entry; `None` when they are not valid for a tensor.
fn shape(entry: &BundleEntry) -> Option<Vec<usize>> {
    let shape = entry.shape.clone().unwrap_or_default();
    let is_known = !shape.unknown_rank && shape.dim.len() <= MAX_RANK;
    is_known.then(|| shape.dim.iter().map(|dim| usize::try_from(dim.size).ok()).collect())?
}

impl RawTensors for Bundle {
    fn tensors(&self) -> &RawInfos {
        &self.tensors
    }

    fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<u8>, CheckpointError> {
        let (info, parts) = (&self.tensors[name], &self.parts[name]);
        if let [whole] = &parts[..] {
            return self.rows_of(name, whole, rows);
        }
        let mut read = vec![0; rows.len() * info.row_bytes()];
        for part in parts {
            let of_part = &part.region[0];
            let shared = rows.start.max(of_part.start)..rows.end.min(of_part.end);
            if shared.is_empty() {
                continue;
            }
            let within = shared.start - of_part.start..shared.end - of_part.start;
            let bytes = self.rows_of(name, part, within)?;
            let mut region = part.region.clone();
            region[0] = shared.start - rows.start..shared.end - rows.start;
            place(&bytes, &region, &info.shape, info.dtype.size(), &mut read);
        }
        Ok(read)
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        self.all_parts().map(|(name, part)| self.piece(name, &part.extent)).collect()
    }
}
