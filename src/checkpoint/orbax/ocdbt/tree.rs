//! Reads the B+tree from its root to its keys.

use std::collections::BTreeSet;

use super::Entries;
use super::codec::{Fields, Prefixed, unframe};
use super::files::{self, DataFile};
use super::manifest::NodePlace;
use crate::error::CheckpointError;
use crate::zarr::FileRange;
use gimlet_storage::{Path, StorageError};

const MAGIC: u32 = 0x0cdb_20de;

/// Maximum size of a node in its file, in bytes.
const MAX_NODE_BYTES: u64 = 256 << 20;

/// Maximum size of the tree in memory, in bytes: the size for two million chunks.
const MAX_TREE_BYTES: usize = 512 << 20;

/// Bytes in memory of an entry besides its texts: a node of the map may be half full, and texts are
/// allocated separately. An entry of a few bytes in the file needs hundreds of bytes in memory.
const ENTRY_BYTES: usize = 2 * size_of::<(String, FileRange)>() + 32;

/// Bytes in memory of a node that has not been read yet.
const CHILD_BYTES: usize = 2 * size_of::<Child>() + 64;

/// Maximum length of a key, set by the format.
const MAX_KEY_LENGTH: usize = 65_535;

/// Reads every key below a root.
pub fn entries(checkpoint: &Path, dir: &Path, root: NodePlace) -> Result<Entries, CheckpointError> {
    let mut walk = Walk { dir, entries: Entries::new(), bytes: 0, seen: BTreeSet::new() };
    let mut pending = vec![(root, Vec::new())];
    while let Some((place, prefix)) = pending.pop() {
        let file = dir.join(&place.file.path);
        let damaged = |reason: String| {
            let name = file.relative_to(checkpoint);
            let reason = format!("`{name}` (node at byte {}) {reason}", place.offset);
            CheckpointError::damaged(checkpoint, reason)
        };
        let frame = walk.read(&file, &place).map_err(|failure| match failure {
            Failure::Damaged(reason) => damaged(reason),
            Failure::Storage(error) => error.into(),
        })?;
        let children = unframe(&frame, MAGIC).and_then(|body| walk.node(&body, &place, &prefix));
        pending.extend(children.map_err(damaged)?);
    }
    Ok(walk.entries)
}

enum Failure {
    Damaged(String),
    Storage(StorageError),
}

struct Walk<'a> {
    dir: &'a Path,
    entries: Entries,
    /// Bytes in memory of the entries and the nodes.
    bytes: usize,
    /// Nodes that were read, to detect cycles.
    seen: BTreeSet<(String, u64)>,
}

/// A node and the common prefix of all keys below it.
type Child = (NodePlace, Vec<u8>);

impl Walk<'_> {
    fn read(&mut self, file: &Path, place: &NodePlace) -> Result<Vec<u8>, Failure> {
        let damaged = |reason: &str| Failure::Damaged(reason.to_string());
        if !self.seen.insert((place.file.path.clone(), place.offset)) {
            return Err(damaged("lies below itself or two others"));
        }
        let end = place.offset.checked_add(place.length);
        let Some(end) = end.filter(|_| place.length <= MAX_NODE_BYTES) else {
            return Err(Failure::Damaged(format!("claims {} bytes", place.length)));
        };
        file.read_range(place.offset..end).map_err(|error| match error {
            error if error.is_not_found() => damaged("is missing"),
            StorageError::Io { ref source, .. }
                if source.kind() == std::io::ErrorKind::UnexpectedEof =>
            {
                damaged("is truncated")
            }
            other => Failure::Storage(other),
        })
    }

    /// Stores the keys of a leaf, or returns the children of an inner node.
    fn node(
        &mut self,
        body: &[u8],
        place: &NodePlace,
        prefix: &[u8],
    ) -> Result<Vec<Child>, String> {
        let mut fields = Fields::new(body);
        let height = fields.byte()?;
        if height != place.height {
            return Err(format!("is of height {height}, expected {}", place.height));
        }
        let files = files::read(&mut fields, &place.file.base)?;
        let count = fields.count()?;
        let children = match height {
            0 => self.leaf(&mut fields, &files, count, prefix).map(|()| Vec::new())?,
            _ => self.interior(&mut fields, &files, count, (height - 1, prefix))?,
        };
        fields.finish()?;
        Ok(children)
    }

    /// Counts bytes that are about to be allocated.
    fn hold(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > MAX_TREE_BYTES {
            true => Err(format!(
                "brings the tree to {} bytes in memory, expected {MAX_TREE_BYTES} at most",
                self.bytes
            )),
            false => Ok(()),
        }
    }

    fn leaf(
        &mut self,
        fields: &mut Fields<'_>,
        files: &[DataFile],
        count: usize,
        prefix: &[u8],
    ) -> Result<(), String> {
        let keys = Prefixed::read(fields, count)?.texts(fields, MAX_KEY_LENGTH)?;
        let lengths = fields.numbers(count)?;
        let kinds = fields.numbers(count)?;
        let num_indirect = kinds.iter().filter(|kind| **kind == 1).count();
        let mut ids = fields.sizes(num_indirect)?.into_iter();
        let mut offsets = fields.numbers(num_indirect)?.into_iter();
        for ((key, length), kind) in keys.into_iter().zip(lengths).zip(kinds) {
            let key = String::from_utf8([prefix, &key].concat())
                .map_err(|_| "has a key that is not text")?;
            self.hold(ENTRY_BYTES + key.len())?;
            let value = match kind {
                0 => {
                    let bytes = fields.bytes(length as usize)?;
                    self.hold(bytes.len())?;
                    FileRange::Inline(bytes.into())
                }
                1 => {
                    let file = files::listed(files, ids.next().expect("as many as kinds"))?;
                    let offset = offsets.next().expect("as many as kinds");
                    offset.checked_add(length).ok_or("has a value beyond the end of its file")?;
                    let file = self.dir.join(&file.path);
                    self.hold(file.as_str().len())?;
                    FileRange::Slice { file, offset, length }
                }
                other => return Err(format!("has a value of the unknown kind {other}")),
            };
            if self.entries.insert(key, value).is_some() {
                return Err("has a key that another leaf has too".to_string());
            }
        }
        Ok(())
    }

    fn interior(
        &mut self,
        fields: &mut Fields<'_>,
        files: &[DataFile],
        count: usize,
        (height, prefix): (u8, &[u8]),
    ) -> Result<Vec<Child>, String> {
        let keys = Prefixed::read(fields, count)?;
        let shared = fields.sizes(count)?;
        let keys = keys.texts(fields, MAX_KEY_LENGTH)?;
        let ids = fields.sizes(count)?;
        let (offsets, lengths) = (fields.numbers(count)?, fields.numbers(count)?);
        // Statistics: numbers of keys, of bytes in nodes and of bytes in values.
        fields.numbers(3 * count)?;
        let mut child = |at: usize| {
            let below = keys[at].get(..shared[at]).ok_or("shares more of a key than there is")?;
            let below = [prefix, below].concat();
            if below.len() > MAX_KEY_LENGTH {
                return Err(format!("has a key of {} bytes", below.len()));
            }
            let file = files::listed(files, ids[at])?.clone();
            // The path is stored a second time in the set of nodes that were read.
            self.hold(CHILD_BYTES + below.len() + file.base.len() + 2 * file.path.len())?;
            Ok((NodePlace { file, offset: offsets[at], length: lengths[at], height }, below))
        };
        (0..count).map(&mut child).collect()
    }
}
