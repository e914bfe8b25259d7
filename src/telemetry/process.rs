//! The machine's memory, and the resources that this process has used so far, as the system counts them.

use std::mem::MaybeUninit;
use std::time::Instant;

/// Returns the CPU seconds of all threads, which a busy machine increases less than the clock's.
pub fn cpu_seconds() -> f64 {
    let usage = usage();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Returns the peak memory of the process.
pub fn peak_resident_bytes() -> u64 {
    // Kilobytes everywhere except on macOS.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    usage().ru_maxrss as u64 * unit
}

/// Returns the bytes that the process has read, from files on disk or in the page cache; `None` if
/// the system does not count them.
pub fn read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("rchar: "))?.trim().parse().ok()
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

fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `getrusage` fills in the given struct, for which zeros are valid values too.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// The durations of some repetitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Laps {
    /// Seconds of the clock.
    pub seconds: Vec<f64>,
    /// CPU seconds of all threads.
    pub cpu_seconds: Vec<f64>,
}

impl Laps {
    /// Runs and times one more repetition.
    pub fn time<R>(&mut self, body: impl FnOnce() -> R) -> R {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let result = body();
        self.seconds.push(start.elapsed().as_secs_f64());
        self.cpu_seconds.push(cpu_seconds() - cpu);
        result
    }

    /// Returns the sum of all.
    pub fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Returns the shortest; NaN if there is none.
    pub fn best(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::NAN, f64::min)
    }

    /// Returns the median, the mean of the middle two for an even number; NaN if there is none.
    pub fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => sorted[count / 2],
            count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let laps = |seconds: &[f64]| Laps { seconds: seconds.to_vec(), ..Laps::default() };
        assert_eq!(laps(&[3.0, 1.0, 8.0]).median(), 3.0);
        assert_eq!(laps(&[3.0, 1.0, 8.0, 2.0]).median(), 2.5);
        assert_eq!(laps(&[3.0, 1.0, 8.0]).best(), 1.0);
        assert!(laps(&[]).median().is_nan() && laps(&[]).best().is_nan());
    }

    #[test]
    fn work_takes_time_and_memory() {
        let mut laps = Laps::default();
        let sum = laps.time(|| (0..20_000_000u64).map(std::hint::black_box).sum::<u64>());
        assert_eq!(sum, 19_999_999 * 10_000_000);
        assert!(laps.total() > 0.0 && laps.cpu_seconds[0] > 0.0);
        assert!(peak_resident_bytes() > 1 << 20);
    }
}
