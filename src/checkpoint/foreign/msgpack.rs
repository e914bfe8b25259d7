//! Finds the arrays in a file of flax's msgpack: their names and byte ranges. The elements are not
//! read.

use std::collections::BTreeMap;
use std::ops::Range;

use super::MAX_RANK;
use crate::array::DType;
use crate::error::CheckpointError;
use crate::native::{CHUNKED_KEY, EXT_ARRAY, MAX_HEADS};
use crate::raw::RawInfo;
use gimlet_storage::{Path, RangeFile};

/// Number of bytes that are read at a time: the headers of arrays lie far apart.
const WINDOW: u64 = 1 << 12;

/// Maximum depth of the tree: models have about ten levels, and each level uses some of the stack.
const MAX_DEPTH: usize = 100;

/// Maximum length of a key, of a whole name with all its keys, or of a type.
const MAX_TEXT: u64 = 1 << 10;

/// An array and the byte ranges of its elements, one after the other in C order.
#[derive(Debug)]
pub(super) struct Placed {
    pub info: RawInfo,
    pub extents: Vec<Range<u64>>,
}

/// Returns every array under its path of keys: `encoder/block/0/layer/0/layer_norm/weight`.
///
/// # Errors
/// The file is truncated, or holds something else than maps of arrays.
pub(super) fn arrays(file: &RangeFile) -> Result<BTreeMap<String, Placed>, CheckpointError> {
    let mut scanner = Scanner { file, at: 0, num_nodes: 0, window: Vec::new(), window_start: 0 };
    let root = scanner.node(MAX_DEPTH)?;
    if scanner.at != file.size() {
        return Err(scanner.damaged("has more bytes after the end of its map"));
    }
    let mut found = BTreeMap::new();
    match root {
        Node::Map(_) => flatten(file.path(), String::new(), root, &mut found)?,
        _ => return Err(other(file.path(), "its root is not a map")),
    }
    Ok(found)
}

enum Node {
    Map(Vec<(String, Node)>),
    Array(Placed),
    Number(u64),
    /// A value that is not an array or a number, such as a boolean or nil.
    Plain,
}

fn other(path: &Path, what: &str) -> CheckpointError {
    let reason = format!("{what}, expected flax's msgpack of a map of arrays");
    CheckpointError::NotACheckpoint { path: path.to_string(), reason }
}

/// Collects the arrays of a tree; numbers and other plain values are not part of a model.
fn flatten(
    path: &Path,
    name: String,
    node: Node,
    found: &mut BTreeMap<String, Placed>,
) -> Result<(), CheckpointError> {
    match node {
        Node::Array(array) => {
            found.insert(name, array);
        }
        Node::Map(entries) if entries.iter().any(|(key, _)| key == CHUNKED_KEY) => {
            let reason = format!("`{name}` is an array in pieces that do not make up its shape");
            let array = joined(entries).ok_or_else(|| CheckpointError::damaged(path, reason))?;
            found.insert(name, array);
        }
        Node::Map(entries) => {
            for (key, node) in entries {
                let child = if name.is_empty() { key } else { format!("{name}/{key}") };
                if child.len() as u64 > MAX_TEXT {
                    let reason = format!("it has a name of {} bytes", child.len());
                    return Err(CheckpointError::damaged(path, reason));
                }
                flatten(path, child, node, found)?;
            }
        }
        Node::Number(_) | Node::Plain => {}
    }
    Ok(())
}

/// Joins an array that flax cut into pieces: `{shape: {"0": ..}, chunks: {"0": array, ..}}`.
fn joined(entries: Vec<(String, Node)>) -> Option<Placed> {
    let (mut shape, mut pieces) = (Vec::new(), Vec::new());
    for (key, node) in entries {
        match (&key[..], node) {
            ("shape", Node::Map(sizes)) => shape = numbered(sizes)?,
            ("chunks", Node::Map(chunks)) => pieces = numbered(chunks)?,
            _ => {}
        }
    }
    let size = |node: Node| match node {
        Node::Number(size) => size.try_into().ok(),
        _ => None,
    };
    let shape: Vec<usize> = shape.into_iter().map(size).collect::<Option<_>>()?;
    let (mut dtype, mut extents, mut bytes) = (None, Vec::new(), 0);
    for piece in pieces {
        let Node::Array(piece) = piece else { return None };
        if *dtype.get_or_insert(piece.info.dtype) != piece.info.dtype {
            return None;
        }
        bytes += piece.info.num_bytes()?;
        extents.extend(piece.extents);
    }
    let info = RawInfo { dtype: dtype?, shape };
    (info.shape.len() <= MAX_RANK && info.num_bytes() == Some(bytes))
        .then_some(Placed { info, extents })
}

/// Returns the values of a map from `"0"`, `"1"`, ..., which flax writes for a tuple.
fn numbered(entries: Vec<(String, Node)>) -> Option<Vec<Node>> {
    let mut numbered = BTreeMap::new();
    for (key, node) in entries {
        numbered.insert(key.parse::<usize>().ok()?, node);
    }
    let count = numbered.len();
    let is_whole = numbered.keys().copied().eq(0..count);
    is_whole.then(|| numbered.into_values().collect())
}

struct Scanner<'a> {
    file: &'a RangeFile,
    at: u64,
    /// Number of nodes so far: each takes a hundred bytes in memory, and two in the file.
    num_nodes: usize,
    /// The bytes that were read last, from `window_start` on.
    window: Vec<u8>,
    window_start: u64,
}

impl Scanner<'_> {
    fn damaged(&self, reason: &str) -> CheckpointError {
        CheckpointError::damaged(self.file.path(), format!("it {reason}, at byte {}", self.at))
    }

    /// Reads the next bytes, which are few.
    fn bytes(&mut self, length: u64) -> Result<&[u8], CheckpointError> {
        let (start, end) = (self.at, self.at + length);
        if end > self.file.size() {
            return Err(self.damaged("ends within its map"));
        }
        let window_end = self.window_start + self.window.len() as u64;
        if start < self.window_start || end > window_end {
            self.window =
                self.file.read(start..(start + WINDOW.max(length)).min(self.file.size()))?;
            self.window_start = start;
        }
        self.at = end;
        let from = (start - self.window_start) as usize;
        Ok(&self.window[from..from + length as usize])
    }

    fn skip(&mut self, length: u64) -> Result<(), CheckpointError> {
        match self.at.checked_add(length).filter(|end| *end <= self.file.size()) {
            Some(end) => self.at = end,
            None => return Err(self.damaged("ends within its map")),
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, CheckpointError> {
        Ok(self.bytes(1)?[0])
    }

    /// Reads a big-endian number of `length` bytes.
    fn number(&mut self, length: u64) -> Result<u64, CheckpointError> {
        Ok(self.bytes(length)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn node(&mut self, depth: usize) -> Result<Node, CheckpointError> {
        if depth == 0 {
            return Err(self.damaged("has maps that are nested too deeply"));
        }
        self.num_nodes += 1;
        if self.num_nodes > MAX_HEADS {
            return Err(self.damaged(&format!("holds more than {MAX_HEADS} values")));
        }
        match self.byte()? {
            head @ 0x00..=0x7f => Ok(Node::Number(head.into())),
            head @ 0x80..=0x8f => self.map(u64::from(head & 0x0f), depth),
            head @ 0xcc..=0xcf => Ok(Node::Number(self.number(1 << (head - 0xcc))?)),
            head @ 0xde..=0xdf => {
                let length = self.number(2 << (head - 0xde))?;
                self.map(length, depth)
            }
            head @ 0xd4..=0xd8 => self.extension(1 << (head - 0xd4)),
            head @ 0xc7..=0xc9 => {
                let length = self.number(1 << (head - 0xc7))?;
                self.extension(length)
            }
            0xc0 | 0xc2 | 0xc3 => Ok(Node::Plain),
            head => {
                let what = format!("byte {} is {head:#04x}", self.at - 1);
                Err(other(self.file.path(), &what))
            }
        }
    }

    fn map(&mut self, length: u64, depth: usize) -> Result<Node, CheckpointError> {
        // No capacity is reserved, because the length in the file may be false.
        let mut entries = Vec::new();
        for _ in 0..length {
            let key = self.text()?;
            entries.push((key, self.node(depth - 1)?));
        }
        Ok(Node::Map(entries))
    }

    /// Reads a text, or bytes that hold text: Python 2 and the earliest flax write type names so.
    fn text(&mut self) -> Result<String, CheckpointError> {
        let length = match self.byte()? {
            head @ 0xa0..=0xbf => u64::from(head & 0x1f),
            head @ 0xd9..=0xdb => self.number(1 << (head - 0xd9))?,
            head @ 0xc4..=0xc6 => self.number(1 << (head - 0xc4))?,
            _ => return Err(self.damaged("has a key or type that is not text")),
        };
        if length > MAX_TEXT {
            return Err(self.damaged(&format!("has a key or type of {length} bytes")));
        }
        let text = std::str::from_utf8(self.bytes(length)?).map(str::to_string);
        text.map_err(|_| self.damaged("has a key or type that is not text"))
    }

    /// Reads an array: the packed list `[shape, dtype, bytes]`.
    fn extension(&mut self, length: u64) -> Result<Node, CheckpointError> {
        let kind = self.byte()?.cast_signed();
        if kind != EXT_ARRAY {
            self.skip(length)?;
            return Ok(Node::Plain);
        }
        let start = self.at;
        if self.byte()? != 0x93 {
            return Err(self.damaged("has an array that is not a list of shape, type and bytes"));
        }
        let shape = self.shape()?;
        let name = self.text()?;
        let Some(dtype) = DType::from_name(&name) else {
            return Err(CheckpointError::Unsupported {
                path: self.file.path().to_string(),
                reason: format!(
                    "it holds the type `{name}`, expected floats of 16 bits or more, or integers"
                ),
            });
        };
        let bytes = match self.byte()? {
            head @ 0xc4..=0xc6 => self.number(1 << (head - 0xc4))?,
            _ => return Err(self.damaged("has an array without bytes")),
        };
        let extent = self.at..self.at.saturating_add(bytes);
        self.skip(bytes)?;
        let info = RawInfo { dtype, shape };
        if self.at - start != length || info.num_bytes() != Some(bytes) {
            let claim = format!("has {bytes} bytes for an array {dtype} {:?}", info.shape);
            return Err(self.damaged(&claim));
        }
        Ok(Node::Array(Placed { info, extents: vec![extent] }))
    }

    fn shape(&mut self) -> Result<Vec<usize>, CheckpointError> {
        let rank = match self.byte()? {
            head @ 0x90..=0x9f => usize::from(head & 0x0f),
            0xdc => self.number(2)? as usize,
            _ => return Err(self.damaged("has an array without a shape")),
        };
        if rank > MAX_RANK {
            return Err(self.damaged(&format!("has an array of {rank} dimensions")));
        }
        let mut shape = Vec::with_capacity(rank);
        for _ in 0..rank {
            let size = match self.byte()? {
                head @ 0x00..=0x7f => head.into(),
                head @ 0xcc..=0xcf => self.number(1 << (head - 0xcc))?,
                _ => return Err(self.damaged("has a shape that is not of sizes")),
            };
            shape.push(usize::try_from(size).map_err(|_| self.damaged("has a shape too large"))?);
        }
        Ok(shape)
    }
}
