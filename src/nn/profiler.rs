//! libtorch's profiler, and marks for the parts of the model in its records: the Rust side of
//! `bridge/profiler.cpp`.
//!
//! ```no_run
//! use gimlet::nn::profiler::{Activity, part, profile};
//! let (sum, events) = profile(tch::Device::Cpu, || {
//!     let _part = part(Activity::Loss);
//!     tch::Tensor::ones([9], (tch::Kind::Float, tch::Device::Cpu)).sum(None::<tch::Kind>)
//! });
//! ```

use std::ffi::{CStr, c_char, c_void};
use std::panic::AssertUnwindSafe;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use tch::Device;

use super::autograd::check;

/// The purpose of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Products of activations and kernels.
    Products,
    /// Scores, softmax and averages, products included; projections to heads and from them are not.
    Attention,
    /// Norms, activations, dropout, and sums of the residual stream.
    Elementwise,
    /// Lookups of tokens and of position biases.
    Embeddings,
    /// Cross entropy, products to logits included.
    Loss,
    /// Updates of parameters.
    Optimizer,
    /// Copies for other processes, and waiting for theirs.
    Communication,
}

impl Activity {
    /// All parts, in the order in which a step reaches them.
    pub const ALL: [Activity; 7] = [
        Activity::Products,
        Activity::Attention,
        Activity::Elementwise,
        Activity::Embeddings,
        Activity::Loss,
        Activity::Optimizer,
        Activity::Communication,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        self.label().to_str().expect("labels are ASCII")
    }

    /// Its name, as the profiler records it.
    fn label(self) -> &'static CStr {
        match self {
            Activity::Products => c"GEMM",
            Activity::Attention => c"attention",
            Activity::Elementwise => c"norms and activations",
            Activity::Embeddings => c"embeddings",
            Activity::Loss => c"loss",
            Activity::Optimizer => c"optimizer",
            Activity::Communication => c"communication",
        }
    }

    /// The part of that name.
    pub fn named(name: &str) -> Option<Self> {
        Activity::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// The kind of work of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum EventKind {
    /// An operation of libtorch's.
    Operation = 0,
    /// The backward function of an operation.
    Backward = 1,
    /// Work marked by [`part`], under the part's name.
    Range = 2,
    /// A kernel or a copy on a CUDA device.
    Kernel = 3,
}

/// A recorded piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// libtorch's name of it, or the name of a part.
    pub name: String,
    /// Time of its start, in nanoseconds of some clock.
    pub start_ns: u64,
    /// Time of its end.
    pub end_ns: u64,
    /// The thread on which it ran; meaningless for kernels.
    pub thread: u64,
    /// The thread of the forward operation that a backward function belongs to.
    pub forward_thread: u64,
    /// The graph node that an operation makes next, or that a backward function is; operations that
    /// belong to each other have the same number. Negative for none.
    pub sequence: i64,
    /// Identifies an operation; for a kernel, the operation that launched it, 0 for none.
    pub correlation: u64,
    /// The kind of work.
    pub kind: EventKind,
}

#[repr(C)]
struct RawEvent {
    name: *const c_char,
    start_ns: u64,
    end_ns: u64,
    thread: u64,
    forward_thread: u64,
    sequence: i64,
    correlation: u64,
    kind: EventKind,
}

unsafe extern "C" {
    safe fn gimlet_profile_begin(on_cuda: bool) -> *mut c_char;
    fn gimlet_profile_end(
        sink: *mut c_void,
        take: unsafe extern "C" fn(*mut c_void, *const RawEvent),
    ) -> *mut c_char;
    fn gimlet_range_begin(name: *const c_char) -> *mut c_void;
    fn gimlet_range_end(range: *mut c_void);
}

/// Whether a recording is active.
static RECORDS: AtomicBool = AtomicBool::new(false);

/// Returns the result of `body`, and the work of this thread in the meantime, with the backward
/// passes and kernels that it started. One thread at a time.
///
/// # Panics
/// Like libtorch's operations, if its profiler fails.
pub fn profile<R>(device: Device, body: impl FnOnce() -> R) -> (R, Vec<Event>) {
    check(gimlet_profile_begin(device.is_cuda()));
    let mut recording = Recording { events: Vec::new(), ended: false };
    RECORDS.store(true, Ordering::Relaxed);
    let result = body();
    recording.end();
    (result, std::mem::take(&mut recording.events))
}

/// A recording that has begun. It ends when dropped, also by a panic.
struct Recording {
    events: Vec<Event>,
    ended: bool,
}

impl Recording {
    fn end(&mut self) {
        RECORDS.store(false, Ordering::Relaxed);
        self.ended = true;
        let sink: *mut Vec<Event> = &mut self.events;
        // SAFETY: the bridge calls `take` before it returns, each time with the sink and a live event.
        check(unsafe { gimlet_profile_end(sink.cast(), take) });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.ended {
            RECORDS.store(false, Ordering::Relaxed);
            // Another panic would abort; the first one matters more than the profiler's failure.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| self.end()));
        }
    }
}

/// # Safety
/// `sink` is the vector of an ending recording; the event lives during the call.
unsafe extern "C" fn take(sink: *mut c_void, event: *const RawEvent) {
    // SAFETY: as the caller promises.
    let (events, event) = unsafe { (&mut *sink.cast::<Vec<Event>>(), &*event) };
    // SAFETY: the bridge ends names with a zero.
    let name = unsafe { CStr::from_ptr(event.name) };
    events.push(Event {
        name: name.to_string_lossy().into_owned(),
        start_ns: event.start_ns,
        end_ns: event.end_ns,
        thread: event.thread,
        forward_thread: event.forward_thread,
        sequence: event.sequence,
        correlation: event.correlation,
        kind: event.kind,
    });
}

/// Marks the work of this thread as that of one part, as long as it lives.
#[derive(Debug)]
#[must_use = "the part ends when this is dropped"]
pub struct Range {
    raw: *mut c_void,
}

/// Marks the work of this thread until the result is dropped. Costs a load if no recording is
/// active. An inner mark wins over an outer one.
pub fn part(part: Activity) -> Range {
    let raw = match RECORDS.load(Ordering::Relaxed) {
        // SAFETY: labels live as long as the program.
        true => unsafe { gimlet_range_begin(part.label().as_ptr()) },
        false => ptr::null_mut(),
    };
    Range { raw }
}

impl Drop for Range {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: it was begun on this thread, since a pointer stays on its thread, and ends once.
            unsafe { gimlet_range_end(self.raw) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Kind, Tensor};

    #[test]
    fn operations_are_recorded_inside_their_part_and_nothing_outside() {
        let ones = || Tensor::ones([40, 40], (Kind::Float, Device::Cpu));
        let _unseen = part(Activity::Optimizer);
        let (sum, events) = profile(Device::Cpu, || {
            let leaf = ones().set_requires_grad(true);
            let product = {
                let _part = part(Activity::Products);
                leaf.mm(&ones())
            };
            let _part = part(Activity::Loss);
            let sum = product.sum(Kind::Float);
            sum.backward();
            sum.double_value(&[])
        });
        assert_eq!(sum, 64_000.0);
        let find = |name: &str, kind: EventKind| {
            let found = events.iter().find(|event| event.name == name && event.kind == kind);
            found.unwrap_or_else(|| panic!("{name} of {kind:?} is not in {events:#?}"))
        };
        let inside = |inner: &Event, outer: &Event| {
            inner.thread == outer.thread
                && outer.start_ns <= inner.start_ns
                && inner.end_ns <= outer.end_ns
        };
        let mm = find("aten::mm", EventKind::Operation);
        assert!(inside(mm, find("GEMM", EventKind::Range)), "{events:#?}");
        assert!(inside(find("aten::sum", EventKind::Operation), find("loss", EventKind::Range)));
        let backward = find("MmBackward0", EventKind::Backward);
        assert!(inside(backward, find("loss", EventKind::Range)), "{events:#?}");
        let belongs = (mm.sequence, mm.thread) == (backward.sequence, backward.forward_thread);
        assert!(belongs && mm.sequence >= 0, "{mm:?} and {backward:?}");
        assert!(
            !events.iter().any(|event| event.name == Activity::Optimizer.name()),
            "{events:#?}"
        );
        // The recording is over, and a new one begins empty.
        assert!(part(Activity::Loss).raw.is_null());
        assert_eq!(profile(Device::Cpu, || ()).1, []);
    }

    #[test]
    fn parts_are_found_by_their_names() {
        for part in Activity::ALL {
            assert_eq!(Activity::named(part.name()), Some(part));
        }
        assert_eq!(Activity::named("aten::mm"), None);
    }
}
