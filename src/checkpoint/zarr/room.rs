//! Memory for chunks that can only be unpacked as a whole, shared by all threads of the process.

use std::sync::{Condvar, Mutex};

/// Maximum bytes of all such chunks at a time; a larger chunk is unpacked alone.
const BUDGET_BYTES: usize = 512 << 20;

pub(super) static ROOM: Room = Room::new(BUDGET_BYTES);

/// A budget of bytes that are reserved and returned.
pub(super) struct Room {
    budget: usize,
    held: Mutex<usize>,
    changed: Condvar,
}

/// Reserved bytes, which are returned when this value is dropped.
pub(super) struct Held<'a> {
    room: &'a Room,
    bytes: usize,
}

impl Room {
    const fn new(budget: usize) -> Self {
        Self { budget, held: Mutex::new(0), changed: Condvar::new() }
    }

    /// Waits until `bytes` bytes are free, or nothing else is reserved. A thread must not reserve
    /// twice: it would wait for itself.
    pub(super) fn hold(&self, bytes: usize) -> Held<'_> {
        let is_full = |held: &mut usize| *held > 0 && held.saturating_add(bytes) > self.budget;
        let held = self.held.lock().expect("no holder of the room panics");
        let mut held = self.changed.wait_while(held, is_full).expect("as for `lock`");
        *held += bytes;
        Held { room: self, bytes }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.room.held.lock().expect("no holder of the room panics") -= self.bytes;
        self.room.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_more_than_the_budget_is_held_but_by_one_alone() {
        let room = Room::new(10);
        let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for bytes in [4, 4, 4, 25, 4, 4, 25, 4] {
                let (room, held, most) = (&room, &held, &most);
                scope.spawn(move || {
                    let _held = room.hold(bytes);
                    most.fetch_max(
                        held.fetch_add(bytes, Ordering::SeqCst) + bytes,
                        Ordering::SeqCst,
                    );
                    std::thread::yield_now();
                    held.fetch_sub(bytes, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 25);
        assert_eq!(*room.held.lock().unwrap(), 0);
    }
}
