//! Files that grow while others read them, such as logs. On disk bytes are appended; stores cannot
//! append, so the whole is written anew from time to time, by a thread that nobody waits for but who asks
//! for [`Unsent`] bytes.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::error::StorageError;
use super::files::Place;
use super::path::Path;
use super::remote::{Remote, limits};

/// What a growing file of a store holds at most: all of it is in memory and sent each time.
const MOST: usize = 64 << 20;

/// A file that readers may see at any length. What was appended is there when it is dropped.
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
    /// Changes made to the bytes, and those that the store has.
    changes: u64,
    sent: u64,
    /// Changes that somebody waits for: they are sent without a pause.
    wanted: u64,
    ended: bool,
    /// Attempts that failed, and why the last one did, until it is told.
    failures: u64,
    failure: Option<StorageError>,
    /// Whether the thread that sends has ended.
    over: bool,
}

/// The bytes of a growing file so far, of which its store may lack some.
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

    /// Starts a growing file with these bytes, in the place of one that may be there: that one is lost only
    /// when they are written.
    pub fn grow_anew(&self, bytes: Vec<u8>) -> Result<GrowingFile, StorageError> {
        if self.is_on_disk() {
            self.write_atomic(&bytes)?;
        }
        let state = State { bytes, changes: 1, ..State::default() };
        self.grow_by(OpenOptions::new().write(true), state)
    }

    /// On disk, opens the file; elsewhere, begins to send it.
    fn grow_by(&self, options: &OpenOptions, begun: State) -> Result<GrowingFile, StorageError> {
        let sink = match self.place()? {
            Place::Disk(local) => {
                let file = options.open(local).and_then(|mut file| {
                    file.seek(SeekFrom::End(0))?;
                    Ok(file)
                });
                Sink::Disk(BufWriter::new(self.done("create", file)?))
            }
            Place::Elsewhere(remote) => {
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
    /// Adds bytes, which readers on disk see at once.
    ///
    /// # Errors
    /// The disk. A store that fails is asked again later: see [`GrowingFile::failure`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.replace_end(0, bytes)
    }

    /// Replaces the last `dropped` bytes, at most all, with others.
    ///
    /// # Errors
    /// Those of [`GrowingFile::append`].
    pub fn replace_end(&mut self, dropped: usize, bytes: &[u8]) -> Result<(), StorageError> {
        match &mut self.sink {
            Sink::Disk(file) => {
                let mut write = || {
                    if dropped > 0 {
                        file.seek(SeekFrom::End(-(dropped as i64)))?;
                    }
                    file.write_all(bytes)?;
                    file.flush()?;
                    // Bytes are never missing in between: what is longer covers what was there.
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

    /// What was appended so far, for who must know that it is there; `None` on disk, where it is.
    pub fn unsent(&self) -> Option<Unsent> {
        match &self.sink {
            Sink::Disk(_) => None,
            Sink::Store { shared, .. } => {
                let changes = shared.lock().changes;
                Some(Unsent { shared: shared.clone(), changes })
            }
        }
    }

    /// Whether another file should be started: in a store, sending it has become too much.
    pub fn is_full(&self) -> bool {
        match &self.sink {
            Sink::Disk(_) => false,
            Sink::Store { shared, .. } => shared.lock().bytes.len() >= MOST,
        }
    }

    /// What hindered the last attempt to send the bytes, if it failed; told once.
    pub fn failure(&self) -> Option<StorageError> {
        match &self.sink {
            Sink::Disk(_) => None,
            Sink::Store { shared, .. } => shared.lock().failure.take(),
        }
    }

    /// Waits until all is there.
    ///
    /// # Errors
    /// The store failed for good.
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
            // It ends with the last bytes, or with a failure that it has noted.
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
    /// Has the bytes sent at once, and waits for it. `false` if the store refused them: they are sent later, and
    /// the file tells why.
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

    /// Notes how sending the first `changes` went.
    fn note(&mut self, changes: u64, sent: Result<(), StorageError>) {
        self.failure = sent.err();
        match self.failure {
            None => self.sent = changes,
            // Whoever waits is told so, and must not be waited for any more.
            Some(_) => (self.failures, self.wanted) = (self.failures + 1, 0),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the whole whenever something was added, until the end.
    fn send(&self, remote: &Remote) {
        self.send_changes(remote);
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Sends the whole whenever something was added, with a pause after each time unless somebody waits.
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
