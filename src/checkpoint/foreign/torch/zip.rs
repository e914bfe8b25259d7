//! Reads zip archives that `torch.save` wrote: a pickle `data.pkl` and one uncompressed entry for
//! each storage, in a folder of any name.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use zip::read::{ArchiveOffset, Config, ZipArchiveMetadata, ZipFileEntry};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::super::scan::Scan;
use super::machine::{Machine, Storage};
use super::pickle::read_pickle;
use super::state_dict::{Choose, Tensor, refused};
use super::{Contents, Extent, MAX_PICKLE};
use crate::error::CheckpointError;
use gimlet_storage::{Path, RangeFile, StorageError};

/// Number of bytes of the list of entries that are read at a time. It is the end of the file, and
/// seldom longer.
const WINDOW: u64 = 1 << 20;

/// Maximum number of bytes that are read of that list.
const MAX_DIRECTORY: u64 = 256 << 20;

/// First bytes of the local header of an entry, and its length without names.
const LOCAL: (&[u8], u64) = (b"PK\x03\x04", 30);

/// Reads the chosen tensors of an archive and the byte ranges of its storages.
pub(super) fn read(file: &RangeFile, choose: Choose<'_>) -> Result<Contents, CheckpointError> {
    let path = file.path();
    let directory = directory(file)?;
    let entries: BTreeMap<_, _> = (0..directory.len())
        .filter_map(|index| directory.entry(index).ok())
        .map(|entry| (String::from_utf8_lossy(entry.name_raw()).into_owned(), entry))
        .collect();
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
        && order.size() == 6
        && bytes(file, "byteorder", order)? != b"little"
    {
        return unsupported("it was written by a big-endian machine");
    }
    let pickle = bytes(file, pickle, &entries[pickle])?;
    let mut machine = Machine::default();
    let root =
        read_pickle(&mut &pickle[..], &mut machine).map_err(|reason| refused(path, reason))?;
    let dict = choose(path, &machine, &root)?;
    // A missing entry is reported when the tensors are checked.
    let place = |tensor: &Tensor| {
        let name = format!("{folder}data/{}", tensor.storage);
        entries
            .get_key_value(&name)
            .map(|(name, entry)| (tensor.storage.clone(), (&name[..], entry)))
    };
    let places: BTreeMap<String, (&str, &ZipFileEntry<'_>)> =
        dict.tensors().filter_map(|(_, tensor)| place(tensor)).collect();
    for Storage { key, dtype, elements, .. } in &machine.storages {
        let Some((name, entry)) = places.get(key) else { continue };
        let found = entry.size() / dtype.size() as u64;
        if found != *elements as u64 {
            let reason = format!("entry `{name}` has {found} elements, expected {elements}");
            return Err(CheckpointError::damaged(path, reason));
        }
    }
    let found = extents(file, &places.values().copied().collect::<Vec<_>>())?;
    let found = places.into_keys().zip(found).collect();
    Ok((dict, found))
}

/// Reads the contents of a small entry.
fn bytes(
    file: &RangeFile,
    name: &str,
    entry: &ZipFileEntry<'_>,
) -> Result<Vec<u8>, CheckpointError> {
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
    entries: &[(&str, &ZipFileEntry<'_>)],
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
        if entry.compression() != CompressionMethod::Stored
            || entry.size() != entry.compressed_size()
        {
            let reason = format!("entry `{name}` is compressed, which torch.save never does");
            return Err(CheckpointError::Unsupported { path: file.path().to_string(), reason });
        }
        let start = entry.header_start();
        headers.push(start..within(name, start, LOCAL.1)?);
    }
    let mut extents = Vec::with_capacity(entries.len());
    for ((name, entry), header) in entries.iter().zip(file.read_all(&headers)?) {
        if !header.starts_with(LOCAL.0) {
            return Err(damaged(name, "does not begin where the directory says"));
        }
        let [name_length, extra_length] =
            [26, 28].map(|at| u64::from(u16::from_le_bytes([header[at], header[at + 1]])));
        let start = entry.header_start() + LOCAL.1 + name_length + extra_length;
        within(name, start, entry.size())?;
        // Archives written with `set_crc32_options(False)` have zeros instead of checksums.
        let crc32 = Some(entry.crc32()).filter(|crc32| *crc32 != 0);
        extents.push(Extent { start, length: entry.size(), crc32 });
    }
    Ok(extents)
}

/// Reads the list of entries at the end of the file.
fn directory(file: &RangeFile) -> Result<Arc<ZipArchiveMetadata>, CheckpointError> {
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let archive = ZipArchive::with_config(config, Scan::new(file, WINDOW, MAX_DIRECTORY));
    archive.map(|archive| archive.metadata()).map_err(|error| unreadable(file.path(), error))
}

/// The error of reading the list of entries.
fn unreadable(path: &Path, error: ZipError) -> CheckpointError {
    match error {
        ZipError::Io(error)
            if !matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) =>
        {
            StorageError::new("read", path, error).into()
        }
        error => CheckpointError::damaged(
            path,
            format!("its end is missing or is not a list of entries: {error}"),
        ),
    }
}
