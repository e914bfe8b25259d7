//! A journal of the finished parts of a conversion, in a file beside its output: if the conversion
//! is killed, the next one continues from there. The first line describes the conversion, and each
//! other line a piece that was written completely:
//! ```text
//! {"version":"0.1.0","from":"runs/checkpoint_6","files":{"checkpoint":"1713 bytes, ..."},"options":"(\"t5x\", None, None)"}
//! {"file":"target.a/0.0","bytes":16777216,"crc32c":"8a9136aa"}
//! ```
//! Each line has the checksum of its piece, since bytes that were not durable may be lost or
//! truncated in a crash.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::listing::file_sizes;
use super::parallel;
use super::stored::Stored;
use gimlet_storage::{GrowingFile, Path};

/// The file beside a single file of tensors that describes it.
const CONFIG_FILE: &str = "config.json";

/// The input and the options of a conversion: if they are equal, so is every byte that is written.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    /// Gimlet's version, since another version may write other bytes.
    version: String,
    /// The checkpoint that is read.
    from: String,
    /// The state of each of its files.
    files: BTreeMap<String, String>,
    /// The other options that decide the bytes.
    options: String,
}

impl Job {
    /// Describes the conversion of a checkpoint.
    ///
    /// # Errors
    /// A file of the checkpoint cannot be inspected.
    pub(super) fn of(from: &dyn Stored, options: &dyn fmt::Debug) -> Result<Self, CheckpointError> {
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_string(),
            from: from.path().to_string(),
            files: states(from.path())?,
            options: format!("{options:?}"),
        })
    }
}

impl Job {
    /// Whether a journal exists and describes another job.
    pub(super) fn differs(&self, journal: &Path) -> Result<bool, CheckpointError> {
        let text = match journal.read() {
            Err(error) if error.is_not_found() => return Ok(false),
            text => text?,
        };
        let first = text.split(|byte| *byte == b'\n').next().expect("split yields one part");
        Ok(serde_json::from_slice::<Self>(first).is_ok_and(|found| found != *self))
    }
}

/// The state of each file of a checkpoint, and of the `config.json` that decides how a single file
/// is read. An unknown state, as of a file on the web, equals no other state.
fn states(checkpoint: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    let is_dir = checkpoint.is_dir()?;
    let Ok(sizes) = file_sizes(checkpoint) else {
        return Ok([(checkpoint.to_string(), like_no_other())].into());
    };
    let config = (!is_dir).then(|| CONFIG_FILE.to_string());
    let names = sizes.into_keys().chain(config);
    let states = Mutex::new(BTreeMap::new());
    parallel::for_each(parallel::num_threads(checkpoint), names, |name| {
        let file = match checkpoint.parent() {
            _ if is_dir => checkpoint.join(&name),
            Some(folder) => folder.join(&name),
            None => Path::parse(&name)?,
        };
        let state = match file.state() {
            Err(error) if error.is_not_found() && name == CONFIG_FILE => return Ok(()),
            state => state?.unwrap_or_else(like_no_other),
        };
        states.lock().expect("no holder of the states panics").insert(name, state);
        Ok::<_, CheckpointError>(())
    })?;
    Ok(states.into_inner().expect("no holder of the states panics"))
}

fn like_no_other() -> String {
    format!("unknown {:016x}", rand::random::<u64>())
}

/// A journal that is being written. In a store it is uploaded from time to time, so that its last
/// lines may be missing.
pub(super) struct Journal {
    path: Path,
    file: GrowingFile,
    num_pieces: usize,
}

impl Journal {
    /// Begins the journal of a job with the pieces kept from an earlier conversion, and replaces an
    /// existing journal.
    pub(super) fn begin<P: Serialize>(
        path: Path,
        job: &Job,
        kept: impl Iterator<Item = P>,
    ) -> Result<Self, CheckpointError> {
        let mut lines = line(job);
        let mut num_pieces = 0;
        for piece in kept {
            lines.extend(line(&piece));
            num_pieces += 1;
        }
        let file = path.grow_anew(lines)?;
        Ok(Self { path, file, num_pieces })
    }

    /// Records a piece that was written completely.
    pub(super) fn add(&mut self, piece: &impl Serialize) -> Result<(), CheckpointError> {
        self.file.append(&line(piece))?;
        self.num_pieces += 1;
        Ok(())
    }

    /// Whether there are pieces with which a later conversion can continue.
    pub(super) fn has_pieces(&self) -> bool {
        self.num_pieces > 0
    }

    /// Removes the journal, because everything is written.
    pub(super) fn end(self) -> Result<(), CheckpointError> {
        let Self { path, file, .. } = self;
        // No upload to a store may follow the removal.
        drop(file);
        remove(&path)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal {}", self.path)
    }
}

/// Returns the pieces that an interrupted conversion recorded; `None` when there was no such
/// conversion or, with a notice to the user, when it was another job.
pub(super) fn noted<P: DeserializeOwned>(
    path: &Path,
    job: &Job,
) -> Result<Option<Vec<P>>, CheckpointError> {
    let text = match path.read() {
        Err(error) if error.is_not_found() => return Ok(None),
        text => text?,
    };
    let mut lines = text.split(|byte| *byte == b'\n');
    let found = lines.next().and_then(|first| serde_json::from_slice::<Job>(first).ok());
    if found.as_ref() != Some(job) {
        gimlet_telemetry::notice(&format!(
            "{path}: the interrupted conversion starts over, since the checkpoint, the options or Gimlet \
             have changed"
        ));
        return Ok(None);
    }
    // The last line may be incomplete.
    Ok(Some(lines.map_while(|line| serde_json::from_slice(line).ok()).collect()))
}

/// Tells the user which pieces are kept.
pub(super) fn tell_kept(target: &Path, count: usize, pieces: &str, bytes: u64) {
    if count > 0 {
        gimlet_telemetry::notice(&format!(
            "{target}: continues where a conversion was interrupted; kept {count} {pieces} of {:.1} MB",
            bytes as f64 / 1e6
        ));
    }
}

/// Tells the user the place of the output that a failed conversion left.
pub(super) fn tell_left(place: &Path) {
    gimlet_telemetry::notice(&format!(
        "{place}: kept, so that the same command can continue; remove it if you do not run it again"
    ));
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("plain data becomes JSON");
    line.push(b'\n');
    line
}

fn remove(path: &Path) -> Result<(), CheckpointError> {
    match path.remove_file() {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(options: &str) -> Job {
        let (version, from) = ("1".to_string(), "a".to_string());
        Job { version, from, files: BTreeMap::new(), options: options.to_string() }
    }

    #[test]
    fn a_journal_tells_whole_lines_of_the_same_job() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap().join("a.jsonl");
        let pieces = |of: &Job| noted::<u64>(&path, of).unwrap();
        assert_eq!(pieces(&job("")), None);
        let mut journal = Journal::begin(path.clone(), &job(""), [1_u64].iter()).unwrap();
        journal.add(&20_u64).unwrap();
        assert_eq!(pieces(&job("")), Some(vec![1, 20]));
        assert_eq!(pieces(&job("--dtype")), None);
        let mut file = path.append().unwrap();
        std::io::Write::write_all(&mut file, b"\"30").unwrap();
        file.finish().unwrap();
        assert_eq!(pieces(&job("")), Some(vec![1, 20]));
        journal.end().unwrap();
        assert!(!path.exists().unwrap());
    }
}
