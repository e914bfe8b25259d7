//! Pickle's machine: a stack of values that opcodes change. Containers lie in one list and values
//! point into the list, so that deep nesting or sharing in a hostile file costs neither stack nor
//! memory.

use std::collections::HashMap;
use std::rc::Rc;

use super::refused::Refused;
use crate::array::DType;

/// Maximum number of operations of a pickle: a model of 100,000 tensors needs fewer.
const MAX_OPERATIONS: usize = 8_000_000;

/// Maximum number of bytes that a pickle may build: a model of 100,000 tensors needs 150 MB.
const MAX_BYTES: usize = 256 << 20;

/// Bytes per remembered value, including the free space of a hash table.
const MEMO_BYTES: usize = 2 * size_of::<(u32, Value)>();

/// A value; the numbers of `List` and `Dict` are indices in [`Machine`].
#[derive(Clone, Debug)]
pub(super) enum Value {
    None,
    /// Also booleans.
    Int(i128),
    Float(f64),
    Str(Rc<str>),
    Bytes,
    /// A tuple, list or set.
    List(usize),
    /// A dict or OrderedDict.
    Dict(usize),
    /// An attribute of a module; only those that [`super::pickle`] allows.
    Global(Rc<str>),
    /// A storage of the file.
    Storage(usize),
    /// A tensor in a storage.
    Tensor(usize),
    /// An object that no state dictionary needs, such as NumPy's numbers among metrics.
    Opaque,
}

/// A storage as the pickle describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Storage {
    pub key: String,
    pub dtype: DType,
    /// Number of elements to skip at the start of the storage: views of old files.
    pub offset: usize,
    /// Number of all elements of the storage, according to the pickle.
    pub elements: usize,
}

/// A tensor as the pickle describes it.
#[derive(Clone, Debug)]
pub(super) struct PickledTensor {
    pub storage: usize,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// The state of the machine while it reads a pickle, with everything that the pickle has built.
#[derive(Debug, Default)]
pub(super) struct Machine {
    stack: Vec<Value>,
    /// Heights of the stack at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    operations: usize,
    /// Number of values in lists and dicts.
    contained: usize,
    pub lists: Vec<Vec<Value>>,
    pub dicts: Vec<Vec<(Value, Value)>>,
    pub storages: Vec<Storage>,
    pub tensors: Vec<PickledTensor>,
}

impl Machine {
    /// Counts operations, and refuses a pickle that exceeds the limits of operations or bytes.
    pub fn spend(&mut self, operations: usize) -> Result<(), Refused> {
        self.operations += operations;
        if self.operations > MAX_OPERATIONS {
            return Err(Refused::Unsupported(format!(
                "its pickle has over {MAX_OPERATIONS} operations, more than a state dictionary needs"
            )));
        }
        if self.bytes() > MAX_BYTES {
            return Err(Refused::Unsupported(format!(
                "its pickle builds over {} MiB of values, more than a state dictionary needs",
                MAX_BYTES >> 20
            )));
        }
        Ok(())
    }

    /// The approximate number of bytes of all values.
    fn bytes(&self) -> usize {
        let containers = self.lists.len() + self.dicts.len();
        (self.stack.len() + self.contained) * size_of::<Value>()
            + containers * 2 * size_of::<Vec<Value>>()
            + self.memo.len() * MEMO_BYTES
    }

    pub fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    /// Removes the topmost value above the last mark.
    pub fn pop(&mut self) -> Result<Value, Refused> {
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            return Err(Refused::damaged("it takes a value from an empty stack"));
        }
        Ok(self.stack.pop().expect("it is higher than the mark"))
    }

    pub fn top(&self) -> Result<Value, Refused> {
        let missing = || Refused::damaged("it looks at a value of an empty stack");
        self.stack.last().cloned().ok_or_else(missing)
    }

    pub fn mark(&mut self) {
        self.marks.push(self.stack.len());
    }

    /// Removes the last mark and everything above the mark.
    pub fn pop_to_mark(&mut self) -> Result<Vec<Value>, Refused> {
        let missing = || Refused::damaged("it goes back to a mark that is not there");
        let height = self.marks.pop().ok_or_else(missing)?;
        Ok(self.stack.split_off(height))
    }

    pub fn pop_several(&mut self, count: usize) -> Result<Vec<Value>, Refused> {
        let mut values = (0..count).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
        values.reverse();
        Ok(values)
    }

    pub fn push_list(&mut self, values: Vec<Value>) {
        self.contained += values.len();
        self.lists.push(values);
        self.push(Value::List(self.lists.len() - 1));
    }

    pub fn push_dict(&mut self, pairs: Vec<(Value, Value)>) {
        self.contained += 2 * pairs.len();
        self.dicts.push(pairs);
        self.push(Value::Dict(self.dicts.len() - 1));
    }

    /// Appends to the list on top of the stack.
    pub fn extend_list(&mut self, values: Vec<Value>) -> Result<(), Refused> {
        self.contained += values.len();
        match self.top()? {
            Value::List(at) => {
                self.lists[at].extend(values);
                Ok(())
            }
            other => Err(Refused::damaged(format!("it appends to {}", other.kind()))),
        }
    }

    /// Sets keys of the dict on top of the stack.
    pub fn extend_dict(&mut self, values: Vec<Value>) -> Result<(), Refused> {
        self.contained += values.len();
        match self.top()? {
            Value::Dict(at) => {
                self.dicts[at].extend(pairs(values)?);
                Ok(())
            }
            other => Err(Refused::damaged(format!("it sets a key of {}", other.kind()))),
        }
    }

    pub fn remember(&mut self, place: u32) -> Result<(), Refused> {
        let value = self.top()?;
        self.memo.insert(place, value);
        Ok(())
    }

    /// Remembers the topmost value under the next free number.
    pub fn memoize(&mut self) -> Result<(), Refused> {
        self.remember(self.memo.len() as u32)
    }

    pub fn recall(&mut self, place: u32) -> Result<(), Refused> {
        let missing = || Refused::damaged(format!("it recalls {place}, which it never kept"));
        let value = self.memo.get(&place).cloned().ok_or_else(missing)?;
        self.push(value);
        Ok(())
    }

    /// The elements of a tuple or list.
    pub fn list(&self, value: &Value, what: &str) -> Result<&[Value], Refused> {
        match value {
            Value::List(at) => Ok(&self.lists[*at]),
            other => Err(Refused::damaged(format!("{what} is {}, expected a tuple", other.kind()))),
        }
    }

    /// A tuple of counts: a shape, or strides.
    pub fn counts(&self, value: &Value, what: &str) -> Result<Vec<usize>, Refused> {
        let values = self.list(value, what)?;
        if values.len() > super::super::MAX_RANK {
            return Err(Refused::damaged(format!("{what} has {} dimensions", values.len())));
        }
        values.iter().map(|value| value.count(what)).collect()
    }
}

/// Groups alternating keys and values.
pub(super) fn pairs(values: Vec<Value>) -> Result<Vec<(Value, Value)>, Refused> {
    if !values.len().is_multiple_of(2) {
        return Err(Refused::damaged("a key of a dict has no value"));
    }
    let mut values = values.into_iter();
    Ok(std::iter::from_fn(|| Some((values.next()?, values.next()?))).collect())
}

impl Value {
    /// The kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Int(_) => "a number",
            Value::Float(_) => "a float",
            Value::Str(_) => "a text",
            Value::Bytes => "bytes",
            Value::List(_) => "a list",
            Value::Dict(_) => "a dict",
            Value::Global(_) => "a class",
            Value::Storage(_) => "a storage",
            Value::Tensor(_) => "a tensor",
            Value::Opaque => "an object",
        }
    }

    /// Converts a number to a count.
    pub fn count(&self, what: &str) -> Result<usize, Refused> {
        match self {
            Value::Int(number) => usize::try_from(*number)
                .map_err(|_| Refused::damaged(format!("{what} holds {number}"))),
            other => Err(Refused::damaged(format!("{what} holds {}", other.kind()))),
        }
    }

    /// The index of a dict.
    pub fn as_dict(&self) -> Option<usize> {
        match self {
            Value::Dict(at) => Some(*at),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nested and remembered lists once used 160 times the bytes of their pickle.
    #[test]
    fn what_a_pickle_builds_is_bounded() {
        let mut machine = Machine::default();
        let refused = (0..MAX_OPERATIONS).find_map(|_| {
            machine.push_list(Vec::new());
            machine.memoize().unwrap();
            machine.spend(2).err()
        });
        assert!(
            matches!(refused, Some(Refused::Unsupported(reason)) if reason.contains("256 MiB"))
        );
        assert!(machine.bytes() < MAX_BYTES + 1000);
    }
}
