//! Signals that ask a run to end: SIGINT (Ctrl-C), SIGTERM (schedulers) and SIGHUP (a terminal that closes).
//!
//! The first one asks: the run saves its state, and ends with 128 plus the signal's number, which
//! shells use for programs that a signal ended. A second one ends the process at once, with the
//! same kind of status. A signal that was ignored when the process started, such as SIGHUP under
//! `nohup`, stays ignored.

#[cfg(feature = "torch")]
mod asked;

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{SIGHUP, SIGINT, SIGTERM};

#[cfg(feature = "torch")]
pub use asked::{Interrupt, release};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Holds signals back: those that arrive while `gimlet-torch` loads libtorch are delivered when it
/// can handle them. Must be called in the process that becomes `gimlet-torch`.
///
/// # Errors
/// The system's.
pub fn hold() -> io::Result<()> {
    mask(libc::SIG_BLOCK)
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
