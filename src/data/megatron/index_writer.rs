//! Writes `.bin` files and their indexes; `index` describes the formats.

use std::io::Write;

use super::index::{LAZY_MAGIC, MMAP_MAGIC, VERSION};
use super::token_type::TokenType;
use crate::error::DataError;
use gimlet_storage::{FileWriter, Path, StorageError};

/// Vocabularies with fewer ids are written in 16 bits. Source: Megatron-LM `indexed_dataset.py`.
const SMALL_VOCABULARY: usize = 65500;

/// A format of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFormat {
    /// The format of `--dataset_impl=mmap`: ids of small vocabularies have 16 bits, others 32.
    Mmap,
    /// The format of `lazy` and `cached`: ids have 32 bits.
    Lazy,
}

/// A `.bin` file that is being written. Both files appear when it is finished, the index last.
pub(super) struct IndexWriter {
    bin: FileWriter,
    index: Path,
    format: IndexFormat,
    token_type: TokenType,
    lengths: Vec<u32>,
    documents: Vec<u64>,
}

impl IndexWriter {
    /// Begins the files with this path before `.bin` and `.idx`.
    pub(super) fn create(
        prefix: &Path,
        format: IndexFormat,
        vocab_size: usize,
    ) -> Result<Self, DataError> {
        let token_type = match format {
            IndexFormat::Mmap if vocab_size < SMALL_VOCABULARY => TokenType::U16,
            _ => TokenType::I32,
        };
        let bin = prefix.suffixed(".bin").create_atomic()?;
        let index = prefix.suffixed(".idx");
        Ok(Self { bin, index, format, token_type, lengths: Vec::new(), documents: vec![0] })
    }

    /// Appends a document of these sentences; one without sentences is omitted.
    pub(super) fn add_document(&mut self, sentences: &[Vec<i32>]) -> Result<(), DataError> {
        if sentences.is_empty() {
            return Ok(());
        }
        for sentence in sentences {
            let bytes = self.token_type.bytes(sentence);
            let written = self.bin.write_all(&bytes);
            written.map_err(|error| StorageError::new("write", self.bin.path(), error))?;
            self.lengths.push(sentence.len() as u32);
        }
        self.documents.push(self.lengths.len() as u64);
        Ok(())
    }

    /// Whether it has no sentence.
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Writes the index, and makes both files visible.
    pub(super) fn finish(self) -> Result<(), DataError> {
        // An index of older files must not stand beside the new ids.
        if self.index.exists()? {
            self.index.remove_file()?;
        }
        let index = self.index_bytes();
        self.bin.finish()?;
        Ok(self.index.write_atomic(&index)?)
    }

    fn index_bytes(&self) -> Vec<u8> {
        let Self { lengths, documents, token_type, .. } = self;
        let (count, num_entries) = (lengths.len() as u64, documents.len() as u64);
        // The ids before each sentence, and all.
        let starts = lengths.iter().scan(0, |sum: &mut u64, length| {
            *sum += u64::from(*length);
            Some(*sum)
        });
        let starts: Vec<u64> = std::iter::once(0).chain(starts).collect();
        let mut bytes = Vec::new();
        match self.format {
            IndexFormat::Mmap => {
                bytes.extend(MMAP_MAGIC);
                bytes.extend(VERSION.to_le_bytes());
                bytes.push(token_type.code() as u8);
                put(&mut bytes, [count, num_entries]);
                bytes.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
                let starts = starts[..lengths.len()].iter();
                put(&mut bytes, starts.map(|start| start * token_type.size()));
            }
            IndexFormat::Lazy => {
                bytes.extend(LAZY_MAGIC);
                let header =
                    [VERSION, token_type.code(), token_type.size(), count, count, num_entries];
                put(&mut bytes, header);
                put(&mut bytes, 0..=count);
                put(&mut bytes, starts);
                put(&mut bytes, lengths.iter().map(|length| u64::from(*length)));
            }
        }
        put(&mut bytes, documents.iter().copied());
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}
