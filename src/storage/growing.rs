//! Files that grow while others read them, such as logs. On disk bytes are appended; stores cannot
//! append, so a background thread writes the whole file again from time to time. Only callers that
//! request [`Unsent`] bytes wait for the thread.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::error::StorageError;
use super::location::Location;
use super::path::Path;
use super::remote::{Remote, limits};

/// Maximum size in bytes of a growing file in a store: the whole file is in memory and is sent each
/// time.
const MOST: usize = 64 << 20;

/// A file that readers may see at any length. The appended bytes are written when the file is
/// dropped.
pub struct GrowingFile {
    path: Path,
    sink: Sink,
}

enum Sink {
    Disk(BufWriter<File>),
    Store { shared: Arc<Shared>, sender: Option<JoinHandle<()>> },
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Number of changes to the bytes, and number of changes that the store has.
    changes: u64,
    sent: u64,
    /// Number of changes for which a caller is waiting: they are sent without a pause.
    wanted: u64,
    ended: bool,
    /// Number of failed attempts, and the last error until it is reported.
    failures: u64,
    failure: Option<StorageError>,
    /// Whether the sending thread has ended.
    over: bool,
}

/// The current bytes of a growing file, some of which the store may lack.
#[derive(Clone)]
pub struct Unsent {
    shared: Arc<Shared>,
    changes: u64,
}

impl Path {
    /// Starts a growing file, which must not exist on disk.
    pub fn grow(&self) -> Result<GrowingFile, StorageError> {
        self.grow_by(OpenOptions::new().write(true).create_new(true), State::default())
    }

    /// Starts a growing file with these bytes, and replaces an existing file: the old file is lost
    /// only when the bytes are written.
    pub fn grow_anew(&self, bytes: Vec<u8>) -> Result<GrowingFile, StorageError> {
        if self.is_on_disk() {
            self.write_atomic(&bytes)?;
        }
        let state = State { bytes, changes: 1, ..State::default() };
        self.grow_by(OpenOptions::new().write(true), state)
    }

    /// Opens a file on disk, or starts sending a remote file.
    fn grow_by(&self, options: &OpenOptions, begun: State) -> Result<GrowingFile, StorageError> {
        let sink = match self.place()? {
            Location::Disk(local) => {
                let file = options.open(local).and_then(|mut file| {
                    file.seek(SeekFrom::End(0))?;
                    Ok(file)
                });
                Sink::Disk(BufWriter::new(self.done("create", file)?))
            }
            Location::Elsewhere(remote) => {
                remote.writable("create")?;
                let shared = Arc::new(Shared { state: Mutex::new(begun), ..Shared::default() });
                let theirs = shared.clone();
                let sender = std::thread::Builder::new().name("growing file".to_string());
                let sender = sender.spawn(move || theirs.send(&remote));
                let sender = Some(sender.expect("the system has threads to give"));
                Sink::Store { shared, sender }
            }
        };
        Ok(GrowingFile { path: self.clone(), sink })
    }
}

impl GrowingFile {
    /// Appends bytes, which readers on disk see at once.
    ///
    /// # Errors
    /// Errors of the disk. A store that fails is tried again later: see [`GrowingFile::failure`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.replace_end(0, bytes)
    }

    /// Replaces the last `dropped` bytes, at most all bytes, by others.
    ///
    /// # Errors
    /// The same as those of [`GrowingFile::append`].
    pub fn replace_end(&mut self, dropped: usize, bytes: &[u8]) -> Result<(), StorageError> {
        match &mut self.sink {
            Sink::Disk(file) => {
                let mut write = || {
                    if dropped > 0 {
                        file.seek(SeekFrom::End(-(dropped as i64)))?;
                    }
                    file.write_all(bytes)?;
                    file.flush()?;
                    // No bytes are missing in between: new bytes overwrite the old ones before the
                    // file is shortened.
                    if bytes.len() < dropped {
                        let end = file.stream_position()?;
                        file.get_ref().set_len(end)?;
                    }
                    Ok(())
                };
                write().map_err(|error| StorageError::new("write", &self.path, error))
            }
            Sink::Store { shared, .. } => {
                let mut state = shared.lock();
                let kept = state.bytes.len().saturating_sub(dropped);
                state.bytes.truncate(kept);
                state.bytes.extend_from_slice(bytes);
                state.changes += 1;
                shared.changed.notify_all();
                Ok(())
            }
        }
    }

    /// Returns the bytes appended so far, for callers that must wait until they are stored; `None`
    /// on disk, where they already are.
    pub fn unsent(&self) -> Option<Unsent> {
        match &self.sink {
            Sink::Disk(_) => None,
            Sink::Store { shared, .. } => {
                let changes = shared.lock().changes;
                Some(Unsent { shared: shared.clone(), changes })
            }
        }
    }

    /// Whether another file should be started: in a store, sending the file again has become too
    /// expensive.
    pub fn is_full(&self) -> bool {
        match &self.sink {
            Sink::Disk(_) => false,
            Sink::Store { shared, .. } => shared.lock().bytes.len() >= MOST,
        }
    }

    /// The error of the last attempt to send the bytes, if it failed; reported once.
    pub fn failure(&self) -> Option<StorageError> {
        match &self.sink {
            Sink::Disk(_) => None,
            Sink::Store { shared, .. } => shared.lock().failure.take(),
        }
    }

    /// Waits until all bytes are stored.
    ///
    /// # Errors
    /// The store failed permanently.
    pub fn finish(mut self) -> Result<(), StorageError> {
        self.end();
        self.failure().map_or(Ok(()), Err)
    }

    fn end(&mut self) {
        if let Sink::Store { shared, sender } = &mut self.sink
            && let Some(sender) = sender.take()
        {
            shared.lock().ended = true;
            shared.changed.notify_all();
            // The thread ends with the last bytes, or with a failure that it has recorded.
            let _ = sender.join();
        }
    }
}

impl Drop for GrowingFile {
    fn drop(&mut self) {
        self.end();
    }
}

impl Unsent {
    /// Sends the bytes at once, and waits for the result. `false` if the store refused them: they
    /// are sent later, and the file reports the error.
    pub fn send(&self) -> bool {
        let mut state = self.shared.lock();
        let failures = state.failures;
        state.wanted = state.wanted.max(self.changes);
        self.shared.changed.notify_all();
        let is_under_way = |state: &mut State| {
            state.sent < self.changes && state.failures == failures && !state.over
        };
        let state = self.shared.changed.wait_while(state, is_under_way);
        state.unwrap_or_else(PoisonError::into_inner).sent >= self.changes
    }
}

impl std::fmt::Debug for Unsent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unsent").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl State {
    fn is_pending(&self) -> bool {
        self.sent < self.changes
    }

    /// Records the result of sending the first `changes` changes.
    fn note(&mut self, changes: u64, sent: Result<(), StorageError>) {
        self.failure = sent.err();
        match self.failure {
            None => self.sent = changes,
            // Waiting callers are notified, and no longer request sending without a pause.
            Some(_) => (self.failures, self.wanted) = (self.failures + 1, 0),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the whole file after every change, until the end.
    fn send(&self, remote: &Remote) {
        self.send_changes(remote);
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Sends the whole file after every change, with a pause after each time unless a caller is waiting.
    fn send_changes(&self, remote: &Remote) {
        let pause = limits().growing_pause;
        loop {
            let idle = |state: &mut State| !state.is_pending() && !state.ended;
            let state = self.changed.wait_while(self.lock(), idle);
            let state = state.unwrap_or_else(PoisonError::into_inner);
            if !state.is_pending() {
                return;
            }
            let (bytes, changes, is_last) = (state.bytes.clone(), state.changes, state.ended);
            drop(state);
            let sent = remote.put(&bytes);
            let mut state = self.lock();
            state.note(changes, sent);
            self.changed.notify_all();
            if is_last && state.is_pending() {
                return;
            }
            let going_on = |state: &mut State| !state.ended && state.wanted <= state.sent;
            let waited = self.changed.wait_timeout_while(state, pause, going_on);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}
