//! libtorch's failures as errors. tch reports a failed operation by a panic with libtorch's text
//! and its C++ stack; the error contains the first line of it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::nn::autograd::TCH_PANIC;

/// A failure of libtorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TorchFailure {
    /// Memory is exhausted.
    OutOfMemory(String),
    /// Any other failure.
    Other(String),
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`. Panics of Gimlet's own code pass through: they are bugs, not failures of libtorch.
///
/// # Errors
/// A failure of libtorch.
pub fn guarded<R>(body: impl FnOnce() -> R) -> Result<R, TorchFailure> {
    hush_torch();
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    GUARDED.set(outer);
    result.map_err(|payload| match torch_message(&*payload) {
        Some(message) if is_out_of_memory(&message) => TorchFailure::OutOfMemory(message),
        Some(message) => TorchFailure::Other(message),
        None => panic::resume_unwind(payload),
    })
}

/// Suppresses the printing of panics that become errors.
fn hush_torch() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() || torch_message(info.payload()).is_none() {
                print(info);
            }
        }));
    });
}

/// Returns the first line of libtorch's text, if the panic carries one.
fn torch_message(payload: &dyn Any) -> Option<String> {
    let text = payload.downcast_ref::<String>()?.strip_prefix(TCH_PANIC)?;
    // The text has the format of `Debug`.
    let end = text.find("\\n").unwrap_or(text.len());
    // The CPU's allocator begins with the place in libtorch's sources.
    let start = text[..end].find("DefaultCPUAllocator: ").unwrap_or(0);
    Some(text[start..end].trim_end_matches("\")").replace("\\\"", "\""))
}

/// Recognizes libtorch's two messages: the CUDA allocator's and the CPU allocator's.
fn is_out_of_memory(message: &str) -> bool {
    ["out of memory", "can't allocate memory"].iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn failures_of_libtorch_are_told_by_their_first_line() {
        let multiply = || Tensor::ones([2, 3], (Kind::Float, Device::Cpu)).matmul(&Tensor::from(1));
        let Err(TorchFailure::Other(message)) = guarded(multiply) else { panic!("it fails") };
        assert!(message.contains("dtype") || message.contains("argument"), "{message}");
        assert!(!message.contains("frame #"), "{message}");
        let huge = guarded(|| Tensor::empty([1 << 50], (Kind::Float, Device::Cpu)));
        assert!(matches!(huge, Err(TorchFailure::OutOfMemory(_))));
    }

    #[test]
    fn our_own_panics_pass() {
        let result = panic::catch_unwind(|| guarded(|| panic!("a bug")));
        assert!(result.is_err());
    }
}
