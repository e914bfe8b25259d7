//! Checks that an operation ran, either one of Gimlet's kernels or one of libtorch's: results alone
//! would be correct even if a kernel was not used. Shared with `tests/numerics`, which runs without
//! a GPU.

use gimlet::nn::profiler::{EventKind, profile};
use tch::Device;

/// Returns the result of `body`, and the named operations that it has not run, neither forward nor
/// backward. Launches of Gimlet's kernels are operations under the kernels' names.
pub fn without<'a, R>(operations: &[&'a str], body: impl FnOnce() -> R) -> (R, Vec<&'a str>) {
    // The work of the host is enough to know the launches.
    let (result, events) = profile(Device::Cpu, body);
    let ran = |name: &str| {
        events.iter().any(|event| event.kind == EventKind::Operation && event.name == name)
    };
    (result, operations.iter().copied().filter(|name| !ran(name)).collect())
}
