//! Reads files of PyTorch before 1.6: five pickles (a magic number, the version, a description of
//! the machine, the object, the names of the storages), then each storage after its length.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use super::machine::{Machine, Storage, Value};
use super::pickle::read_pickle;
use super::state_dict::{Choose, refused};
use super::{Contents, Extent, MAX_PICKLE};
use crate::error::CheckpointError;
use gimlet_storage::RangeFile;

/// Value of the first pickle.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;

/// The only version of the format.
const VERSION: i128 = 1001;

/// A reader that counts the bytes that it has read.
struct Counted<R> {
    source: R,
    at: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(into)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads the chosen tensors of a file and the byte ranges of its storages.
pub(super) fn read(file: &RangeFile, choose: Choose<'_>) -> Result<Contents, CheckpointError> {
    let path = file.path();
    let source = BufReader::with_capacity(1 << 16, path.open()?.take(MAX_PICKLE));
    let mut source = Counted { source, at: 0 };
    let mut machine = Machine::default();
    let mut next = |machine: &mut Machine| {
        read_pickle(&mut source, machine).map_err(|reason| refused(path, reason))
    };
    let is = |value: &Value, number| matches!(value, Value::Int(found) if *found == number);
    let magic = next(&mut machine);
    if !magic.is_ok_and(|magic| is(&magic, MAGIC)) {
        let reason =
            "it is not a file of torch.save, which begins with a magic number or is a zip archive";
        let (path, reason) = (path.to_string(), reason.to_string());
        return Err(CheckpointError::NotACheckpoint { path, reason });
    }
    if !is(&next(&mut machine)?, VERSION) {
        return Err(CheckpointError::damaged(path, "it is of an unknown version, expected 1001"));
    }
    let system = next(&mut machine)?;
    if is_big_endian(&machine, &system) {
        let reason = "it was written by a big-endian machine".to_string();
        return Err(CheckpointError::Unsupported { path: path.to_string(), reason });
    }
    let root = next(&mut machine)?;
    let keys = next(&mut machine)?;
    let dict = choose(path, &machine, &root)?;
    Ok((dict, storages(file, &machine, &keys, source.at)?))
}

fn is_big_endian(machine: &Machine, system: &Value) -> bool {
    let Value::Dict(system) = *system else { return false };
    machine.dicts[system]
        .iter()
        .any(|(key, value)| key.text() == Some("little_endian") && matches!(value, Value::Int(0)))
}

/// Returns the byte ranges of the storages. They follow in the order of their names, each after the
/// number of its elements. The pickle contains these numbers too, so all numbers in the file can be
/// read at once.
fn storages(
    file: &RangeFile,
    machine: &Machine,
    keys: &Value,
    mut at: u64,
) -> Result<BTreeMap<String, Extent>, CheckpointError> {
    let path = file.path();
    let damaged = |reason: &str| CheckpointError::damaged(path, reason);
    let known: BTreeMap<&str, &Storage> =
        machine.storages.iter().map(|storage| (&storage.key[..], storage)).collect();
    let keys =
        machine.list(keys, "the list of storages").map_err(|reason| refused(path, reason))?;
    let (mut found, mut counts) = (Vec::new(), Vec::new());
    for key in keys {
        let storage = key.text().and_then(|key| known.get(key));
        let storage = storage.ok_or_else(|| damaged("it lists a storage that nothing uses"))?;
        let length = (storage.elements as u64).checked_mul(storage.dtype.size() as u64);
        let start = at + 8;
        let end = length.and_then(|length| start.checked_add(length));
        let end = end.filter(|end| *end <= file.size());
        let end = end.ok_or_else(|| damaged("it ends within its storages"))?;
        counts.push(at..start);
        found.push((*storage, Extent { start, length: end - start, crc32: None }));
        at = end;
    }
    for ((storage, _), count) in found.iter().zip(file.read_all(&counts)?) {
        let count = u64::from_le_bytes(count.try_into().expect("eight bytes were read"));
        if count != storage.elements as u64 {
            let Storage { key, elements, .. } = storage;
            let reason = format!("storage `{key}` has {count} elements, expected {elements}");
            return Err(damaged(&reason));
        }
    }
    Ok(found.into_iter().map(|(storage, extent)| (storage.key.clone(), extent)).collect())
}
