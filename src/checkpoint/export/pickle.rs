//! Values of Python and their pickles, in protocol 2, which every version of `torch.load` reads, also with
//! `weights_only=True`.

use std::collections::BTreeSet;

use super::tensor::Tensor;
use crate::array::DType;

/// A value of Python.
#[derive(Clone, Debug, PartialEq)]
pub enum PickleValue {
    /// None.
    None,
    /// A bool.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// A str.
    Text(String),
    /// A tuple.
    Tuple(Vec<PickleValue>),
    /// A list.
    List(Vec<PickleValue>),
    /// A dict.
    Dict(Vec<(PickleValue, PickleValue)>),
    /// The OrderedDict of a module's tensors by name, with the versions of its modules.
    StateDict(Vec<(String, PickleValue)>),
    /// A tensor.
    Tensor(StorageView),
}

/// A tensor of the elements of a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageView {
    /// The number of the storage in the file.
    storage: usize,
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl StorageView {
    /// The whole of a storage, which a tensor fills.
    pub(super) fn of(storage: usize, tensor: &Tensor) -> Self {
        let shape = tensor.out_shape.clone();
        let strides = (1..=shape.len()).map(|axis| shape[axis..].iter().product()).collect();
        Self { storage, dtype: tensor.dtype, shape, strides }
    }

    /// The same elements with the axes in the reverse order.
    pub(super) fn swapped(mut self) -> Self {
        self.shape.reverse();
        self.strides.reverse();
        self
    }
}

impl PickleValue {
    /// A dict with these texts as keys.
    pub fn dict<K: Into<String>>(items: impl IntoIterator<Item = (K, PickleValue)>) -> Self {
        Self::Dict(items.into_iter().map(|(key, value)| (Self::Text(key.into()), value)).collect())
    }

    /// Returns the pickle.
    pub(super) fn pickled(&self) -> Vec<u8> {
        let mut out = b"\x80\x02".to_vec();
        self.put(&mut out);
        out.push(b'.');
        out
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => out.push(b'N'),
            Self::Bool(value) => out.push(if *value { 0x88 } else { 0x89 }),
            Self::Int(value) => put_int(out, *value),
            Self::Float(value) => {
                out.push(b'G');
                out.extend(value.to_be_bytes());
            }
            Self::Text(text) => put_text(out, text),
            Self::Tuple(items) => put_marked(out, b"(", items, b"t"),
            Self::List(items) => put_marked(out, b"](", items, b"e"),
            Self::Dict(items) => {
                out.extend(b"}");
                put_items(out, items.iter().map(|(key, value)| (key.clone(), value)));
            }
            Self::StateDict(items) => put_state_dict(out, items),
            Self::Tensor(view) => put_tensor(out, view),
        }
    }
}

fn put_marked(out: &mut Vec<u8>, begin: &[u8], items: &[PickleValue], end: &[u8]) {
    out.extend(begin);
    items.iter().for_each(|item| item.put(out));
    out.extend(end);
}

/// Appends the setting of keys of the dict that was appended before.
fn put_items<'a>(out: &mut Vec<u8>, items: impl Iterator<Item = (PickleValue, &'a PickleValue)>) {
    out.push(b'(');
    for (key, value) in items {
        key.put(out);
        value.put(out);
    }
    out.push(b'u');
}

/// Appends an OrderedDict, and its attribute `_metadata`: the version of each module, which is 1 for all of a T5.
fn put_state_dict(out: &mut Vec<u8>, items: &[(String, PickleValue)]) {
    out.extend(b"ccollections\nOrderedDict\n)R");
    put_items(out, items.iter().map(|(name, value)| (PickleValue::Text(name.clone()), value)));
    let mut modules = BTreeSet::from([""]);
    for (name, _) in items {
        modules.extend(name.match_indices('.').map(|(end, _)| &name[..end]));
    }
    let version = || PickleValue::dict([("version", PickleValue::Int(1))]);
    let versions = PickleValue::dict(modules.into_iter().map(|module| (module, version())));
    PickleValue::dict([("_metadata", versions)]).put(out);
    out.push(b'b');
}

/// Appends a call of the function that builds a tensor from a storage, which the reader finds by
/// its number.
fn put_tensor(out: &mut Vec<u8>, view: &StorageView) {
    out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text(out, "storage");
    let class = storage_class(view.dtype).expect("writers look for others");
    out.extend(format!("ctorch\n{class}\n").bytes());
    put_text(out, &view.storage.to_string());
    put_text(out, "cpu");
    put_size(out, view.shape.iter().product());
    out.extend(b"tQ");
    put_size(out, 0);
    for sizes in [&view.shape, &view.strides] {
        out.push(b'(');
        sizes.iter().for_each(|size| put_size(out, *size));
        out.push(b't');
    }
    // No gradient, and no hooks.
    out.extend(b"\x89ccollections\nOrderedDict\n)RtR");
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'X');
    out.extend(u32::try_from(text.len()).expect("texts are short").to_le_bytes());
    out.extend(text.bytes());
}

fn put_size(out: &mut Vec<u8>, size: usize) {
    put_int(out, i64::try_from(size).expect("no machine holds more"));
}

fn put_int(out: &mut Vec<u8>, number: i64) {
    match i32::try_from(number) {
        Ok(number) => {
            out.push(b'J');
            out.extend(number.to_le_bytes());
        }
        Err(_) => {
            out.extend([0x8a, 8]);
            out.extend(number.to_le_bytes());
        }
    }
}

/// The class of the storages of a type; PyTorch has none for unsigned numbers of more than 8 bits.
pub(super) fn storage_class(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Bf16 => Some("BFloat16Storage"),
        DType::F16 => Some("HalfStorage"),
        DType::F32 => Some("FloatStorage"),
        DType::F64 => Some("DoubleStorage"),
        DType::I64 => Some("LongStorage"),
        DType::I32 => Some("IntStorage"),
        DType::I16 => Some("ShortStorage"),
        DType::I8 => Some("CharStorage"),
        DType::U8 => Some("ByteStorage"),
        DType::Bool => Some("BoolStorage"),
        _ => None,
    }
}
