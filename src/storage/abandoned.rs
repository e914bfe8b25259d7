//! Finds temporary files that a killed process left while it wrote a whole file:
//! `.NAME.tmp-MACHINE-PID-N`. The name identifies the writer, so that the next run can remove the file.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path as LocalPath, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::error::StorageError;
use super::location::Location;
use super::path::Path;
use super::process::{has_ended, machine};

/// Separator between the name of the file and its writer.
const MARK: &str = ".tmp-";

/// Age at which a file of an unknown writer counts as abandoned: writing one file never takes so
/// long.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Returns a name beside the file that no other thread or process uses.
pub(super) fn temporary_beside(local: &LocalPath) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = local.file_name().unwrap_or_default().to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    local.with_file_name(temporary_name(&name, machine(), std::process::id(), count))
}

fn temporary_name(name: &str, machine: u32, pid: u32, count: u64) -> String {
    format!(".{name}{MARK}{machine:08x}-{pid}-{count}")
}

/// Parses the machine and the process number in a name.
fn writer(name: &str) -> Option<(u32, u32)> {
    let (file, writer) = name.strip_prefix('.')?.rsplit_once(MARK)?;
    let mut parts = writer.split('-');
    let machine = u32::from_str_radix(parts.next()?, 16).ok()?;
    let pid = parts.next()?.parse().ok()?;
    let count = parts.next()?.parse().ok()?;
    // A name in another spelling, such as `+1` or with an additional part, belongs to another
    // program.
    (!file.is_empty() && temporary_name(file, machine, pid, count) == name)
        .then_some((machine, pid))
}

/// Removes files that killed processes left in the folder of a file that is being written; once for
/// each folder, and ignoring errors.
pub(super) fn sweep_beside(local: &LocalPath) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let folder = local.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(LocalPath::new("."));
    if !SWEPT.lock().is_ok_and(|mut swept| swept.insert(folder.to_path_buf())) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let writer = name.to_str().and_then(writer);
        if writer.is_some_and(|writer| is_abandoned(&entry.path(), writer).unwrap_or(false)) {
            // Another process may have removed the file first.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether the writer of a file no longer changes it: the process has ended on this machine, or the
/// file is an hour old.
fn is_abandoned(local: &LocalPath, (machine, pid): (u32, u32)) -> io::Result<bool> {
    let found = match fs::symlink_metadata(local) {
        // The writer has already renamed or removed the file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let age = SystemTime::now().duration_since(found.modified()?).unwrap_or_default();
    Ok(found.is_file() && (has_ended(machine, pid) || age > LIFETIME))
}

impl Path {
    /// Whether this is a file that [`Path::write_atomic`] left on disk when its process was killed:
    /// the process has ended on this machine, or the file is an hour old.
    pub fn is_abandoned_write(&self) -> Result<bool, StorageError> {
        let Some(writer) = writer(self.file_name()) else { return Ok(false) };
        let Location::Disk(local) = self.place()? else { return Ok(false) };
        self.done("look at", is_abandoned(&local, writer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process number that no process has.
    const NOBODY: u32 = i32::MAX as u32;

    #[test]
    fn only_the_names_that_are_given_tell_a_writer() {
        assert_eq!(writer(".a.json.tmp-0000beef-12-0"), Some((0xbeef, 12)));
        assert_eq!(writer(".a.tmp-b.tmp-0000beef-12-3"), Some((0xbeef, 12)));
        let others = [
            "a.tmp-0000beef-12-0",
            "..tmp-0000beef-12",
            ".tmp-0000beef-12-0",
            ".a.tmp-beef-12-0",
            ".a.tmp-0000BEEF-12-0",
            ".a.tmp-0000beef-12-0.bak",
            ".a.tmp-0000beef-12-0-1",
            ".a.tmp-0000beef-+12-0",
            ".a.tmp-0000beef-12-",
            ".a.tmp-12-0",
        ];
        for other in others {
            assert_eq!(writer(other), None, "{other}");
        }
    }

    #[test]
    fn what_the_dead_wrote_is_abandoned_and_what_others_write_after_an_hour() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        let check = |machine: u32, pid: u32, age: Duration, expected: bool| {
            let name = temporary_name("metrics.json", machine, pid, 0);
            let file = fs::File::create(dir.path().join(&name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
            assert_eq!(
                folder.join(&name).is_abandoned_write().unwrap(),
                expected,
                "{name} {age:?}"
            );
        };
        let (now, long) = (Duration::ZERO, LIFETIME + Duration::from_secs(60));
        check(machine(), NOBODY, now, true);
        check(machine(), std::process::id(), now, false);
        check(!machine(), NOBODY, now, false);
        check(!machine(), NOBODY, long, true);
        check(machine(), std::process::id(), long, true);
        let name = temporary_name("folder", machine(), NOBODY, 0);
        fs::create_dir(dir.path().join(&name)).unwrap();
        assert!(!folder.join(&name).is_abandoned_write().unwrap());
        assert!(!folder.join("metrics.json").is_abandoned_write().unwrap());
    }

    #[test]
    fn who_writes_into_a_folder_clears_away_what_the_dead_left() {
        let dir = tempfile::tempdir().unwrap();
        let name = |pid| temporary_name("info.json", machine(), pid, 0);
        for pid in [NOBODY, std::process::id()] {
            fs::write(dir.path().join(name(pid)), b"{").unwrap();
        }
        let folder = Path::try_from(dir.path()).unwrap();
        folder.join("other.json").write_atomic(b"{}").unwrap();
        let left: Vec<_> = folder.list().unwrap();
        assert_eq!(left, [folder.join(&name(std::process::id())), folder.join("other.json")]);
    }
}
