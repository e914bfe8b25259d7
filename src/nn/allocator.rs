//! The allocator of programs with libtorch: jemalloc, which takes the place of the C library's `malloc` for tensors too.
//!
//! A training step allocates and frees the same large tensors repeatedly. The C library either maps each of them again,
//! so that every page faults in and is cleared, or keeps them in a heap in which a block no longer fits the hole that it
//! left ([decision 46](../../docs/decisions/0046-tensors-come-from-jemalloc.md)).

use std::ffi::c_char;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Options, which the environment variable `MALLOC_CONF` overrides. Freed memory is kept, for the next step. One arena
/// serves all threads and sizes, so that a hole that one thread leaves fits another's tensor. Pages are of 2 MiB: with them a core
/// of an Intel Xeon read memory at 14 instead of 10 to 12 GB/s, beside other jobs.
const OPTIONS: &[u8] =
    b"narenas:1,oversize_threshold:0,cache_oblivious:false,dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always\0";

/// The variable in which jemalloc looks for the options of a program.
#[unsafe(export_name = "malloc_conf")]
static MALLOC_CONF: Option<&c_char> = {
    // SAFETY: a byte is a `c_char`, and the options end in a zero.
    Some(unsafe { &*OPTIONS.as_ptr().cast() })
};
