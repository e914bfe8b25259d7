//! Reads `flax_model.msgpack` of transformers' Flax models.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use super::RawTensors;
use super::scan::Scan;
use super::sums::Piece;
use crate::error::CheckpointError;
use crate::msgpack::{self, Node, Source};
use crate::names::hugging_face::WeightsLayout;
use crate::raw::RawInfos;
use gimlet_storage::{Path, RangeFile};

/// An open file.
#[derive(Debug)]
pub(super) struct FlaxFile {
    file: RangeFile,
    tensors: RawInfos,
    extents: BTreeMap<String, Vec<Range<u64>>>,
}

impl FlaxFile {
    /// Opens a file and finds its arrays.
    ///
    /// # Errors
    /// The file is truncated, or holds something else than maps of arrays.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let file = path.open_ranges()?;
        let (mut tensors, mut extents) = (RawInfos::new(), BTreeMap::new());
        let root = msgpack::read(Scan::new(&file, WINDOW, u64::MAX));
        let leaves = root.and_then(|entries| msgpack::leaves(Node::Map(entries)));
        for (name, leaf) in leaves.map_err(|error| error.at(path))? {
            // Numbers and other plain values are not part of a model.
            if let Node::Array(array) = leaf {
                tensors.insert(name.clone(), array.info);
                extents.insert(name, array.parts);
            }
        }
        Ok(Self { file, tensors, extents })
    }
}

/// Number of bytes that are read at a time: the headers of arrays lie far apart.
const WINDOW: u64 = 1 << 12;

/// Returns the byte ranges of the elements of arrays, without reading them.
impl Source for Scan<'_> {
    type Elements = Range<u64>;

    fn elements(&mut self, length: u64) -> io::Result<Range<u64>> {
        self.skip(length)
    }
}

impl RawTensors for FlaxFile {
    fn tensors(&self) -> &RawInfos {
        &self.tensors
    }

    fn layout(&self) -> WeightsLayout {
        WeightsLayout::Flax
    }

    fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<u8>, CheckpointError> {
        let row = self.tensors[name].row_bytes() as u64;
        Ok(read(&self.file, &self.extents[name], rows.start as u64 * row..rows.end as u64 * row)?)
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::with_capacity(self.extents.len());
        for (name, extents) in &self.extents {
            let piece = |range: &Range<u64>| Piece {
                name,
                file: &self.file,
                range: range.clone(),
                expected: None,
            };
            pieces.extend(extents.iter().map(piece));
        }
        pieces
    }
}

/// Reads a range of the bytes that the extents hold one after the other.
fn read(
    file: &RangeFile,
    extents: &[Range<u64>],
    wanted: Range<u64>,
) -> Result<Vec<u8>, gimlet_storage::StorageError> {
    let mut parts = Vec::new();
    let mut before = 0;
    for extent in extents {
        let length = extent.end - extent.start;
        let from = wanted.start.clamp(before, before + length) - before;
        let to = wanted.end.clamp(before, before + length) - before;
        if from < to {
            parts.push(extent.start + from..extent.start + to);
        }
        before += length;
    }
    match &parts[..] {
        [one] => file.read(one.clone()),
        parts => Ok(file.read_all(parts)?.concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_lie_in_several_extents() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(&*dir.path().join("x")).unwrap();
        path.write_atomic(b"..abc...defg.").unwrap();
        let file = path.open_ranges().unwrap();
        let check = |wanted: Range<u64>, expected: &[u8]| {
            assert_eq!(read(&file, &[2..5, 8..12], wanted).unwrap(), expected);
        };
        check(0..7, b"abcdefg");
        check(2..4, b"cd");
        check(1..2, b"b");
        check(3..6, b"def");
        check(3..3, b"");
    }
}
