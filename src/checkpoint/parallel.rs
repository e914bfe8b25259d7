//! Many arrays at a time: written by several threads, and read ahead of whoever takes them.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, mpsc};

use super::array::{Array, ArrayView};
use super::error::CheckpointError;
use super::native::Writer;
use super::stored::Stored;

/// More threads than this gain nothing on one disk, and they share the processor with training.
const MAX_THREADS: usize = 4;

/// Bytes of arrays that are read before they are taken; a larger array is read alone.
const READ_AHEAD: usize = 256 << 20;

/// Writes arrays on several threads, the largest first. A thread holds a few hundred KiB beside the
/// arrays themselves.
///
/// # Errors
/// The first; arrays that are not begun by then are not written.
pub fn write_arrays(
    writer: &Writer,
    arrays: &[(&str, ArrayView<'_>)],
) -> Result<(), CheckpointError> {
    let mut order: Vec<_> = arrays.iter().collect();
    order.sort_by_key(|(_, array)| std::cmp::Reverse(array.data.len()));
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), CheckpointError> {
        while let Some((name, array)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let written = writer.array(name, *array);
            written.inspect_err(|_| next.store(order.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..num_threads()).map(|_| scope.spawn(work)).collect();
        let own = work();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("writing does not panic"))
            .fold(own, Result::and)
    })
}

/// Reads arrays on several threads and hands each to `take`, on this thread and with its place in
/// `names`, in no particular order.
///
/// # Errors
/// The first that reading or `take` meets.
pub fn read_arrays<E: From<CheckpointError>>(
    stored: &dyn Stored,
    names: &[&str],
    take: impl FnMut(usize, Array) -> Result<(), E>,
) -> Result<(), E> {
    read_within(READ_AHEAD, stored, names, take)
}

fn read_within<E: From<CheckpointError>>(
    limit: usize,
    stored: &dyn Stored,
    names: &[&str],
    mut take: impl FnMut(usize, Array) -> Result<(), E>,
) -> Result<(), E> {
    let sizes: BTreeMap<&str, usize> =
        stored.leaves().iter().map(|leaf| (leaf.name, leaf.num_bytes())).collect();
    let cost = |at: usize| sizes.get(names[at]).copied().unwrap_or(0).min(limit);
    let (next, budget) = (AtomicUsize::new(0), Budget::new(limit));
    let (sender, receiver) = mpsc::channel();
    let read = |sender: mpsc::Sender<(usize, Result<Array, CheckpointError>)>| {
        let _close = CloseOn { budget: &budget, end: End::Panic };
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            // A receiver that is gone has met an error.
            if at >= names.len()
                || !budget.take(cost(at))
                || sender.send((at, stored.read(names[at]))).is_err()
            {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..num_threads() {
            let (read, sender) = (&read, sender.clone());
            scope.spawn(move || read(sender));
        }
        drop(sender);
        let _close = CloseOn { budget: &budget, end: End::Any };
        receiver.into_iter().try_for_each(|(at, array)| {
            take(at, array?)?;
            budget.give_back(cost(at));
            Ok(())
        })
    })
}

fn num_threads() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get).clamp(2, MAX_THREADS)
}

/// Bytes that may still be held; `None` once nobody takes arrays any more.
struct Budget {
    free: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Budget {
    fn new(bytes: usize) -> Self {
        Self { free: Mutex::new(Some(bytes)), changed: Condvar::new() }
    }

    /// Waits until there are so many, and takes them; `false` when closed.
    fn take(&self, bytes: usize) -> bool {
        let free = self.free.lock().expect(WHOLE);
        let is_short = |free: &mut Option<usize>| free.is_some_and(|free| free < bytes);
        let mut free = self.changed.wait_while(free, is_short).expect(WHOLE);
        *free = free.map(|free| free - bytes);
        free.is_some()
    }

    fn give_back(&self, bytes: usize) {
        let mut free = self.free.lock().expect(WHOLE);
        *free = free.map(|free| free + bytes);
        self.changed.notify_all();
    }

    fn close(&self) {
        *self.free.lock().expect(WHOLE) = None;
        self.changed.notify_all();
    }
}

/// Closes a budget at the end of a scope, so that nobody waits for bytes that never come back.
struct CloseOn<'a> {
    budget: &'a Budget,
    end: End,
}

#[derive(PartialEq)]
enum End {
    Any,
    Panic,
}

impl Drop for CloseOn<'_> {
    fn drop(&mut self) {
        if self.end == End::Any || std::thread::panicking() {
            self.budget.close();
        }
    }
}

/// Why a lock is never poisoned.
const WHOLE: &str = "nothing panics while it counts bytes";

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::checkpoint::{ArrayInfo, DType, Format};
    use crate::storage::Path;

    /// Thirty arrays of 400 bytes; counts those that were read and not yet taken.
    #[derive(Debug)]
    struct Fake {
        path: Path,
        names: Vec<String>,
        held: AtomicUsize,
        most: AtomicUsize,
        fails_at: Range<usize>,
    }

    impl Fake {
        fn new(fails_at: Range<usize>) -> Self {
            let names = (0..30).map(|at| format!("target/{at:02}")).collect();
            let [held, most] = [0, 0].map(AtomicUsize::new);
            Self { path: Path::parse("fake").unwrap(), names, held, most, fails_at }
        }

        /// Reads everything; yields what arrived, sorted, or the error.
        fn read_all(&self, limit: usize) -> Result<Vec<f32>, CheckpointError> {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            let mut arrived = Vec::new();
            read_within(limit, self, &names, |at, array| {
                let value = array.to_f32().unwrap()[0];
                assert_eq!(value, at as f32);
                arrived.push(value);
                self.held.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, CheckpointError>(())
            })?;
            arrived.sort_by(f32::total_cmp);
            Ok(arrived)
        }
    }

    impl Stored for Fake {
        fn path(&self) -> &Path {
            &self.path
        }

        fn format(&self) -> Format {
            Format::T5x
        }

        fn step(&self) -> Result<u64, CheckpointError> {
            Ok(0)
        }

        fn leaves(&self) -> Vec<ArrayInfo<'_>> {
            let info = |name| ArrayInfo { name, dtype: DType::F32, shape: &[100] };
            self.names.iter().map(|name| info(name)).collect()
        }

        fn read(&self, name: &str) -> Result<Array, CheckpointError> {
            let at = self.names.iter().position(|known| known == name).unwrap();
            if self.fails_at.contains(&at) {
                return Err(self.no_array(name));
            }
            let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(held, Ordering::SeqCst);
            Ok(Array::from_f32(&[100], &[at as f32; 100]))
        }
    }

    #[test]
    fn every_array_arrives_once_and_few_are_held() {
        // Less than one array; two of them; all.
        for (limit, most) in [(10, 1), (800, 2), (1 << 20, 30)] {
            let fake = Fake::new(0..0);
            let expected: Vec<f32> = (0..30u8).map(f32::from).collect();
            assert_eq!(fake.read_all(limit).unwrap(), expected);
            assert!(fake.most.into_inner() <= most, "limit {limit}");
        }
    }

    #[test]
    fn an_error_of_either_side_ends_the_reading() {
        let fake = Fake::new(7..30);
        assert!(matches!(fake.read_all(800), Err(CheckpointError::NoArray { .. })));
        let fake = Fake::new(0..0);
        let names: Vec<&str> = fake.names.iter().map(String::as_str).collect();
        let refuse = |_, _| Err(CheckpointError::Assignment("no".to_string()));
        let error = read_within(800, &fake, &names, refuse).unwrap_err();
        assert!(matches!(error, CheckpointError::Assignment(_)));
    }
}
