//! Leases on folders of stores, which have no locks: a small file `gimlet.lease` that its holder renews
//! for as long as it works. Who finds it old, or its holder dead, takes it; the store lets only one
//! of two succeed. A holder that was silent for too long learns of it before it writes again.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::error::StorageError;
use super::files::Place;
use super::path::Path;
use super::process::Process;
use super::remote::{Remote, Version, limits};

/// The file in the folder.
const FILE: &str = "gimlet.lease";

/// How often a lease is tried to be had while others change it.
const TRIES: usize = 5;

/// Who works in a folder, as its lease tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub process: Process,
    /// Grows from holder to holder.
    pub fencing: u64,
    /// Drawn at random for each lease.
    token: String,
    /// When it was last renewed, in seconds since 1970.
    heartbeat: f64,
    /// The same by the store's clock.
    #[serde(skip)]
    written: Option<SystemTime>,
}

impl Holder {
    /// Whether it may still be at work: it was heard of lately, and is not known to be gone.
    pub fn is_alive(&self) -> bool {
        self.silence() < limits().lease && !self.process.is_gone()
    }

    /// Whether both are the same lease, whenever they were renewed.
    pub fn is_same(&self, other: &Self) -> bool {
        self.token == other.token
    }

    /// By the clock that makes it shorter: one that is wrong must not take a lease from the living.
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

/// What to do with a lease whose holder seems alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Leave it.
    No,
    /// Take it: the user says that the holder is dead.
    Yes,
}

/// A lease that this process holds, renewed until dropped.
pub struct Lease {
    folder: Path,
    shared: Arc<Shared>,
    renewer: Option<JoinHandle<()>>,
}

struct Shared {
    ended: Mutex<bool>,
    ending: Condvar,
    lost: AtomicBool,
}

/// What came of an attempt to get a lease.
#[derive(Debug)]
pub enum Leased {
    /// It is ours.
    Held(Lease),
    /// Someone alive holds it.
    Busy(Holder),
}

impl Path {
    /// Tries to get the lease on a folder of a store, without waiting.
    ///
    /// # Errors
    /// The store fails, or cannot be written.
    pub fn lease(&self, takeover: Takeover) -> Result<Leased, StorageError> {
        let remote = lease_file(self)?;
        for _ in 0..TRIES {
            let found = found(&remote)?;
            if let Some((holder, _)) = &found
                && holder.is_alive()
                && (takeover == Takeover::No || holder.process.is_this())
            {
                return Ok(Leased::Busy(holder.clone()));
            }
            let before = found.as_ref().map_or(0, |(holder, _)| holder.fencing);
            let own = Holder {
                process: Process::this().clone(),
                fencing: (before + 1).max(now() as u64),
                token: format!("{:016x}", rand::random::<u64>()),
                heartbeat: now(),
                written: None,
            };
            write(&remote, &own, found.as_ref().map(|(_, version)| version))?;
            // The answer to a write may be lost, and some stores ignore conditions: what is there counts.
            if let Some((holder, version)) = self::found(&remote)?
                && holder.is_same(&own)
            {
                return Ok(Leased::Held(Lease::start(self, remote, holder, version)));
            }
        }
        let reason = "other processes change its lease all the time; start again".to_string();
        let (path, operation) = (self.to_string(), "take the lease on".into());
        Err(StorageError::Failed { path, operation, reason })
    }

    /// Who holds the lease on the folder; always `None` on disk, which has locks.
    pub fn lease_holder(&self) -> Result<Option<Holder>, StorageError> {
        if self.is_on_disk() {
            return Ok(None);
        }
        Ok(found(&lease_file(self)?)?.map(|(holder, _)| holder))
    }
}

impl Lease {
    fn start(folder: &Path, remote: Remote, own: Holder, version: Version) -> Self {
        let shared = Arc::new(Shared {
            ended: Mutex::new(false),
            ending: Condvar::new(),
            lost: AtomicBool::new(false),
        });
        let theirs = shared.clone();
        let renew = move || theirs.renew(&remote, own, version);
        let renewer = std::thread::Builder::new().name("lease".to_string()).spawn(renew);
        let renewer = Some(renewer.expect("the system has threads to give"));
        Self { folder: folder.clone(), shared, renewer }
    }

    /// Whether another process has taken it since: then this one must not write any more.
    pub fn is_lost(&self) -> bool {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease on {}", self.folder)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ending.notify_all();
        if let Some(renewer) = self.renewer.take() {
            // It ends after the renewal that is under way, and gives the lease back.
            let _ = renewer.join();
        }
    }
}

impl Shared {
    /// Renews until the end, and then removes what is still ours.
    fn renew(&self, remote: &Remote, mut own: Holder, mut version: Version) {
        while !self.ends_within(limits().lease / 4) {
            own.heartbeat = now();
            match renewed(remote, &own, &version) {
                Ok(Some(renewed)) => version = renewed,
                Ok(None) => {
                    self.lost.store(true, Ordering::SeqCst);
                    return;
                }
                // The store is not at hand: the next time may do, and others see how long it has been.
                Err(_) => {}
            }
        }
        if let Ok(Some((holder, _))) = found(remote)
            && holder.is_same(&own)
        {
            // One that stays behind names a process that is gone.
            let _ = remote.remove_file();
        }
    }

    fn ends_within(&self, pause: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ending.wait_timeout_while(ended, pause, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The lease's new state; `None` where it is another's by now.
fn renewed(
    remote: &Remote,
    own: &Holder,
    version: &Version,
) -> Result<Option<Version>, StorageError> {
    if let Some(version) = write(remote, own, Some(version))? {
        return Ok(Some(version));
    }
    // It may have been our own write whose answer was lost.
    let found = found(remote)?.filter(|(holder, _)| holder.is_same(own));
    Ok(found.map(|(_, version)| version))
}

/// Writes where the file is as expected; a store without conditions is trusted to be read back.
fn write(
    remote: &Remote,
    holder: &Holder,
    expected: Option<&Version>,
) -> Result<Option<Version>, StorageError> {
    let text = serde_json::to_vec_pretty(holder).expect("plain data becomes JSON");
    match remote.put_if(text.clone(), expected) {
        Err(StorageError::Unsupported { .. }) => {
            remote.put(&text)?;
            Ok(Some(Version::default()))
        }
        written => written,
    }
}

fn found(remote: &Remote) -> Result<Option<(Holder, Version)>, StorageError> {
    let Some((text, version)) = remote.read_state()? else { return Ok(None) };
    match serde_json::from_slice::<Holder>(&text) {
        Ok(holder) => Ok(Some((Holder { written: version.modified, ..holder }, version))),
        Err(error) => Err(remote.unfit(&format!("it is no lease ({error}): remove it"))),
    }
}

fn lease_file(folder: &Path) -> Result<Remote, StorageError> {
    match folder.join(FILE).place()? {
        Place::Elsewhere(remote) => Ok(remote),
        Place::Disk(_) => Err(StorageError::Unsupported {
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
