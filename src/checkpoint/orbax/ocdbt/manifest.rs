//! Reads the manifest, which names the newest tree.

use super::codec::{Fields, unframe};
use super::files::{self, DataFile};
use crate::error::CheckpointError;
use gimlet_storage::Path;

/// The file that makes a folder a database.
pub const MANIFEST: &str = "manifest.ocdbt";

const MAGIC: u32 = 0x0cdb_3a2a;

/// The offset and length that stand for a missing node: the tree is empty.
const ABSENT: u64 = u64::MAX;

/// The part of a data file that holds a node.
#[derive(Clone, Debug)]
pub struct NodePlace {
    pub file: DataFile,
    pub offset: u64,
    pub length: u64,
    /// Number of levels below the node.
    pub height: u8,
}

/// Returns the root of the newest tree; `None` if the tree has no keys.
pub fn root(checkpoint: &Path, dir: &Path) -> Result<Option<NodePlace>, CheckpointError> {
    let file = dir.join(MANIFEST);
    match read(checkpoint, &file, true)? {
        Manifest::Single(root) => Ok(root),
        Manifest::Numbered => {
            let numbered = |path: &Path| {
                let number = path.file_name().strip_prefix("manifest.")?;
                let is_number = number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit());
                is_number.then(|| path.clone())
            };
            let newest = dir.list()?.iter().filter_map(numbered).max_by_key(Path::to_string);
            let Some(newest) = newest else { return Ok(None) };
            match read(checkpoint, &newest, false)? {
                Manifest::Single(root) => Ok(root),
                Manifest::Numbered => unreachable!("not asked for"),
            }
        }
    }
}

enum Manifest {
    Single(Option<NodePlace>),
    /// Each version has a separate manifest.
    Numbered,
}

fn read(checkpoint: &Path, file: &Path, is_first: bool) -> Result<Manifest, CheckpointError> {
    let damaged = |reason: String| {
        let name = file.relative_to(checkpoint);
        CheckpointError::damaged(checkpoint, format!("`{name}` {reason}"))
    };
    let frame = match file.read() {
        Err(error) if error.is_not_found() => return Err(damaged("is missing".to_string())),
        frame => frame?,
    };
    let body = unframe(&frame, MAGIC).map_err(damaged)?;
    parse(Fields::new(&body), is_first).map_err(damaged)
}

fn parse(mut fields: Fields<'_>, is_first: bool) -> Result<Manifest, String> {
    let is_numbered = skip_configuration(&mut fields)?;
    if is_numbered && is_first {
        return Ok(Manifest::Numbered);
    }
    let files = files::read(&mut fields, "")?;
    let count = fields.count()?;
    if count == 0 {
        return Ok(Manifest::Single(None));
    }
    let newest = count - 1;
    fields.numbers(count)?; // generations
    let height = fields.bytes(count)?[newest];
    let file = fields.sizes(count)?[newest];
    let (offset, length) = (fields.numbers(count)?[newest], fields.numbers(count)?[newest]);
    // Statistics, times and older versions follow.
    if (offset, length) == (ABSENT, ABSENT) {
        return Ok(Manifest::Single(None));
    }
    let file = files::listed(&files, file)?.clone();
    Ok(Manifest::Single(Some(NodePlace { file, offset, length, height })))
}

/// Skips the configuration of the database, and returns whether its manifests are numbered.
fn skip_configuration(fields: &mut Fields<'_>) -> Result<bool, String> {
    fields.bytes(16)?; // identifier
    let is_numbered = match fields.number()? {
        0 => false,
        1 => true,
        other => return Err(format!("is of the unknown kind {other}")),
    };
    fields.number()?; // largest value in a leaf
    fields.number()?; // largest node
    fields.byte()?; // arity of the tree of versions
    match fields.number()? {
        0 => {}
        1 => drop(fields.bytes(4)?), // level of zstd
        other => return Err(format!("writes by the unknown compression {other}")),
    }
    Ok(is_numbered)
}
