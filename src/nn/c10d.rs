//! PyTorch's c10d: the store by which processes find each other, groups of processes, and collective
//! operations on tensors. The Rust side of `bridge/c10d.cpp`.

use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;
use std::time::Duration;

use tch::Tensor;

use super::autograd::{RawTensor, raw, taken};
use super::bridge::Transport;
use super::error::C10dError;

unsafe extern "C" {
    fn gimlet_store_connect(
        host: *const c_char,
        port: u16,
        is_server: bool,
        prefix: *const c_char,
        timeout_ms: i64,
        store: *mut *mut c_void,
    ) -> *mut c_char;
    fn gimlet_store_free(store: *mut c_void);
    fn gimlet_store_set(
        store: *mut c_void,
        key: *const c_char,
        value: *const u8,
        length: usize,
    ) -> *mut c_char;
    fn gimlet_store_set_first(
        store: *mut c_void,
        key: *const c_char,
        value: *const u8,
        length: usize,
        is_first: *mut bool,
    ) -> *mut c_char;
    fn gimlet_store_has(store: *mut c_void, key: *const c_char, has: *mut bool) -> *mut c_char;
    fn gimlet_store_get(
        store: *mut c_void,
        key: *const c_char,
        timeout_ms: i64,
        value: *mut *mut u8,
        length: *mut usize,
    ) -> *mut c_char;
    fn gimlet_group_join(
        store: *mut c_void,
        name: *const c_char,
        nccl: bool,
        is_local: bool,
        rank: i32,
        size: i32,
        timeout_ms: i64,
        group: *mut *mut c_void,
    ) -> *mut c_char;
    fn gimlet_group_free(group: *mut c_void);
    fn gimlet_group_check(group: *mut c_void) -> *mut c_char;
    fn gimlet_group_waited(group: *mut c_void, seconds: *mut f64) -> *mut c_char;
    fn gimlet_all_reduce(
        group: *mut c_void,
        tensor: RawTensor,
        greatest: bool,
        work: *mut *mut c_void,
    ) -> *mut c_char;
    fn gimlet_all_gather(
        group: *mut c_void,
        part: RawTensor,
        whole: RawTensor,
        work: *mut *mut c_void,
    ) -> *mut c_char;
    fn gimlet_reduce_scatter(
        group: *mut c_void,
        parts: RawTensor,
        own: RawTensor,
        work: *mut *mut c_void,
    ) -> *mut c_char;
    fn gimlet_all_to_all(
        group: *mut c_void,
        parts: RawTensor,
        received: RawTensor,
        work: *mut *mut c_void,
    ) -> *mut c_char;
    fn gimlet_broadcast(
        group: *mut c_void,
        tensor: RawTensor,
        root: i32,
        work: *mut *mut c_void,
    ) -> *mut c_char;
    fn gimlet_work_wait(work: *mut c_void) -> *mut c_char;
    fn gimlet_work_is_done(work: *mut c_void) -> bool;
    fn gimlet_work_free(work: *mut c_void);
}

fn checked(message: *mut c_char) -> Result<(), C10dError> {
    if message.is_null() {
        return Ok(());
    }
    let text = taken(message);
    // Later lines are libtorch's C++ stack.
    Err(C10dError(text.lines().next().unwrap_or_default().to_string()))
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("zeros were replaced")
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A connection to the store that one process of a run serves: small values by key.
#[derive(Debug)]
pub struct Store(*mut c_void);

// SAFETY: c10d's stores lock themselves.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// Connects to the store at an address; the process that serves it passes `is_server`. Stores of another
    /// prefix are apart. The timeout is that of the operations.
    ///
    /// # Errors
    /// The address is taken, or nobody answers there.
    pub fn connect(
        (host, port): (&str, u16),
        is_server: bool,
        prefix: &str,
        timeout: Duration,
    ) -> Result<Self, C10dError> {
        let ([host, prefix], mut store) = ([host, prefix].map(c_string), null_mut());
        // SAFETY: the strings and `store` outlive the call.
        checked(unsafe {
            gimlet_store_connect(
                host.as_ptr(),
                port,
                is_server,
                prefix.as_ptr(),
                millis(timeout),
                &mut store,
            )
        })?;
        Ok(Self(store))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// The store is gone.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), C10dError> {
        let key = c_string(key);
        // SAFETY: key and value outlive the call.
        checked(unsafe { gimlet_store_set(self.0, key.as_ptr(), value.as_ptr(), value.len()) })
    }

    /// Sets a value unless there is one, and returns whether it is this one now.
    ///
    /// # Errors
    /// The store is gone.
    pub fn set_first(&self, key: &str, value: &[u8]) -> Result<bool, C10dError> {
        let (key, mut is_first) = (c_string(key), false);
        // SAFETY: all of them outlive the call.
        checked(unsafe {
            gimlet_store_set_first(self.0, key.as_ptr(), value.as_ptr(), value.len(), &mut is_first)
        })?;
        Ok(is_first)
    }

    /// Whether a value is set.
    ///
    /// # Errors
    /// The store is gone.
    pub fn has(&self, key: &str) -> Result<bool, C10dError> {
        let (key, mut has) = (c_string(key), false);
        // SAFETY: key and `has` outlive the call.
        checked(unsafe { gimlet_store_has(self.0, key.as_ptr(), &mut has) })?;
        Ok(has)
    }

    /// Waits for a value.
    ///
    /// # Errors
    /// It is not set in time, or the store is gone.
    pub fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, C10dError> {
        let (key, mut value, mut length) = (c_string(key), null_mut(), 0);
        // SAFETY: all of them outlive the call.
        checked(unsafe {
            gimlet_store_get(self.0, key.as_ptr(), millis(timeout), &mut value, &mut length)
        })?;
        // SAFETY: the bridge has allocated that many bytes with `malloc`, for this call to free.
        unsafe {
            let bytes = std::slice::from_raw_parts(value, length).to_vec();
            libc::free(value.cast());
            Ok(bytes)
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: it came from `gimlet_store_connect` and is not used again.
        unsafe { gimlet_store_free(self.0) }
    }
}

/// The place of a process in a group, and how the members talk.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    /// Number of this member, from 0.
    pub rank: usize,
    /// Number of members.
    pub size: usize,
    /// Gloo for tensors of the host, NCCL for those of GPUs.
    pub transport: Transport,
    /// Whether all members run on this host.
    pub is_local: bool,
    /// An operation fails if another member has not begun it after this time.
    pub timeout: Duration,
}

/// The way in which members' tensors become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Elements are added up.
    Sum,
    /// The greatest elements remain.
    Max,
}

/// A group of processes. All members make the same calls in the same order.
#[derive(Debug)]
pub struct ProcessGroup {
    raw: *mut c_void,
    size: usize,
}

// SAFETY: c10d's groups queue operations under a lock; the order of calls is that of their threads.
unsafe impl Send for ProcessGroup {}
// SAFETY: as above.
unsafe impl Sync for ProcessGroup {}

impl ProcessGroup {
    /// Joins the group of that name; returns when all members have.
    ///
    /// # Errors
    /// A member does not come in time, or cannot be reached.
    pub fn join(store: &Store, name: &str, member: Membership) -> Result<Self, C10dError> {
        let (name, mut raw) = (c_string(name), null_mut());
        let [rank, size] = [member.rank, member.size].map(|number| number as i32);
        let nccl = member.transport == Transport::Nccl;
        // SAFETY: name and `raw` outlive the call; the group holds the store on its own.
        checked(unsafe {
            gimlet_group_join(
                store.0,
                name.as_ptr(),
                nccl,
                member.is_local,
                rank,
                size,
                millis(member.timeout),
                &mut raw,
            )
        })?;
        Ok(Self { raw, size: member.size })
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Begins to replace a contiguous tensor by its sum over the members, or by its greatest elements.
    ///
    /// # Errors
    /// A kind of tensor that the transport does not know.
    pub fn all_reduce(&self, tensor: &Tensor, reduce: Reduce) -> Result<Work, C10dError> {
        self.begin(&[tensor], |work| {
            // SAFETY: the tensor lives as long as the operation.
            unsafe { gimlet_all_reduce(self.raw, raw(tensor), reduce == Reduce::Max, work) }
        })
    }

    /// Begins to fill `own` with this member's part of the sum of `parts`, whose first dimension is that of the
    /// members; both are contiguous.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn reduce_scatter(&self, parts: &Tensor, own: &Tensor) -> Result<Work, C10dError> {
        self.begin(&[parts, own], |work| {
            // SAFETY: the tensors live as long as the operation.
            unsafe { gimlet_reduce_scatter(self.raw, raw(parts), raw(own), work) }
        })
    }

    /// Begins to fill `whole` with the members' parts, in the order of their numbers; both are contiguous.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn all_gather(&self, part: &Tensor, whole: &Tensor) -> Result<Work, C10dError> {
        self.begin(&[part, whole], |work| {
            // SAFETY: the tensors live as long as the operation.
            unsafe { gimlet_all_gather(self.raw, raw(part), raw(whole), work) }
        })
    }

    /// Begins to send each member its part of `parts`, and to fill `received` with the members' parts for this one, in
    /// the order of their numbers. Both are contiguous, and the members divide their first dimension evenly.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn all_to_all(&self, parts: &Tensor, received: &Tensor) -> Result<Work, C10dError> {
        self.begin(&[parts, received], |work| {
            // SAFETY: the tensors live as long as the operation.
            unsafe { gimlet_all_to_all(self.raw, raw(parts), raw(received), work) }
        })
    }

    /// Begins to replace a contiguous tensor by that of the member `root`.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Work, C10dError> {
        self.begin(&[tensor], |work| {
            // SAFETY: the tensor lives as long as the operation.
            unsafe { gimlet_broadcast(self.raw, raw(tensor), root as i32, work) }
        })
    }

    /// Tells a failure that NCCL has noticed in the meantime: it happens on the GPU, where nobody waits.
    ///
    /// # Errors
    /// The failure. Results of operations that were under way are not valid.
    pub fn check(&self) -> Result<(), C10dError> {
        // SAFETY: the pointer is valid until dropped.
        checked(unsafe { gimlet_group_check(self.raw) })
    }

    /// Returns the seconds for which this member has waited for operations since it joined; on a GPU, those
    /// for which the stream has.
    ///
    /// # Errors
    /// A failure of CUDA.
    pub fn waited(&self) -> Result<f64, C10dError> {
        let mut seconds = 0.0;
        // SAFETY: the pointer is valid until dropped, and `seconds` outlives the call.
        checked(unsafe { gimlet_group_waited(self.raw, &mut seconds) })?;
        Ok(seconds)
    }

    fn begin(
        &self,
        tensors: &[&Tensor],
        call: impl FnOnce(*mut *mut c_void) -> *mut c_char,
    ) -> Result<Work, C10dError> {
        let mut raw = null_mut();
        checked(call(&mut raw))?;
        Ok(Work { raw, _tensors: tensors.iter().map(|tensor| tensor.shallow_clone()).collect() })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // SAFETY: it came from `gimlet_group_join` and is not used again.
        unsafe { gimlet_group_free(self.raw) }
    }
}

/// An operation under way; it holds its tensors.
#[derive(Debug)]
pub struct Work {
    raw: *mut c_void,
    _tensors: Vec<Tensor>,
}

// SAFETY: c10d's operations lock themselves.
unsafe impl Send for Work {}

impl Work {
    /// Whether it has ended; never waits.
    pub fn is_done(&self) -> bool {
        // SAFETY: the pointer is valid until dropped.
        unsafe { gimlet_work_is_done(self.raw) }
    }

    /// Waits until it has ended; on a GPU, lets later operations wait.
    ///
    /// # Errors
    /// Another process is gone, or has not joined in time.
    pub fn wait(self) -> Result<(), C10dError> {
        // SAFETY: the pointer is valid until dropped.
        checked(unsafe { gimlet_work_wait(self.raw) })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: it came from the bridge and is not used again.
        unsafe { gimlet_work_free(self.raw) }
    }
}
