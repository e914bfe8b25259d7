//! Reads zip archives that `torch.save` wrote: a pickle `data.pkl` and one uncompressed entry for
//! each storage, in a folder of any name.

use std::collections::BTreeMap;

use super::machine::{Machine, Storage};
use super::pickle::read_pickle;
use super::state_dict::{Tensor, refused, state_dict};
use super::{Contents, Extent, MAX_PICKLE};
use crate::error::CheckpointError;
use gimlet_storage::RangeFile;

/// First bytes of the record at the end of an archive, and its length without the comment.
const END: (&[u8], u64) = (b"PK\x05\x06", 22);

/// First bytes and lengths of the record that large archives have before the end, and of its
/// locator.
const END_64: (&[u8], u64) = (b"PK\x06\x06", 56);
const LOCATOR_64: (&[u8], u64) = (b"PK\x06\x07", 20);

/// First bytes of an entry of the central directory, and its minimum length.
const ENTRY: (&[u8], usize) = (b"PK\x01\x02", 46);

/// First bytes of the local header of an entry, and its minimum length.
const LOCAL: (&[u8], u64) = (b"PK\x03\x04", 30);

/// Maximum size in bytes of a central directory.
const MAX_DIRECTORY: u64 = 256 << 20;

/// The 32-bit value that refers to the 64-bit field.
const IN_64: u64 = 0xffff_ffff;

/// A file in the archive.
#[derive(Debug)]
struct ArchiveMember {
    method: u16,
    crc32: u32,
    length: u64,
    stored: u64,
    /// Offset of its local header.
    header: u64,
}

/// Reads the tensors of an archive and the byte ranges of its storages.
pub(super) fn read(file: &RangeFile) -> Result<Contents, CheckpointError> {
    let path = file.path();
    let entries = entries(file)?;
    let pickle = entries
        .keys()
        .find(|name| name.strip_suffix("/data.pkl").is_some_and(|folder| !folder.contains('/')));
    let Some(pickle) = pickle else {
        let reason = "it is a zip archive without a `data.pkl`, expected a file of torch.save";
        let (path, reason) = (path.to_string(), reason.to_string());
        return Err(CheckpointError::NotACheckpoint { path, reason });
    };
    let folder = pickle.trim_end_matches("data.pkl");
    let unsupported = |reason: &str| {
        Err(CheckpointError::Unsupported { path: path.to_string(), reason: reason.to_string() })
    };
    if entries.contains_key(&format!("{folder}constants.pkl")) {
        return unsupported("it is a TorchScript program; save the model's state_dict() instead");
    }
    if let Some(order) = entries.get(&format!("{folder}byteorder"))
        && order.stored == 6
        && bytes(file, "byteorder", order)? != b"little"
    {
        return unsupported("it was written by a big-endian machine");
    }
    let pickle = bytes(file, pickle, &entries[pickle])?;
    let mut machine = Machine::default();
    let root =
        read_pickle(&mut &pickle[..], &mut machine).map_err(|reason| refused(path, reason))?;
    let tensors = state_dict(path, &machine, &root)?;
    // A missing entry is reported when the tensors are checked.
    let place = |tensor: &Tensor| {
        let name = format!("{folder}data/{}", tensor.storage);
        entries
            .get_key_value(&name)
            .map(|(name, entry)| (tensor.storage.clone(), (&name[..], entry)))
    };
    let places: BTreeMap<String, (&str, &ArchiveMember)> =
        tensors.values().filter_map(place).collect();
    for Storage { key, dtype, elements, .. } in &machine.storages {
        let Some((name, entry)) = places.get(key) else { continue };
        let found = entry.length / dtype.size() as u64;
        if found != *elements as u64 {
            let reason = format!("entry `{name}` has {found} elements, expected {elements}");
            return Err(CheckpointError::damaged(path, reason));
        }
    }
    let found = extents(file, &places.values().copied().collect::<Vec<_>>())?;
    Ok((tensors, places.into_keys().zip(found).collect()))
}

/// Reads the contents of a small entry.
fn bytes(file: &RangeFile, name: &str, entry: &ArchiveMember) -> Result<Vec<u8>, CheckpointError> {
    let extent = extents(file, &[(name, entry)])?[0];
    if extent.length > MAX_PICKLE {
        let reason = format!("`{name}` has {} bytes, at most {MAX_PICKLE} are read", extent.length);
        return Err(CheckpointError::Unsupported { path: file.path().to_string(), reason });
    }
    let bytes = file.read(extent.start..extent.start + extent.length)?;
    let mut crc = flate2::Crc::new();
    crc.update(&bytes);
    match extent.crc32 {
        Some(expected) if expected != crc.sum() => Err(CheckpointError::damaged(
            file.path(),
            format!("`{name}`: its bytes have another checksum than the file says"),
        )),
        _ => Ok(bytes),
    }
}

/// Returns the byte ranges of entries. The bytes follow the local headers, whose lengths only these
/// headers contain. All headers are read at once.
fn extents(
    file: &RangeFile,
    entries: &[(&str, &ArchiveMember)],
) -> Result<Vec<Extent>, CheckpointError> {
    let damaged = |name: &str, reason: &str| {
        CheckpointError::damaged(file.path(), format!("entry `{name}` {reason}"))
    };
    let within = |name: &str, start: u64, length: u64| {
        let end = start.checked_add(length).filter(|end| *end <= file.size());
        end.ok_or_else(|| damaged(name, "lies outside of the file"))
    };
    let mut headers = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        if entry.method != 0 || entry.length != entry.stored {
            let reason = format!("entry `{name}` is compressed, which torch.save never does");
            return Err(CheckpointError::Unsupported { path: file.path().to_string(), reason });
        }
        headers.push(entry.header..within(name, entry.header, LOCAL.1)?);
    }
    let mut extents = Vec::with_capacity(entries.len());
    for ((name, entry), header) in entries.iter().zip(file.read_all(&headers)?) {
        if !header.starts_with(LOCAL.0) {
            return Err(damaged(name, "does not begin where the directory says"));
        }
        let names = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
        let start = entry.header + LOCAL.1 + names;
        within(name, start, entry.length)?;
        // Archives written with `set_crc32_options(False)` have zeros instead of checksums.
        let crc32 = Some(entry.crc32).filter(|crc32| *crc32 != 0);
        extents.push(Extent { start, length: entry.length, crc32 });
    }
    Ok(extents)
}

/// Returns every entry of the central directory by name.
fn entries(file: &RangeFile) -> Result<BTreeMap<String, ArchiveMember>, CheckpointError> {
    let damaged = |reason: &str| CheckpointError::damaged(file.path(), reason);
    let cut = || damaged("its list of entries is truncated");
    let (start, length) = directory(file)?;
    let end = start.checked_add(length).filter(|end| *end <= file.size()).ok_or_else(cut)?;
    if length > MAX_DIRECTORY {
        return Err(damaged("its list of entries is longer than 256 MiB"));
    }
    let directory = file.read(start..end)?;
    let mut rest = &directory[..];
    let mut entries = BTreeMap::new();
    while !rest.is_empty() {
        if rest.len() < ENTRY.1 || !rest.starts_with(ENTRY.0) {
            return Err(cut());
        }
        let lengths = [28, 30, 32].map(|at| usize::from(u16_at(rest, at)));
        let total = ENTRY.1 + lengths.iter().sum::<usize>();
        if rest.len() < total {
            return Err(cut());
        }
        let name = String::from_utf8_lossy(&rest[ENTRY.1..ENTRY.1 + lengths[0]]).into_owned();
        let extra = &rest[ENTRY.1 + lengths[0]..ENTRY.1 + lengths[0] + lengths[1]];
        let entry = entry(rest, extra).ok_or_else(cut)?;
        entries.insert(name, entry);
        rest = &rest[total..];
    }
    Ok(entries)
}

/// Reads an entry of the directory. Numbers that do not fit into 32 bits follow in an extra field.
fn entry(record: &[u8], extra: &[u8]) -> Option<ArchiveMember> {
    let mut large = extra_64(extra);
    let mut wide = |at: usize| match u64::from(u32_at(record, at)) {
        IN_64 => {
            let (value, rest) = large.split_at_checked(8)?;
            large = rest;
            Some(u64_at(value, 0))
        }
        value => Some(value),
    };
    let (length, stored, header) = (wide(24)?, wide(20)?, wide(42)?);
    Some(ArchiveMember {
        method: u16_at(record, 10),
        crc32: u32_at(record, 16),
        length,
        stored,
        header,
    })
}

/// The field of 64-bit numbers among the extra fields; empty when it is missing.
fn extra_64(mut extra: &[u8]) -> &[u8] {
    while extra.len() >= 4 {
        let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let Some(field) = extra.get(4..4 + length) else { return &[] };
        if id == 1 {
            return field;
        }
        extra = &extra[4 + length..];
    }
    &[]
}

/// Returns the offset of the central directory and its length.
fn directory(file: &RangeFile) -> Result<(u64, u64), CheckpointError> {
    let cut = || CheckpointError::damaged(file.path(), "its end is missing: the file is truncated");
    // A comment of up to 64 KiB may follow.
    let tail_start = file.size().saturating_sub(END.1 + 0xffff);
    let tail = file.read(tail_start..file.size())?;
    let last = tail.len().checked_sub(END.1 as usize).ok_or_else(cut)?;
    let at = (0..=last).rev().find(|at| tail[*at..].starts_with(END.0)).ok_or_else(cut)?;
    let (length, start) = (u64::from(u32_at(&tail, at + 12)), u64::from(u32_at(&tail, at + 16)));
    let locator = (tail_start + at as u64).checked_sub(LOCATOR_64.1);
    let Some(locator) = locator.filter(|_| length == IN_64 || start == IN_64) else {
        return Ok((start, length));
    };
    let record = file.read(locator..locator + LOCATOR_64.1)?;
    if !record.starts_with(LOCATOR_64.0) {
        return Ok((start, length));
    }
    let at = u64_at(&record, 8);
    let end = at.checked_add(END_64.1).filter(|end| *end <= file.size()).ok_or_else(cut)?;
    let record = file.read(at..end)?;
    match record.starts_with(END_64.0) {
        true => Ok((u64_at(&record, 48), u64_at(&record, 40))),
        false => Err(cut()),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
