//! Whether an operation ran, be it a kernel of ours or one of libtorch's: results alone would be right, too,
//! where a kernel steps aside for what it is compared with. Shared with `tests/numerics`, which runs without a GPU.

use gimlet::nn::profiler::{EventKind, profile};
use tch::Device;

/// What `body` yields, and those of the operations named that it has not run, neither forward nor backward.
/// Launches of our kernels are operations under the kernels' names.
pub fn without<'a, R>(operations: &[&'a str], body: impl FnOnce() -> R) -> (R, Vec<&'a str>) {
    // What the host does is enough to know what was launched.
    let (result, events) = profile(Device::Cpu, body);
    let ran = |name: &str| {
        events.iter().any(|event| event.kind == EventKind::Operation && event.name == name)
    };
    (result, operations.iter().copied().filter(|name| !ran(name)).collect())
}
