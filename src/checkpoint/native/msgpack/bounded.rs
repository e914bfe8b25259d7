//! Reads msgpack values with limited memory: a value may need one byte in a file, but forty and
//! more in memory.

use std::io::{self, Read};

use rmpv::Value;

/// Maximum depth of the tree: models have about ten levels, and each level uses some of the stack.
const MAX_DEPTH: usize = 100;

/// Maximum number of bytes of a file that are read singly: each value has one such header byte, and
/// few others. It is enough for a hundred thousand arrays.
pub(crate) const MAX_HEADS: usize = 4 << 20;

/// Reads a value with at most `max_heads` headers.
pub(super) fn read_value(source: &mut impl Read, max_heads: usize) -> Result<Value, String> {
    let mut bounded = Bounded { source, left: max_heads, is_over: false };
    let read = rmpv::decode::read_value_with_max_depth(&mut bounded, MAX_DEPTH);
    read.map_err(|error| match bounded.is_over {
        true => format!("it holds more than {max_heads} values"),
        false => error.to_string(),
    })
}

struct Bounded<R> {
    source: R,
    left: usize,
    is_over: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // rmpv has no limit, but reads each header byte separately.
        if buffer.len() == 1 {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => {
                    self.is_over = true;
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
        self.source.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_too_many_values_is_refused_while_it_is_read() {
        let list = |length: u16| [&[0xdc][..], &length.to_be_bytes(), &[0xc0; 1000]].concat();
        let read = |length, max_heads| read_value(&mut &list(length)[..], max_heads);
        assert_eq!(read(99, 100).unwrap().as_array().unwrap().len(), 99);
        assert_eq!(read(100, 100).unwrap_err(), "it holds more than 100 values");
        let deep = [0x91; 101];
        assert!(read_value(&mut &deep[..], 200).unwrap_err().contains("depth"));
    }
}
