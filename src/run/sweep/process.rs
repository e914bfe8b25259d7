//! The process of a point.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::launch::{end_with_launcher, status_of};
use crate::run::failure::Failure;
use crate::run::interrupt;

use super::record::Log;

/// The time between two looks at the process.
const PERIOD: Duration = Duration::from_millis(20);

/// The end of a point's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this status, as shells report it.
    Status(u8),
    /// This signal asked the sweep to end, and was passed on.
    Interrupted(i32),
}

/// Runs commands one after another, and passes on the signals that it gets.
pub(super) struct Runner {
    signals: Receiver<i32>,
}

impl Runner {
    /// Takes over the signals that ask a process to end.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self { signals: interrupt::received().map_err(Failure::world)? })
    }

    /// Runs `gimlet` with these words. Its output goes to the terminal, and into the log.
    ///
    /// # Errors
    /// The system's.
    pub fn run(&mut self, words: &[String], log: Option<&Log>) -> Result<End, Failure> {
        let mut command = Command::new(env::current_exe().map_err(Failure::world)?);
        command.args(words).stdin(Stdio::null());
        if log.is_some() {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let sweep = std::process::id();
        // SAFETY: the function makes system calls only, which are allowed between fork and exec.
        unsafe { command.pre_exec(move || end_with_launcher(sweep)) };
        let mut child = command.spawn().map_err(Failure::world)?;
        let copies =
            log.map(|log| copies(&mut child, log.file())).transpose().map_err(Failure::world)?;
        let end = self.wait(&mut child).map_err(Failure::world)?;
        for copy in copies.into_iter().flatten() {
            let _ = copy.join();
        }
        Ok(end)
    }

    fn wait(&self, child: &mut Child) -> io::Result<End> {
        let mut asked = None;
        let id = i32::try_from(child.id()).expect("Linux's process ids are positive `i32`");
        loop {
            for signal in self.signals.try_iter() {
                asked.get_or_insert(signal);
                // SAFETY: a plain system call. The process was not waited for, so the id is its own.
                unsafe { libc::kill(id, signal) };
            }
            match (child.try_wait()?, asked) {
                (Some(_), Some(signal)) => return Ok(End::Interrupted(signal)),
                (Some(status), None) => return Ok(End::Status(status_of(status))),
                (None, _) => thread::sleep(PERIOD),
            }
        }
    }
}

/// Copies both streams of the process to those of this one, and to the log.
fn copies(child: &mut Child, log: &File) -> io::Result<Vec<JoinHandle<()>>> {
    let mut copies = Vec::new();
    if let Some(from) = child.stdout.take() {
        let log = log.try_clone()?;
        copies.push(thread::spawn(move || copy(from, io::stdout(), log)));
    }
    if let Some(from) = child.stderr.take() {
        let log = log.try_clone()?;
        copies.push(thread::spawn(move || copy(from, io::stderr(), log)));
    }
    Ok(copies)
}

/// Copies until the stream ends. A terminal or a disk that takes no more does not stop the process.
fn copy(mut from: impl Read, mut to: impl Write, mut log: File) {
    let mut buffer = [0; 8192];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let _ = log.write_all(&buffer[..length]);
        let _ = to.write_all(&buffer[..length]).and_then(|()| to.flush());
    }
}
