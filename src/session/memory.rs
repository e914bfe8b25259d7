//! The memory of the machine, and the memory that parameters need.

use crate::models::Model;

/// Returns the message for the user if the parameters alone need more than `available` bytes.
pub fn parameter_shortage(model: &Model, available: u64) -> Option<String> {
    let needed = model.num_params().saturating_mul(4);
    (needed > available).then(|| {
        format!(
            "the parameters take {}, and {} are available: use a machine with more memory, or \
             lower {}'s dimensions",
            gib(needed as f64),
            gib(available as f64),
            model.dimensions().configurable,
        )
    })
}

/// Returns the bytes that this machine's processes can still allocate, if the system reports them.
pub fn available_on_host() -> Option<u64> {
    memory_of_host(["MemAvailable:", "SwapFree:"])
}

/// Returns the bytes that this machine has, if the system reports them.
pub fn total_on_host() -> Option<u64> {
    memory_of_host(["MemTotal:", "SwapTotal:"])
}

/// Returns the sum of two lines of `/proc/meminfo`, or the limit of the process's group.
fn memory_of_host(lines: [&str; 2]) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    let [memory, swap] = lines.map(kilobytes);
    Some(((memory? + swap.unwrap_or(0)) * 1024).min(limit))
}

/// Formats bytes for the user.
pub fn gib(bytes: f64) -> String {
    format!("{:.1} GiB", bytes / f64::from(1 << 30))
}
