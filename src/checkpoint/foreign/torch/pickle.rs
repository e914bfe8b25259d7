//! Reads pickles of tensors and plain containers. Everything else in a pickle is refused by name;
//! nothing is looked up, called or executed.

use std::io::Read;
use std::rc::Rc;

use super::machine::{Machine, PickledTensor, Storage, Value, pairs};
use super::refused::Refused;
use super::storage_dtype;

/// The function that builds tensors of newer types, such as float8, whose storages are plain bytes.
const WITH_DTYPE: &str = "torch._utils._rebuild_tensor_v3";

/// Allowed names besides the storage classes of `torch`. The two names of sets come from Python 2
/// and 3.
const ADMITTED: [&str; 8] = [
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    "torch.Size",
    "torch.device",
    "builtins.set",
    "__builtin__.set",
    "torch.nn.parameter.Parameter",
];

/// Names of which objects are built that nothing reads: NumPy's arrays and numbers, which training scripts keep among metrics.
const OPAQUE: [&str; 7] = [
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.ndarray",
    "numpy.dtype",
    "_codecs.encode",
];

/// Numeric types of `torch` that are allowed in a dict.
const DTYPES: [&str; 12] = [
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
    "bool", "float", "half",
];

/// Reads one pickle and returns its value; the machine keeps the values of earlier pickles.
pub(super) fn read_pickle(source: &mut impl Read, machine: &mut Machine) -> Result<Value, Refused> {
    let mut reader = Pickle { source, machine };
    while reader.goes_on()? {}
    reader.machine.pop()
}

struct Pickle<'a, R> {
    source: &'a mut R,
    machine: &'a mut Machine,
}

impl<R: Read> Pickle<'_, R> {
    /// Reads and executes one opcode; returns false after the last opcode.
    fn goes_on(&mut self) -> Result<bool, Refused> {
        let opcode = self.bytes::<1>()?[0];
        self.machine.spend(1)?;
        match opcode {
            0x80 => drop(self.bytes::<1>()?),
            0x95 => drop(self.bytes::<8>()?),
            b'.' => return Ok(false),
            b'N' | 0x88 | 0x89 | b'J' | b'K' | b'M' | 0x8a | 0x8b | b'G' | b'U' | b'T' | b'X'
            | 0x8c | 0x8d | b'B' | b'C' | 0x8e => {
                let value = self.scalar(opcode)?;
                self.machine.push(value);
            }
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.memo(opcode)?,
            b'c' | 0x93 | b'Q' | b'R' | 0x81 | b'b' => self.object(opcode)?,
            _ => self.container(opcode)?,
        }
        Ok(true)
    }

    fn scalar(&mut self, opcode: u8) -> Result<Value, Refused> {
        Ok(match opcode {
            b'N' => Value::None,
            0x88 => Value::Int(1),
            0x89 => Value::Int(0),
            b'J' => Value::Int(i32::from_le_bytes(self.bytes()?).into()),
            b'K' => Value::Int(u8::from_le_bytes(self.bytes()?).into()),
            b'M' => Value::Int(u16::from_le_bytes(self.bytes()?).into()),
            0x8a => {
                let length = u8::from_le_bytes(self.bytes()?);
                self.long(length.into())?
            }
            0x8b => {
                let length = u32::from_le_bytes(self.bytes()?);
                self.long(length.into())?
            }
            b'G' => Value::Float(f64::from_be_bytes(self.bytes()?)),
            b'U' | 0x8c => {
                let length = u8::from_le_bytes(self.bytes()?);
                self.text(length.into())?
            }
            b'T' | b'X' => {
                let length = u32::from_le_bytes(self.bytes()?);
                self.text(length.into())?
            }
            0x8d => {
                let length = u64::from_le_bytes(self.bytes()?);
                self.text(length)?
            }
            _ => {
                let length = match opcode {
                    b'C' => u8::from_le_bytes(self.bytes()?).into(),
                    b'B' => u32::from_le_bytes(self.bytes()?).into(),
                    _ => u64::from_le_bytes(self.bytes()?),
                };
                self.take(length)?;
                Value::Bytes
            }
        })
    }

    fn memo(&mut self, opcode: u8) -> Result<(), Refused> {
        match opcode {
            0x94 => self.machine.memoize(),
            b'q' | b'h' => {
                let place = u8::from_le_bytes(self.bytes()?).into();
                if opcode == b'q' {
                    self.machine.remember(place)
                } else {
                    self.machine.recall(place)
                }
            }
            _ => {
                let place = u32::from_le_bytes(self.bytes()?);
                if opcode == b'r' {
                    self.machine.remember(place)
                } else {
                    self.machine.recall(place)
                }
            }
        }
    }

    fn container(&mut self, opcode: u8) -> Result<(), Refused> {
        let machine = &mut *self.machine;
        match opcode {
            b'(' => machine.mark(),
            b'0' => drop(machine.pop()?),
            b'1' => drop(machine.pop_to_mark()?),
            b'2' => machine.push(machine.top()?),
            b')' | b']' | 0x8f => machine.push_list(Vec::new()),
            b't' | b'l' | 0x91 => {
                let values = machine.pop_to_mark()?;
                machine.push_list(values);
            }
            0x85..=0x87 => {
                let values = machine.pop_several(usize::from(opcode - 0x84))?;
                machine.push_list(values);
            }
            b'a' => {
                let value = machine.pop()?;
                machine.extend_list(vec![value])?;
            }
            b'e' | 0x90 => {
                let values = machine.pop_to_mark()?;
                machine.extend_list(values)?;
            }
            b'}' => machine.push_dict(Vec::new()),
            b'd' => {
                let values = machine.pop_to_mark()?;
                machine.push_dict(pairs(values)?);
            }
            b's' => {
                let values = machine.pop_several(2)?;
                machine.extend_dict(values)?;
            }
            b'u' => {
                let values = machine.pop_to_mark()?;
                machine.extend_dict(values)?;
            }
            _ => {
                let reason =
                    format!("its pickle uses opcode 0x{opcode:02x}, which tensors never need");
                return Err(Refused::Unsupported(reason));
            }
        }
        Ok(())
    }

    fn object(&mut self, opcode: u8) -> Result<(), Refused> {
        match opcode {
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.name(&module, &name)
            }
            0x93 => {
                let (name, module) = (self.machine.pop()?, self.machine.pop()?);
                match (module.text(), name.text()) {
                    (Some(module), Some(name)) => self.name(module, name),
                    _ => Err(Refused::damaged("the name of a class is not text")),
                }
            }
            b'Q' => {
                let id = self.machine.pop()?;
                self.storage(&id)
            }
            b'b' => {
                // The attributes of an OrderedDict, in which PyTorch keeps versions of modules.
                self.machine.pop()?;
                match self.machine.top()? {
                    Value::Dict(_) | Value::Tensor(_) | Value::Opaque => Ok(()),
                    other => Err(Refused::Unsupported(format!(
                        "its pickle sets attributes of {}",
                        other.kind()
                    ))),
                }
            }
            _ => {
                let (arguments, called) = (self.machine.pop()?, self.machine.pop()?);
                self.call(&called, &arguments)
            }
        }
    }

    /// Pushes an attribute of a module.
    fn name(&mut self, module: &str, name: &str) -> Result<(), Refused> {
        let full = format!("{module}.{name}");
        let is_type =
            module == "torch" && (storage_dtype(name).is_some() || DTYPES.contains(&name));
        if full == WITH_DTYPE {
            return Err(Refused::Unsupported(
                "its pickle holds a tensor of a type that has no class of storages, such as float8; \
                 expected floats of 16 bits or more, or integers"
                    .to_string(),
            ));
        }
        let is_known = ADMITTED.contains(&&full[..]) || OPAQUE.contains(&&full[..]);
        if !is_type && !is_known {
            return Err(Refused::Unsupported(format!(
                "its pickle asks for `{full}`, but only tensors and plain containers are read; save the \
                 model's state_dict() alone"
            )));
        }
        self.machine.push(Value::Global(full.into()));
        Ok(())
    }

    /// Pushes the result of calling an allowed function.
    fn call(&mut self, called: &Value, arguments: &Value) -> Result<(), Refused> {
        let Value::Global(called) = called else {
            return Err(Refused::damaged(format!("it calls {}", called.kind())));
        };
        let arguments = self.machine.list(arguments, "a call's arguments")?.to_vec();
        self.machine.spend(arguments.len())?;
        match (&called[..], &arguments[..]) {
            ("collections.OrderedDict", []) => self.machine.push_dict(Vec::new()),
            ("collections.OrderedDict", [items]) => {
                let items = self.machine.list(items, "the items of a dict")?.to_vec();
                self.machine.spend(items.len())?;
                let items = items.iter().map(|item| {
                    match self.machine.list(item, "an item of a dict")? {
                        [key, value] => Ok((key.clone(), value.clone())),
                        _ => Err(Refused::damaged("an item of a dict is not a pair")),
                    }
                });
                let items = items.collect::<Result<Vec<_>, _>>()?;
                self.machine.push_dict(items);
            }
            ("torch._utils._rebuild_tensor_v2", [storage, offset, shape, strides, ..]) => {
                self.tensor(storage, offset, shape, strides)?;
            }
            ("torch._utils._rebuild_parameter", [tensor @ Value::Tensor(_), ..]) => {
                self.machine.push(tensor.clone());
            }
            ("torch.Size" | "builtins.set" | "__builtin__.set", [items @ Value::List(_)]) => {
                self.machine.push(items.clone());
            }
            ("torch.device", _) => self.machine.push(Value::None),
            (opaque, _) if OPAQUE.contains(&opaque) => self.machine.push(Value::Opaque),
            _ => {
                let reason = format!("its pickle calls `{called}` in a way that is not known");
                return Err(Refused::Unsupported(reason));
            }
        }
        Ok(())
    }

    fn tensor(
        &mut self,
        storage: &Value,
        offset: &Value,
        shape: &Value,
        strides: &Value,
    ) -> Result<(), Refused> {
        let Value::Storage(storage) = *storage else {
            return Err(Refused::damaged(format!("a tensor lies in {}", storage.kind())));
        };
        let machine = &mut *self.machine;
        let shape = machine.counts(shape, "a tensor's shape")?;
        let strides = machine.counts(strides, "a tensor's strides")?;
        if shape.len() != strides.len() {
            return Err(Refused::damaged("a tensor has more strides than dimensions, or fewer"));
        }
        let offset = offset.count("a tensor's offset")?;
        machine.tensors.push(PickledTensor { storage, offset, shape, strides });
        machine.push(Value::Tensor(machine.tensors.len() - 1));
        Ok(())
    }

    /// Adds a storage: `('storage', class, key, device, elements)`, and in old files a view of the
    /// storage.
    fn storage(&mut self, id: &Value) -> Result<(), Refused> {
        let damaged = || Refused::damaged("a storage is described in a way that is not known");
        let id = self.machine.list(id, "a storage's description")?.to_vec();
        let (class, key, elements, view) = match &id[..] {
            [Value::Str(tag), Value::Global(class), Value::Str(key), _, elements]
                if &tag[..] == "storage" =>
            {
                (class, key, elements, None)
            }
            [Value::Str(tag), Value::Global(class), Value::Str(key), _, elements, view]
                if &tag[..] == "storage" =>
            {
                (class, key, elements, Some(view))
            }
            _ => return Err(damaged()),
        };
        let name = class.strip_prefix("torch.").unwrap_or(class);
        let dtype = storage_dtype(name).ok_or_else(damaged)?;
        let mut offset = 0;
        let elements = elements.count("a storage's size")?;
        if let Some(view @ Value::List(_)) = view {
            // (key of the view, first element, number of elements)
            let [_, first, _] = self.machine.list(view, "a view")? else {
                return Err(damaged());
            };
            offset = first.count("a view")?;
        }
        let storage = Storage { key: key.to_string(), dtype, offset, elements };
        self.machine.storages.push(storage);
        self.machine.push(Value::Storage(self.machine.storages.len() - 1));
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(cut)?;
        Ok(bytes)
    }

    /// Reads `length` bytes, without allocating more than the file has.
    fn take(&mut self, length: u64) -> Result<Vec<u8>, Refused> {
        let mut bytes = Vec::new();
        self.source.by_ref().take(length).read_to_end(&mut bytes).map_err(cut)?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(cut(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn text(&mut self, length: u64) -> Result<Value, Refused> {
        let bytes = self.take(length)?;
        let text = String::from_utf8(bytes).map_err(|_| Refused::damaged("a text is not UTF-8"))?;
        Ok(Value::Str(Rc::from(text)))
    }

    /// Reads a little-endian integer of `length` bytes.
    fn long(&mut self, length: u64) -> Result<Value, Refused> {
        if length > 16 {
            return Err(Refused::Unsupported(format!("its pickle has a number of {length} bytes")));
        }
        let bytes = self.take(length)?;
        let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
        let mut whole = [sign; 16];
        whole[..bytes.len()].copy_from_slice(&bytes);
        Ok(Value::Int(i128::from_le_bytes(whole)))
    }

    /// Reads a line of text, without its end.
    fn line(&mut self) -> Result<String, Refused> {
        let mut line = Vec::new();
        loop {
            match self.bytes::<1>()?[0] {
                b'\n' => break,
                byte if line.len() < 1000 => line.push(byte),
                _ => return Err(Refused::damaged("the name of a class has over 1000 bytes")),
            }
        }
        String::from_utf8(line).map_err(|_| Refused::damaged("the name of a class is not UTF-8"))
    }
}

fn cut(error: std::io::Error) -> Refused {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Refused::damaged("its pickle is truncated"),
        _ => Refused::Io(error),
    }
}
