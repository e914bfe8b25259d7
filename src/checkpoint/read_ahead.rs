//! Reads the arrays of a checkpoint in order, in several threads while the caller uses the previous
//! arrays.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::array::{Array, ArrayInfo, num_bytes};
use super::error::CheckpointError;

/// Maximum bytes of arrays that were read and not yet requested.
const BUDGET_BYTES: usize = 512 << 20;

/// The function that is called for each array, with its name.
pub type Visit<'a> = dyn FnMut(&str, Array) -> Result<(), CheckpointError> + 'a;

type ReadArray<'a> = dyn Fn(&str) -> Result<Array, CheckpointError> + Sync + 'a;

/// Reads the arrays with these names in order and passes each to `visit`, on the calling thread.
pub(super) fn read_ahead(
    num_threads: usize,
    leaves: &[ArrayInfo<'_>],
    names: &[&str],
    read: &ReadArray<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), CheckpointError> {
    let size = |leaf: &ArrayInfo<'_>| num_bytes(leaf.shape, leaf.dtype).unwrap_or(usize::MAX);
    let sizes: BTreeMap<&str, usize> = leaves.iter().map(|leaf| (leaf.name, size(leaf))).collect();
    let sizes = names.iter().map(|name| sizes.get(name).copied().unwrap_or(0)).collect();
    let queue = Queue { sizes, state: Mutex::default(), changed: Condvar::new() };
    std::thread::scope(|scope| {
        // Stops the readers, however this function ends.
        let _end = EndOnDrop(&queue);
        for _ in 0..num_threads.min(names.len()) {
            scope.spawn(|| {
                let _end = EndOnPanic(&queue);
                while let Some(at) = queue.claim() {
                    queue.put(at, read(names[at]));
                }
            });
        }
        names.iter().enumerate().try_for_each(|(at, name)| visit(name, queue.take(at)?))
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
    use crate::array::DType;

    #[test]
    fn arrays_come_in_order_and_little_is_held() {
        let names: Vec<String> = (0..50).map(|i| format!("a{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // The claimed size: two such arrays fit into the budget.
        let shape = [BUDGET_BYTES / 8];
        let leaf = |name| ArrayInfo { name, dtype: DType::F32, shape: &shape };
        let leaves: Vec<_> = names.iter().map(|name| leaf(*name)).collect();
        let (begun, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let read = |name: &str| {
            let now = begun.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            Ok(Array::scalar_i32(name[1..].parse().expect("a number")))
        };
        let mut seen = Vec::new();
        let mut visit = |_: &str, array: Array| {
            begun.fetch_sub(1, Ordering::SeqCst);
            seen.push(array.to_int().expect("an integer"));
            Ok(())
        };
        read_ahead(4, &leaves, &names, &read, &mut visit).unwrap();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
        // Two arrays in the queue, and one that was taken and is being visited.
        assert!(most.into_inner() <= 3);
    }

    #[test]
    #[should_panic(expected = "no reader panics")]
    fn a_panic_of_a_reader_ends_the_call_and_not_the_process() {
        let read = |_: &str| panic!("a defect");
        let _ = read_ahead(2, &[], &["a", "b"], &read, &mut |_, _| Ok(()));
    }

    #[test]
    fn the_first_error_in_order_ends_the_reading() {
        let names = ["a", "b", "c", "d"];
        let read = |name: &str| match name {
            "a" => Ok(Array::scalar_i32(0)),
            _ => Err(CheckpointError::Assignment(name.to_string())),
        };
        let error = read_ahead(4, &[], &names, &read, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "assignment_map: b");
    }
}
