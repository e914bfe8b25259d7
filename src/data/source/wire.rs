//! The wire format of protocol buffers, limited to the parts that `tf.Example` needs.

/// Reads the fields of a message, one after the other.
pub(super) struct Wire<'a> {
    rest: &'a [u8],
}

/// The content of a field.
pub(super) enum Field<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64,
    /// A message, text or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32([u8; 4]),
}

const CUT: &str = "it is cut short";

impl<'a> Wire<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The number of the next field and its content; `None` at the end.
    pub(super) fn next_field(&mut self) -> Result<Option<(u64, Field<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Field::Fixed64
            }
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(self.take(4)?.try_into().expect("four were taken")),
            kind => return Err(format!("it has a field of the unknown wire type {kind}")),
        };
        Ok(Some((tag >> 3, field)))
    }

    /// The next number of variable length.
    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for (i, byte) in self.rest.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Ok(number);
            }
        }
        Err(if self.rest.len() < 10 { CUT } else { "it has a number of over 64 bits" }.to_string())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.rest.len());
        let (taken, rest) = self.rest.split_at(length.ok_or(CUT)?);
        self.rest = rest;
        Ok(taken)
    }
}
