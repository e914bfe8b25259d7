//! Signals that ask a run to end: SIGINT (Ctrl-C), SIGTERM (schedulers) and SIGHUP (a terminal that closes).
//!
//! The first one asks: the run saves what it has, and ends with 128 plus the signal's number, as shells say it of
//! programs that a signal ended. A second one ends the process at once, with the same kind of status. A signal that the
//! process was started to ignore, as `nohup` does it with SIGHUP, stays ignored.

#[cfg(feature = "torch")]
mod asked;

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{SIGHUP, SIGINT, SIGTERM};

#[cfg(feature = "torch")]
pub use asked::{Interrupt, release};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Keeps signals back: those that arrive while `gimlet-torch` loads libtorch are delivered once it can answer them.
/// To be called in the process that becomes it.
///
/// # Errors
/// The system's.
pub fn hold() -> io::Result<()> {
    mask(libc::SIG_BLOCK)
}

fn mask(how: i32) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialized by the first call, and the calls take plain numbers beside it. All are
    // async-signal-safe, so that they may stand between fork and exec.
    let failure = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut())
    };
    if failure == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failure)) }
}
