//! Checks that work does not grow faster than its input.

use std::time::Duration;

/// Checks that ten times the size takes about ten times as long; quadratic code takes a hundred times.
pub fn check_growth(size: usize, work: &dyn Fn(usize)) {
    let least = |size| {
        let time = || {
            let start = cpu_time();
            work(size);
            cpu_time() - start
        };
        (0..3).map(|_| time()).min().expect("three runs")
    };
    let (small, large) = (least(size), least(10 * size));
    assert!(small > Duration::ZERO, "the work is done by another thread");
    assert!(large < 40 * small + Duration::from_millis(200), "{small:?} grew to {large:?}");
}

/// Returns the CPU time of this thread, which a busy machine does not increase.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is known, and the time is written to a place that is ours.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "the system has no such clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
