//! Signals that ask a run to end: SIGINT (Ctrl-C), SIGTERM (schedulers) and SIGHUP (a terminal that closes).
//!
//! The first one asks: the run saves its state, and ends with 128 plus the signal's number, which
//! shells use for programs that a signal ended. A second one ends the process at once, with the
//! same kind of status. A signal that was ignored when the process started, such as SIGHUP under
//! `nohup`, stays ignored.

#[cfg(feature = "torch")]
mod signals;

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use libc::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[cfg(feature = "torch")]
pub use signals::{Interrupt, release};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Holds signals back: those that arrive while `gimlet-torch` loads libtorch are delivered when it
/// can handle them. Must be called in the process that becomes `gimlet-torch`.
///
/// # Errors
/// The system's.
pub fn hold() -> io::Result<()> {
    mask(libc::SIG_BLOCK)
}

/// Receives the signals from now on, to pass them on to other processes.
///
/// # Errors
/// The system's.
pub fn received() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new(SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)))?;
    let (sender, receiver) = channel();
    let pass_on = move || signals.forever().try_for_each(|signal| sender.send(signal));
    thread::Builder::new().name("signals".to_string()).spawn(pass_on)?;
    Ok(receiver)
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and zeros are a valid `sigaction` if the call fails.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn mask(how: i32) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initializes the set, and the other arguments are plain numbers. All
    // calls are async-signal-safe, so they are allowed between fork and exec.
    let failure = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut())
    };
    if failure == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failure)) }
}
