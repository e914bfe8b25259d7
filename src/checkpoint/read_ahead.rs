//! Reads the arrays of a checkpoint in order, in several threads while the caller uses the previous
//! arrays.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::array::Array;
use super::error::CheckpointError;

/// Maximum bytes of arrays that were read and not yet requested.
const BUDGET_BYTES: usize = 512 << 20;

/// The function that is called for each array, with its name.
pub type Visit<'a> = dyn FnMut(&str, Array) -> Result<(), CheckpointError> + 'a;

/// Reads the array of that index.
type ReadArray<'a> = dyn Fn(usize) -> Result<Array, CheckpointError> + Sync + 'a;

/// Reads arrays, given as names and numbers of bytes, in order and passes each to `visit`, on the calling thread.
pub(super) fn read_ahead(
    num_threads: usize,
    arrays: &[(&str, usize)],
    read: &ReadArray<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), CheckpointError> {
    let sizes = arrays.iter().map(|(_, bytes)| *bytes).collect();
    let queue = Queue { sizes, state: Mutex::default(), changed: Condvar::new() };
    std::thread::scope(|scope| {
        // Stops the readers, however this function ends.
        let _end = EndOnDrop(&queue);
        for _ in 0..num_threads.min(arrays.len()) {
            scope.spawn(|| {
                let _end = EndOnPanic(&queue);
                while let Some(at) = queue.claim() {
                    queue.put(at, read(at));
                }
            });
        }
        arrays.iter().enumerate().try_for_each(|(at, (name, _))| visit(name, queue.take(at)?))
    })
}

#[derive(Default)]
struct State {
    /// Index of the next array that no thread reads yet.
    next: usize,
    /// Arrays that were read and not taken, or the errors of reading them.
    done: BTreeMap<usize, Result<Array, CheckpointError>>,
    /// Bytes of these arrays, and of the arrays that are being read.
    held: usize,
    ended: bool,
}

struct Queue {
    sizes: Vec<usize>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the queue panics")
    }

    /// Waits for free space and returns the index of the next array to read.
    fn claim(&self) -> Option<usize> {
        let waits = |state: &mut State| {
            let size = self.sizes.get(state.next).copied().unwrap_or(0);
            let has_room = state.held == 0 || state.held.saturating_add(size) <= BUDGET_BYTES;
            !state.ended && !has_room
        };
        let mut state = self.changed.wait_while(self.lock(), waits).expect("as for `lock`");
        let at = state.next;
        if state.ended || at == self.sizes.len() {
            return None;
        }
        state.next += 1;
        state.held = state.held.saturating_add(self.sizes[at]);
        Some(at)
    }

    fn put(&self, at: usize, result: Result<Array, CheckpointError>) {
        self.lock().done.insert(at, result);
        self.changed.notify_all();
    }

    /// Waits for an array and hands it to the caller, so that its bytes no longer count.
    fn take(&self, at: usize) -> Result<Array, CheckpointError> {
        let waits = |state: &mut State| !state.done.contains_key(&at) && !state.ended;
        let mut state = self.changed.wait_while(self.lock(), waits).expect("as for `lock`");
        let result = state.done.remove(&at);
        state.held = state.held.saturating_sub(self.sizes[at]);
        // A panic while holding the lock would end the process: other threads lock it while they
        // unwind.
        drop(state);
        self.changed.notify_all();
        result.expect("no reader panics")
    }
}

struct EndOnDrop<'a>(&'a Queue);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// Ends the queue when a reader panics, so that the caller does not wait forever.
struct EndOnPanic<'a>(&'a Queue);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(EndOnDrop(self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn arrays_come_in_order_and_little_is_held() {
        // The claimed size: two such arrays fit into the budget.
        let arrays = [("a", BUDGET_BYTES / 2); 50];
        let (begun, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let read = |at: usize| {
            let now = begun.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            Ok(Array::scalar_i32(at as i32))
        };
        let mut seen = Vec::new();
        let mut visit = |_: &str, array: Array| {
            begun.fetch_sub(1, Ordering::SeqCst);
            seen.push(array.to_int().expect("an integer"));
            Ok(())
        };
        read_ahead(4, &arrays, &read, &mut visit).unwrap();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
        // Two arrays in the queue, and one that was taken and is being visited.
        assert!(most.into_inner() <= 3);
    }

    #[test]
    #[should_panic(expected = "no reader panics")]
    fn a_panic_of_a_reader_ends_the_call_and_not_the_process() {
        let read = |_| panic!("a defect");
        let _ = read_ahead(2, &[("a", 0), ("b", 0)], &read, &mut |_, _| Ok(()));
    }

    #[test]
    fn the_first_error_in_order_ends_the_reading() {
        let arrays = ["a", "b", "c", "d"].map(|name| (name, 0));
        let read = |at: usize| match arrays[at].0 {
            "a" => Ok(Array::scalar_i32(0)),
            name => Err(CheckpointError::Assignment(name.to_string())),
        };
        let error = read_ahead(4, &arrays, &read, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "assignment_map: b");
    }
}
