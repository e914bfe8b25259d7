//! The types in which files of Megatron store token ids.

/// The storage type of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenType {
    U8,
    I8,
    I16,
    I32,
    I64,
    U16,
}

impl TokenType {
    /// The type that an index file writes as this code.
    pub(super) fn of_code(code: u64) -> Option<Self> {
        let all = [Self::U8, Self::I8, Self::I16, Self::I32, Self::I64, Self::U16];
        all.into_iter().find(|token_type| token_type.code() == code)
    }

    /// The code that index files write for the type.
    pub(super) fn code(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::I8 => 2,
            Self::I16 => 3,
            Self::I32 => 4,
            Self::I64 => 5,
            Self::U16 => 8,
        }
    }

    /// The bytes of an id.
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 => 4,
            Self::I64 => 8,
        }
    }

    /// The ids, or an error about a number that is not an id.
    pub(crate) fn ids(self, bytes: &[u8]) -> Result<Vec<i32>, String> {
        let pairs = || bytes.as_chunks::<2>().0.iter();
        Ok(match self {
            Self::U8 => bytes.iter().map(|byte| i32::from(*byte)).collect(),
            Self::I8 => bytes.iter().map(|byte| i32::from(byte.cast_signed())).collect(),
            Self::U16 => pairs().map(|pair| u16::from_le_bytes(*pair).into()).collect(),
            Self::I16 => pairs().map(|pair| i16::from_le_bytes(*pair).into()).collect(),
            Self::I32 => bytes.as_chunks().0.iter().map(|id| i32::from_le_bytes(*id)).collect(),
            Self::I64 => {
                let longs = bytes.as_chunks().0.iter().map(|id| i64::from_le_bytes(*id));
                let id =
                    |long| i32::try_from(long).map_err(|_| format!("{long} is not a token id"));
                longs.map(id).collect::<Result<_, _>>()?
            }
        })
    }

    /// The bytes of ids, which are cut to the type.
    pub(super) fn bytes(self, ids: &[i32]) -> Vec<u8> {
        let size = self.size() as usize;
        // The first bytes of a number are its last digits.
        let bytes = |id: &i32| i64::from(*id).to_le_bytes().into_iter().take(size);
        ids.iter().flat_map(bytes).collect()
    }
}
