//! CUDA graphs: work that is recorded once and then started again with a single launch, the Rust
//! side of `bridge/cuda_graph.cpp`. They suit work of many small kernels that run for less time
//! than their launches take.
//!
//! On an H200 decoding records its steps. A step that cannot be recorded causes a warning, and decoding goes on without
//! a graph; so does training (`train/step_graph`).

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

use super::autograd::{check, panic_message, taken};

/// A graph of libtorch's.
#[repr(C)]
struct RawGraph {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn gimlet_cuda_graph_capture(
        device: i32,
        data: *mut c_void,
        work: unsafe extern "C" fn(*mut c_void) -> bool,
        graph: *mut *mut RawGraph,
    ) -> *mut c_char;
    fn gimlet_cuda_graph_record(
        device: i32,
        beside: *mut RawGraph,
        data: *mut c_void,
        work: unsafe extern "C" fn(*mut c_void) -> bool,
        graph: *mut *mut RawGraph,
    ) -> *mut c_char;
    fn gimlet_cuda_graph_replay(graph: *mut RawGraph) -> *mut c_char;
    fn gimlet_cuda_graph_drop(graph: *mut RawGraph);
}

/// Recorded work.
#[derive(Debug)]
pub struct CudaGraph(*mut RawGraph);

/// The work to record, its number of completed runs, and the panic that ended it.
struct Work<'a> {
    run: &'a mut dyn FnMut(),
    runs: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl CudaGraph {
    /// Runs `work` twice on the CUDA device of that index, once to warm up and once to record it.
    /// The recording reads and writes the same memory each time, so inputs must be copied into the
    /// tensors that `work` reads, results are in the tensors that it made, and all of them must
    /// outlive the graph. `work` may not wait for the device. The error names the part that cannot
    /// be recorded; without CUDA there is always one.
    pub fn capture(device: usize, work: &mut dyn FnMut()) -> Result<Self, String> {
        Self::made_of(work, 1, |data, graph| {
            // SAFETY: `call` gets `data` unchanged, and both pointers outlive the call.
            unsafe { gimlet_cuda_graph_capture(device as i32, data, call, graph) }
        })
    }

    /// Runs `work` once, to record it, for the rest as [`CudaGraph::capture`]: the device has done such work before. With
    /// another graph it takes that one's memory, and the two must be started in turn. The work itself is not done.
    pub fn record(
        device: usize,
        beside: Option<&Self>,
        work: &mut dyn FnMut(),
    ) -> Result<Self, String> {
        let beside = beside.map_or(null_mut(), |graph| graph.0);
        Self::made_of(work, 0, |data, graph| {
            // SAFETY: as above; the graph beside it is borrowed.
            unsafe { gimlet_cuda_graph_record(device as i32, beside, data, call, graph) }
        })
    }

    /// Runs `make` on `work`, whose first runs are for warming up: a panic of these is the caller's.
    fn made_of(
        work: &mut dyn FnMut(),
        warm_ups: usize,
        make: impl FnOnce(*mut c_void, *mut *mut RawGraph) -> *mut c_char,
    ) -> Result<Self, String> {
        let mut work = Work { run: work, runs: 0, panic: None };
        let mut graph = null_mut();
        let data: *mut Work = &mut work;
        let message = make(data.cast(), &mut graph);
        let failed = (!message.is_null()).then(|| taken(message));
        match work.panic {
            // The work succeeded before, so the recording is what fails.
            Some(panic) if work.runs >= warm_ups => return Err(panic_message(panic.as_ref())),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
        failed.map_or(Ok(Self(graph)), Err)
    }

    /// Starts the recorded work, and does not wait for it.
    pub fn replay(&self) {
        // SAFETY: the graph lives as long as `self`.
        check(unsafe { gimlet_cuda_graph_replay(self.0) });
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: nothing else owns the graph.
        unsafe { gimlet_cuda_graph_drop(self.0) };
    }
}

/// # Safety
/// `data` points to a `Work` that nothing else uses.
unsafe extern "C" fn call(data: *mut c_void) -> bool {
    // SAFETY: as the caller promises.
    let work = unsafe { &mut *data.cast::<Work>() };
    match catch_unwind(AssertUnwindSafe(|| (work.run)())) {
        Ok(()) => {
            work.runs += 1;
            true
        }
        Err(panic) => {
            work.panic = Some(panic);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_without_cuda_says_so() {
        if tch::Cuda::is_available() {
            return;
        }
        for made in [CudaGraph::capture(0, &mut || ()), CudaGraph::record(0, None, &mut || ())] {
            assert!(!made.expect_err("there is no device").is_empty());
        }
    }
}
