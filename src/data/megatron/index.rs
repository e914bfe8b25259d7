//! The index of a `.bin` file of token ids, in both of Megatron's formats.
//!
//! ```text
//! .idx of `mmap`: "MMIDIDX\0\0" | u64 version 1 | u8 type | u64 sentences | u64 documents + 1
//!       | i32 length of each sentence | i64 byte in .bin of each | i64 first sentence of each document, and the end
//! .idx of `lazy` and `cached`: "TNTIDX\0\0" | u64 version 1 | u64 type | u64 bytes of an id | u64 sentences | u64 lengths
//!       | u64 documents + 1 | i64 first length of each sentence | i64 id in .bin of each, both with the end
//!       | i64 lengths | i64 first sentence of each document, and the end
//! .bin: the ids, one after the other
//! ```
//! All little-endian. A document is one sentence if sentences were not split.

use std::ops::Range;

use super::token_type::TokenType;
use crate::error::{DataError, file_error};
use gimlet_storage::{Path, RangeFile};

pub(super) const MMAP_MAGIC: &[u8] = b"MMIDIDX\0\0";
pub(super) const LAZY_MAGIC: &[u8] = b"TNTIDX\0\0";
pub(super) const VERSION: u64 = 1;
const MMAP_HEADER: u64 = 34;
const LAZY_HEADER: u64 = 56;

/// An open index. Its tables are read in parts.
#[derive(Debug)]
pub(crate) struct Index {
    file: RangeFile,
    /// Type of the ids.
    pub(crate) token_type: TokenType,
    /// Number of sentences.
    pub(crate) num_sentences: u64,
    /// Number of documents.
    pub(crate) num_documents: u64,
    tables: Tables,
}

/// The places of the tables, in bytes from the beginning of the index.
#[derive(Debug)]
struct Tables {
    lengths: u64,
    /// Bytes of a length.
    length_size: u64,
    starts: u64,
    /// Bytes in .bin for which a start counts.
    start_unit: u64,
    documents: u64,
    /// The end of the last table.
    end: u64,
}

impl Index {
    /// Opens the index beside a `.bin` file.
    ///
    /// # Errors
    /// A file that cannot be read, or is not an index of token ids.
    pub(crate) fn open_beside(bin: &Path) -> Result<Self, DataError> {
        let name = bin.as_str().strip_suffix(".bin").unwrap_or(bin.as_str());
        let path = Path::parse(&format!("{name}.idx"))?;
        let file = path.open_ranges()?;
        let head = file.read(0..LAZY_HEADER.min(file.size()))?;
        if head.starts_with(MMAP_MAGIC) && head.len() as u64 >= MMAP_HEADER {
            return Self::mmap(file, &head);
        }
        if head.starts_with(LAZY_MAGIC) && head.len() as u64 >= LAZY_HEADER {
            return Self::lazy(file, &head);
        }
        Err(file_error(&path, "it is not an index of Megatron (\"MMIDIDX\" or \"TNTIDX\")"))
    }

    fn mmap(file: RangeFile, head: &[u8]) -> Result<Self, DataError> {
        check_version(&file, number(head, 9))?;
        let token_type = token_type(&file, head[17].into())?;
        let (num_sentences, entries) = (number(head, 18), number(head, 26));
        let tables = || {
            let starts = MMAP_HEADER.checked_add(num_sentences.checked_mul(4)?)?;
            let documents = starts.checked_add(num_sentences.checked_mul(8)?)?;
            let end = documents.checked_add(entries.checked_mul(8)?)?;
            Some(Tables {
                lengths: MMAP_HEADER,
                length_size: 4,
                starts,
                start_unit: 1,
                documents,
                end,
            })
        };
        Self::checked(file, token_type, (num_sentences, entries), tables())
    }

    fn lazy(file: RangeFile, head: &[u8]) -> Result<Self, DataError> {
        check_version(&file, number(head, 8))?;
        let token_type = token_type(&file, number(head, 16))?;
        let (num_sentences, num_lengths, entries) =
            (number(head, 32), number(head, 40), number(head, 48));
        if (number(head, 24), num_lengths) != (token_type.size(), num_sentences) {
            let reason = "its items are not lists of token ids";
            return Err(file_error(file.path(), reason));
        }
        let tables = || {
            let table = num_sentences.checked_add(1)?.checked_mul(8)?;
            let starts = LAZY_HEADER.checked_add(table)?;
            let lengths = starts.checked_add(table)?;
            let documents = lengths.checked_add(table - 8)?;
            let end = documents.checked_add(entries.checked_mul(8)?)?;
            let start_unit = token_type.size();
            Some(Tables { lengths, length_size: 8, starts, start_unit, documents, end })
        };
        Self::checked(file, token_type, (num_sentences, entries), tables())
    }

    fn checked(
        file: RangeFile,
        token_type: TokenType,
        (num_sentences, entries): (u64, u64),
        tables: Option<Tables>,
    ) -> Result<Self, DataError> {
        match tables.filter(|tables| tables.end == file.size()) {
            Some(tables) => {
                let num_documents = entries.saturating_sub(1);
                Ok(Self { file, token_type, num_sentences, num_documents, tables })
            }
            None => {
                let size = file.size();
                let reason = format!(
                    "it has {size} bytes, which do not fit {num_sentences} sequences and {entries} \
                     documents"
                );
                Err(file_error(file.path(), reason))
            }
        }
    }

    /// The path of the index.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The numbers of tokens of sentences.
    pub(crate) fn lengths(&self, sentences: Range<u64>) -> Result<Vec<u32>, DataError> {
        match self.tables.length_size {
            4 => {
                let bytes = self.table(self.tables.lengths, 4, sentences)?;
                let (lengths, _) = bytes.as_chunks();
                Ok(lengths.iter().map(|length| u32::from_le_bytes(*length)).collect())
            }
            _ => {
                let bytes = self.table(self.tables.lengths, 8, sentences)?;
                let length = |length: u64| u32::try_from(length).ok();
                let lengths = numbers(&bytes).map(length).collect::<Option<_>>();
                lengths.ok_or_else(|| file_error(self.path(), "a sentence is too long"))
            }
        }
    }

    /// The bytes in .bin at which sentences begin.
    pub(crate) fn starts(&self, sentences: Range<u64>) -> Result<Vec<u64>, DataError> {
        let bytes = self.table(self.tables.starts, 8, sentences)?;
        let start = |start: u64| start.saturating_mul(self.tables.start_unit);
        Ok(numbers(&bytes).map(start).collect())
    }

    /// The first sentences of documents, and the end of the last of them.
    ///
    /// # Errors
    /// The table cannot be read, or is not in ascending order.
    pub(crate) fn documents(&self, documents: Range<u64>) -> Result<Vec<u64>, DataError> {
        let bytes = self.table(self.tables.documents, 8, documents.start..documents.end + 1)?;
        let firsts: Vec<u64> = numbers(&bytes).collect();
        if !firsts.is_sorted() || firsts.last().is_some_and(|end| *end > self.num_sentences) {
            return Err(file_error(self.path(), "its documents are out of order"));
        }
        Ok(firsts)
    }

    /// Reads entries of `size` bytes of one of the tables.
    fn table(&self, start: u64, size: u64, entries: Range<u64>) -> Result<Vec<u8>, DataError> {
        Ok(self.file.read(start + entries.start * size..start + entries.end * size)?)
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number))
}

fn number(head: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"))
}

fn check_version(file: &RangeFile, version: u64) -> Result<(), DataError> {
    match version {
        VERSION => Ok(()),
        _ => {
            let reason = format!("it is of version {version}, expected {VERSION}");
            Err(file_error(file.path(), reason))
        }
    }
}

fn token_type(file: &RangeFile, code: u64) -> Result<TokenType, DataError> {
    TokenType::of_code(code)
        .ok_or_else(|| file_error(file.path(), format!("its type {code} is not one of token ids")))
}
