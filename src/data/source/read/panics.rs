//! Converts panics of libraries on damaged files to errors that name the file.
//!
//! Arrow and Parquet check most data that they read, and assert the rest. A panic does not name the
//! file, and would end a thread of the pipeline.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::error::{DataError, file_error};
use gimlet_storage::Path;

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// The result of `decode` on a file. The objects that `decode` changes must not be used after an
/// error.
pub(super) fn decoded<T>(
    path: &Path,
    decode: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    hush();
    let outer = DECODING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(outer);
    result.unwrap_or_else(|payload| {
        let reason = format!("it is damaged ({}); fetch it again", message(&*payload));
        Err(file_error(path, reason))
    })
}

/// Prevents panics that become errors from being printed as well.
fn hush() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !DECODING.get() {
                print(info);
            }
        }));
    });
}

/// The text of a panic.
fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("its decoder panics")
}
