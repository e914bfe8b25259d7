//! Files that grow while others read them, such as logs. On disk bytes are appended; stores cannot
//! append, so the whole is written anew from time to time, by a thread that nobody waits for.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
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
    /// Whether some of the bytes are not there yet.
    pending: bool,
    ended: bool,
    failure: Option<StorageError>,
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
        let state = State { bytes, pending: true, ..State::default() };
        self.grow_by(OpenOptions::new().append(true), state)
    }

    /// On disk, opens the file; elsewhere, begins to send it.
    fn grow_by(&self, options: &OpenOptions, begun: State) -> Result<GrowingFile, StorageError> {
        let sink = match self.place()? {
            Place::Disk(local) => {
                let file = options.open(local);
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
        match &mut self.sink {
            Sink::Disk(file) => {
                let written = file.write_all(bytes).and_then(|()| file.flush());
                written.map_err(|error| StorageError::new("write", &self.path, error))
            }
            Sink::Store { shared, .. } => {
                let mut state = shared.lock();
                state.bytes.extend_from_slice(bytes);
                state.pending = true;
                shared.changed.notify_all();
                Ok(())
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the whole whenever something was added, with a pause after each time.
    fn send(&self, remote: &Remote) {
        let pause = limits().growing_pause;
        loop {
            let idle = |state: &mut State| !state.pending && !state.ended;
            let state = self.changed.wait_while(self.lock(), idle);
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            if !state.pending {
                return;
            }
            state.pending = false;
            let (bytes, is_last) = (state.bytes.clone(), state.ended);
            drop(state);
            let sent = remote.put(&bytes);
            let mut state = self.lock();
            state.failure = sent.err();
            if state.failure.is_some() {
                state.pending = true;
                if is_last {
                    return;
                }
            }
            let going_on = |state: &mut State| !state.ended;
            let waited = self.changed.wait_timeout_while(state, pause, going_on);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}
