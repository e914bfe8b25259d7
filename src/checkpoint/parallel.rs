//! Runs work on many pieces in parallel: chunks of an array, arrays of a checkpoint.

use std::num::NonZero;
use std::sync::Mutex;

use gimlet_storage::Path;

/// Maximum number of threads, however many cores there are; remote storage uses this number, since
/// each thread waits for answers.
const MAX_THREADS: usize = 16;

/// Number of threads per core for disks: a disk has latency too, and serves several requests as
/// fast as one.
const THREADS_PER_CORE: usize = 4;

/// The number of threads for reading or writing files below a path.
pub(super) fn num_threads(path: &Path) -> usize {
    match path.is_remote() {
        true => MAX_THREADS,
        false => (THREADS_PER_CORE * num_cores()).min(MAX_THREADS),
    }
}

/// The number of threads for work that keeps cores busy.
pub(super) fn num_cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}

/// Runs `work` on each item in `num_threads` threads, in no order; after an error no new item is
/// started, and the error is returned.
pub(super) fn for_each<T: Send, E: Send>(
    num_threads: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let mut items = items.peekable();
    let Some(first) = items.next() else { return Ok(()) };
    if items.peek().is_none() {
        return work(first);
    }
    let items = Mutex::new((std::iter::once(first).chain(items), None));
    let next = || {
        let mut items = items.lock().expect("no holder of the items panics");
        if items.1.is_some() { None } else { items.0.next() }
    };
    let worker = || {
        while let Some(item) = next() {
            if let Err(error) = work(item) {
                items.lock().expect("no holder of the items panics").1.get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..num_threads {
            scope.spawn(worker);
        }
        worker();
    });
    let (_, error) = items.into_inner().expect("no holder of the items panics");
    error.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_item_is_worked_on_once_and_an_error_ends_the_work() {
        let sum = AtomicUsize::new(0);
        for_each(4, 1..=100_usize, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 5050);
        let done = AtomicUsize::new(0);
        let found = for_each(4, 0.., |i| {
            done.fetch_add(1, Ordering::Relaxed);
            if i == 10 { Err(i) } else { Ok(()) }
        });
        assert_eq!(found, Err(10));
        assert!(done.into_inner() < 1_000_000);
    }
}
