//! Leases on folders of stores, which have no locks: a small file `gimlet.lease` that its holder
//! renews while it works. A process takes over the lease at once when its holder has died, and
//! takes over an old lease if no renewal follows; if two processes try, the store lets only one
//! succeed. A holder that was silent for too long detects the loss before it writes again.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::error::StorageError;
use super::location::Location;
use super::path::Path;
use super::process::Process;
use super::remote::{Remote, Version, limits};
use super::slow;

/// The file in the folder.
const FILE: &str = "gimlet.lease";

/// Maximum number of attempts to take a lease while other processes change it.
const TRIES: usize = 5;

/// The holder of the lease on a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub process: Process,
    /// Random identifier of the lease.
    token: String,
    /// Time of the last renewal, in seconds since 1970.
    heartbeat: f64,
    /// Time of the renewal by the store's clock, or the time when this process saw the renewal.
    #[serde(skip)]
    written: Option<SystemTime>,
}

impl Holder {
    /// Whether the holder may still be at work: it was recently active, and is not known to be
    /// gone.
    pub fn is_alive(&self) -> bool {
        self.silence() < limits().lease && !self.process.is_gone()
    }

    /// Whether both are the same lease, regardless of renewals.
    pub fn is_same(&self, other: &Self) -> bool {
        self.token == other.token
    }

    /// Time since the last renewal, by the clock that gives the shorter time. If this process's own
    /// clock is wrong, both are wrong: see [`defended`].
    fn silence(&self) -> Duration {
        let heard = Duration::try_from_secs_f64(now() - self.heartbeat).unwrap_or_default();
        let written = self.written.map(|written| written.elapsed().unwrap_or_default());
        written.map_or(heard, |written| written.min(heard))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, last heard of {} s ago,", self.process, self.silence().as_secs())
    }
}

/// The action for a lease whose holder seems alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// Respects the lease.
    #[default]
    No,
    /// Takes over the lease: the user says that the holder is dead.
    Yes,
}

impl From<bool> for Takeover {
    fn from(is_told: bool) -> Self {
        if is_told { Self::Yes } else { Self::No }
    }
}

/// A lease that this process holds, renewed until dropped.
pub struct Lease {
    shared: Arc<Shared>,
    /// Nothing is sent: the renewer stops when the sender is dropped.
    ending: Option<Sender<()>>,
    renewer: Option<JoinHandle<()>>,
}

struct Shared {
    folder: Path,
    file: Remote,
    own: Holder,
    /// Time that others wait for a renewal.
    lease: Duration,
    /// Last time when the lease was certainly held, or when the store was asked.
    kept: Mutex<Moment>,
    lost: AtomicBool,
}

/// A time by two clocks: the first stops while the machine sleeps, the second may be set back.
#[derive(Clone, Copy)]
struct Moment(Instant, SystemTime);

impl Moment {
    fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed().max(self.1.elapsed().unwrap_or_default())
    }
}

/// The result of an attempt to take a lease.
#[derive(Debug)]
pub enum Leased {
    /// This process holds the lease.
    Held(Lease),
    /// Another living process holds the lease.
    Busy(Holder),
}

impl Path {
    /// Tries to take the lease on a folder of a store. Waits only when the lease seems abandoned,
    /// to check whether it is.
    ///
    /// # Errors
    /// The store fails, or is not writable.
    pub fn lease(&self, takeover: Takeover) -> Result<Leased, StorageError> {
        let remote = lease_file(self)?;
        for _ in 0..TRIES {
            let found = found(&remote)?;
            if let Some((holder, _)) = &found
                && let Some(living) = defended(&remote, holder, takeover)?
            {
                return Ok(Leased::Busy(living));
            }
            let started = Moment::now();
            let own = Holder {
                process: Process::this().clone(),
                token: format!("{:016x}", rand::random::<u64>()),
                heartbeat: now(),
                written: None,
            };
            write(&remote, &own, found.as_ref().map(|(_, version)| version))?;
            if owned(&remote, &own)?.is_some() {
                return Ok(Leased::Held(Lease::start(self, remote, own, started)));
            }
        }
        let reason = "other processes change its lease all the time; start again".to_string();
        let (path, operation) = (self.to_string(), "take the lease on".into());
        Err(StorageError::Failed { path, operation, reason })
    }

    /// Returns the holder of the lease on the folder; always `None` on disk, which has locks.
    pub fn lease_holder(&self) -> Result<Option<Holder>, StorageError> {
        if self.is_on_disk() {
            return Ok(None);
        }
        Ok(found(&lease_file(self)?)?.map(|(holder, _)| holder))
    }
}

impl Lease {
    fn start(folder: &Path, file: Remote, own: Holder, kept: Moment) -> Self {
        let shared = Arc::new(Shared {
            folder: folder.clone(),
            file,
            own,
            lease: limits().lease,
            kept: Mutex::new(kept),
            lost: AtomicBool::new(false),
        });
        let (ending, end) = channel();
        let theirs = shared.clone();
        let renewer = std::thread::Builder::new().name("lease".to_string());
        let renewer =
            Some(renewer.spawn(move || theirs.work(&end)).expect("the system has threads to give"));
        Self { shared, ending: Some(ending), renewer }
    }

    /// Whether another process has taken the lease: then this process must not write any more. The
    /// store is asked only if renewals failed, or were not made, for so long that another process
    /// may have taken the lease; if the store does not answer, nothing is known, and it is asked
    /// again after the same time.
    pub fn is_lost(&self) -> bool {
        let is_overdue = self.shared.kept().elapsed() >= self.shared.lease;
        if is_overdue && !self.shared.lost() {
            let asked = Moment::now();
            if self.shared.renew().is_err() {
                *self.shared.kept() = asked;
            }
        }
        self.shared.lost()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease on {}", self.shared.folder)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.ending.take());
        if let Some(renewer) = self.renewer.take() {
            // The thread ends after a renewal in progress, and gives the lease back.
            let _ = renewer.join();
        }
    }
}

impl Shared {
    /// Renews the lease until the end, and then removes it if it is still this process's.
    fn work(&self, end: &Receiver<()>) {
        while end.recv_timeout(self.lease / 4) == Err(RecvTimeoutError::Timeout) {
            // If the store cannot be reached, a later renewal may succeed.
            let _ = self.renew();
            if self.lost() {
                return;
            }
        }
        let file = self.file.until(Instant::now() + self.lease / 4);
        if let Ok(Some(_)) = owned(&file, &self.own) {
            // A leftover lease names a process that has ended.
            let _ = file.remove_file();
        }
    }

    /// Renews the lease once, or detects that another process holds it. The time limit is short
    /// enough that a server that hangs does not delay the detection until others take the lease.
    fn renew(&self) -> Result<(), StorageError> {
        let started = Moment::now();
        let file = self.file.until(started.0 + self.lease / 4);
        let mut is_ours = false;
        if let Some((_, version)) = owned(&file, &self.own)? {
            write(&file, &Holder { heartbeat: now(), ..self.own.clone() }, Some(&version))?;
            is_ours = owned(&file, &self.own)?.is_some();
        }
        match is_ours {
            true => *self.kept() = started,
            false => self.lost.store(true, Ordering::SeqCst),
        }
        Ok(())
    }

    fn lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    fn kept(&self) -> MutexGuard<'_, Moment> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the holder, if its lease must be respected. The age of a lease depends on this process's
/// clock, so a lease that seems old is watched for longer than a renewal takes.
fn defended(
    remote: &Remote,
    holder: &Holder,
    takeover: Takeover,
) -> Result<Option<Holder>, StorageError> {
    let insists = takeover == Takeover::Yes && !holder.process.is_this();
    if insists || holder.process.is_gone() {
        return Ok(None);
    }
    if holder.is_alive() {
        return Ok(Some(holder.clone()));
    }
    // A renewal starts after a quarter of the lease's time, and ends within another quarter.
    let watch = limits().lease * 5 / 8;
    slow::tell(&format!(
        "{}: {holder} may be dead; waiting {:.0} s for a sign of life, which --take_over skips",
        remote.path(),
        watch.as_secs_f64().ceil()
    ));
    std::thread::sleep(watch);
    let renewed = found(remote)?.filter(|(now, _)| now != holder);
    Ok(renewed.map(|(now, _)| Holder { written: Some(SystemTime::now()), ..now }))
}

/// Writes the lease if the file is in the expected state. The caller checks the result afterwards:
/// the answer may be lost, and some stores ignore conditions or do not support them.
fn write(remote: &Remote, holder: &Holder, expected: Option<&Version>) -> Result<(), StorageError> {
    let text = serde_json::to_vec_pretty(holder).expect("plain data becomes JSON");
    match remote.put_if(text.clone(), expected) {
        Err(StorageError::Unsupported { .. }) => remote.put(&text),
        written => written.map(drop),
    }
}

/// Returns the stored lease, if it is this one.
fn owned(remote: &Remote, own: &Holder) -> Result<Option<(Holder, Version)>, StorageError> {
    Ok(found(remote)?.filter(|(holder, _)| holder.is_same(own)))
}

fn found(remote: &Remote) -> Result<Option<(Holder, Version)>, StorageError> {
    let Some((text, version)) = remote.read_state()? else { return Ok(None) };
    match serde_json::from_slice::<Holder>(&text) {
        Ok(holder) => Ok(Some((Holder { written: version.modified, ..holder }, version))),
        Err(error) => Err(remote.unfit(&format!("it is not a lease ({error}): remove it"))),
    }
}

fn lease_file(folder: &Path) -> Result<Remote, StorageError> {
    match folder.join(FILE).place()? {
        Location::Elsewhere(remote) => Ok(remote),
        Location::Disk(_) => Err(StorageError::Unsupported {
            path: folder.to_string(),
            operation: "take the lease on".into(),
            remedy: "folders on disk are locked".to_string(),
        }),
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
