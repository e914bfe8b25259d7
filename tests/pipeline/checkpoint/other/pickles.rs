//! Pickles that try to run code, or to use all memory.

use gimlet::checkpoint::{CheckpointError, Stored};
use gimlet::models::open;

use crate::checkpoint::scratch;

/// A pickle of protocol 2.
fn pickle(body: &[u8]) -> Vec<u8> {
    [b"\x80\x02", body, b"."].concat()
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The tensor `a` on a storage of four floats, with shape and strides as pickled.
fn tensor(shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let storage = [b"(", &text("storage")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu")];
    let storage = [&storage.concat()[..], b"K\x04NtQ"].concat();
    let call = [b"ctorch._utils\n_rebuild_tensor_v2\n(", &storage[..], b"K\x00", shape, strides];
    [b"}", &text("a")[..], &call.concat(), b"\x89NtRs"].concat()
}

/// A file of the form before zip archives, with one storage of four floats.
fn file(object: &[u8]) -> Vec<u8> {
    let magic = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    let keys = pickle(&[b"](", &text("0")[..], b"e"].concat());
    let mut storage = 4u64.to_le_bytes().to_vec();
    storage.extend([0, 1, 2, 3].map(|value| (value as f32).to_le_bytes()).concat());
    let start = [pickle(magic), pickle(b"M\xe9\x03"), pickle(b"}")].concat();
    [start, pickle(object), keys, storage].concat()
}

fn opened(bytes: &[u8]) -> Result<Box<dyn Stored>, CheckpointError> {
    let (_dir, dir) = scratch();
    let path = dir.join("model.pth");
    path.write_atomic(bytes).unwrap();
    // Read while the file exists.
    open(&path).inspect(|stored| stored.verify().unwrap())
}

#[test]
fn the_tensor_of_these_tests_is_read() {
    let stored = opened(&file(&tensor(b"K\x02K\x02\x86", b"K\x01K\x02\x86"))).unwrap();
    assert_eq!(stored.shapes()["target/a"], [2, 2]);
}

/// The result of saving `t.expand(3, 2)` by `torch.save`.
#[test]
fn an_expanded_tensor_is_read() {
    let stored = opened(&file(&tensor(b"K\x03K\x02\x86", b"K\x00K\x01\x86"))).unwrap();
    assert_eq!(stored.shapes()["target/a"], [3, 2]);
    let values = stored.read("target/a").unwrap().to_f32().unwrap();
    assert_eq!(values, [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
}

fn check(object: &[u8], expected: &str) {
    let message = opened(&file(object)).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

#[test]
fn whatever_is_no_tensor_is_refused_by_name_and_never_run() {
    check(&[b"cposix\nsystem\n", &text("false")[..], b"\x85R"].concat(), "asks for `posix.system`");
    check(b"cbuiltins\neval\n", "asks for `builtins.eval`");
    check(b"ctorch\nload\n", "asks for `torch.load`");
    let by_stack = [&text("os")[..], &text("system"), b"\x93"].concat();
    check(&by_stack, "asks for `os.system`");
    check(b"ccollections\nOrderedDict\nK\x01\x85R", "the items of a dict is a number");
    check(b"ccollections\nOrderedDict\n}b", "sets attributes of a class");
    check(b"i", "opcode 0x69");
}

#[test]
fn depth_and_sharing_cost_nothing() {
    let deep = [b"N", &[0x85; 1_000_000][..]].concat();
    check(&deep, "it holds a list, expected a dict of tensors");
    // A hundred times a pair of the previous value: a walk over it would visit 2^100 leaves.
    let wide = [b"N", &[b'2', 0x86].repeat(100)[..]].concat();
    check(&wide, "it holds a list, expected a dict of tensors");
}

#[test]
fn endless_work_is_refused() {
    check(&[b'N'; 9_000_000], "over 8000000 operations");
    // A list of a million elements copied again and again.
    let items = [b"](", &[b'N'; 1_000_000][..], b"e\x85q\x000"].concat();
    let again = b"ccollections\nOrderedDict\nh\x00R0".repeat(20);
    check(&[items, again].concat(), "an item of a dict is None");
    check(b"X\xff\xff\xff\xffabc", "its pickle is truncated");
    check(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc", "its pickle is truncated");
}

#[test]
fn tensors_outside_of_their_storage_are_refused() {
    let large = b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x10\x85";
    check(&tensor(large, b"K\x00\x85"), "does not fit its storage of 4 elements");
    check(&tensor(large, b"K\x01\x85"), "does not fit its storage of 4 elements");
    check(&tensor(b"K\x05\x85", b"K\x01\x85"), "does not fit its storage of 4 elements");
    check(&tensor(b"K\x02\x85", b"K\x04\x85"), "does not fit its storage of 4 elements");
    // An empty tensor with endless extents to count.
    let endless = [b"(K\x00", &large[..10], &large[..10], b"t"].concat();
    check(&tensor(&endless, b"(K\x00K\x00K\x00t"), "no machine holds float32 of shape");
    let below = b"J\xff\xff\xff\xff\x85";
    check(&tensor(b"K\x02\x85", below), "a tensor's strides holds -1");
    check(&tensor(&[&b"("[..], &b"K\x01".repeat(100), b"t"].concat(), b")"), "has 100 dimensions");
    check(&tensor(b"K\x02\x85", b")"), "more strides than dimensions");
}

#[test]
fn every_cut_is_noticed() {
    let whole = file(&tensor(b"K\x02K\x02\x86", b"K\x02K\x01\x86"));
    for length in 0..whole.len() {
        assert!(opened(&whole[..length]).is_err(), "cut at {length}");
    }
}
