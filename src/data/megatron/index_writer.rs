//! Writes `.bin` files and their indexes; `index` describes the formats.

use std::io::{self, BufReader, Read, Write};

use serde::{Deserialize, Serialize};

use super::index::{LAZY_MAGIC, MMAP_MAGIC, VERSION};
use super::token_type::TokenType;
use crate::error::DataError;
use gimlet_storage::{FileWriter, Path, StorageError};

/// Vocabularies with fewer ids are written in 16 bits. Source: Megatron-LM `indexed_dataset.py`.
const SMALL_VOCABULARY: usize = 65500;
/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// A format of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFormat {
    /// The format of `--dataset_impl=mmap`: ids of small vocabularies have 16 bits, others 32.
    Mmap,
    /// The format of `lazy` and `cached`: ids have 32 bits.
    Lazy,
}

/// The paths of a `.bin` file and its index, and of their parts while they are written.
#[derive(Clone, Debug)]
pub(super) struct IndexParts {
    /// The path of the files before `.bin` and `.idx`.
    pub prefix: Path,
    /// The path of the parts before their endings.
    pub part: Path,
}

impl IndexParts {
    /// The ids.
    fn bin(&self) -> Path {
        self.growing().suffixed(".bin")
    }

    /// The path before the endings of large files until they are whole. One of a store cannot be renamed, but is not visible
    /// either before it is whole.
    fn growing(&self) -> &Path {
        if self.part.is_on_disk() { &self.part } else { &self.prefix }
    }

    /// The number of tokens of each sentence, in 32 bits.
    fn lengths(&self) -> Path {
        self.part.suffixed(".lengths")
    }

    /// The sentence after each document, in 64 bits.
    fn documents(&self) -> Path {
        self.part.suffixed(".documents")
    }

    /// The index: its part, and the whole.
    fn indexes(&self) -> [Path; 2] {
        [&self.part, &self.prefix].map(|path| path.suffixed(".idx"))
    }

    /// Whether the index is there, as it is from the end of the conversion on.
    pub(super) fn has_index(&self) -> bool {
        self.indexes().iter().any(|path| path.exists().is_ok_and(|exists| exists))
    }

    /// The first of the parts that is shorter than recorded.
    pub(super) fn too_short(&self, written: &Written) -> Option<Path> {
        let sizes = [
            (self.bin(), written.bytes),
            (self.lengths(), 4 * written.sentences),
            (self.documents(), 8 * written.documents),
        ];
        let is_short = |(path, size): &(Path, u64)| {
            *size > 0 && !path.size().is_ok_and(|found| found >= *size)
        };
        sizes.into_iter().find(is_short).map(|(path, _)| path)
    }

    /// Gives the parts their names, of which the index gets its own last; those that have theirs keep them.
    pub(super) fn publish(&self) -> Result<(), DataError> {
        let ([part, index], bin) = (self.indexes(), self.bin());
        let target = self.prefix.suffixed(".bin");
        if part.exists()? {
            self.remove_index()?;
            if bin != target && bin.exists()? {
                bin.rename(&target)?;
            }
            part.rename(&index)?;
        }
        Ok(())
    }

    /// Removes an index of older files, which must not stand beside the new ids.
    fn remove_index(&self) -> Result<(), DataError> {
        let [_, old] = self.indexes();
        match old.exists()? {
            true => Ok(old.remove_file()?),
            false => Ok(()),
        }
    }
}

/// The work that was done for a `.bin` file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    pub bytes: u64,
    pub sentences: u64,
    pub documents: u64,
}

/// A `.bin` file that is being written.
pub(super) struct IndexWriter {
    parts: IndexParts,
    format: IndexFormat,
    token_type: TokenType,
    bin: FileWriter,
    lengths: FileWriter,
    documents: FileWriter,
    written: Written,
}

impl IndexWriter {
    /// Continues parts that have been written so far; what stands behind that in them is cut off.
    pub(super) fn open(
        parts: &IndexParts,
        written: Written,
        format: IndexFormat,
        vocab_size: usize,
    ) -> Result<Self, DataError> {
        let token_type = match format {
            IndexFormat::Mmap if vocab_size < SMALL_VOCABULARY => TokenType::U16,
            _ => TokenType::I32,
        };
        Ok(Self {
            bin: open_part(&parts.bin(), written.bytes)?,
            lengths: open_part(&parts.lengths(), 4 * written.sentences)?,
            documents: open_part(&parts.documents(), 8 * written.documents)?,
            parts: parts.clone(),
            format,
            token_type,
            written,
        })
    }

    /// Appends a document of these sentences; one without sentences is omitted.
    pub(super) fn add_document(&mut self, sentences: &[Vec<i32>]) -> Result<(), DataError> {
        if sentences.is_empty() {
            return Ok(());
        }
        for sentence in sentences {
            let bytes = self.token_type.bytes(sentence);
            write(&mut self.bin, &bytes)?;
            write(&mut self.lengths, &(sentence.len() as u32).to_le_bytes())?;
            self.written.bytes += bytes.len() as u64;
        }
        self.written.sentences += sentences.len() as u64;
        self.written.documents += 1;
        Ok(write(&mut self.documents, &self.written.sentences.to_le_bytes())?)
    }

    /// Makes all that was written durable, and returns its extent.
    pub(super) fn sync(&mut self) -> Result<Written, DataError> {
        for file in [&mut self.bin, &mut self.lengths, &mut self.documents] {
            if file.path().is_on_disk() {
                let reopened = file.path().append()?;
                std::mem::replace(file, reopened).finish()?;
            }
        }
        Ok(self.written)
    }

    /// The extent of what was written.
    pub(super) fn written(&self) -> Written {
        self.written
    }

    /// Writes the index of all, and makes the parts durable.
    pub(super) fn finish(self) -> Result<(), DataError> {
        let Self { parts, format, token_type, written, .. } = self;
        if !self.bin.path().is_on_disk() {
            parts.remove_index()?;
        }
        for file in [self.bin, self.lengths, self.documents] {
            file.finish()?;
        }
        let mut index = parts.growing().suffixed(".idx").create()?;
        write(&mut index, &header(format, token_type, written))?;
        let lengths = parts.lengths();
        match format {
            IndexFormat::Mmap => {
                each(&lengths, |length: [u8; 4]| write(&mut index, &length))?;
                put_starts(&mut index, &lengths, token_type.size())?;
            }
            IndexFormat::Lazy => {
                (0..=written.sentences).try_for_each(|number| put(&mut index, number))?;
                let end = put_starts(&mut index, &lengths, 1)?;
                put(&mut index, end)?;
                each(&lengths, |length| put(&mut index, u32::from_le_bytes(length).into()))?;
            }
        }
        put(&mut index, 0)?;
        each(&parts.documents(), |end: [u8; 8]| write(&mut index, &end))?;
        Ok(index.finish()?)
    }
}

/// The bytes before the tables of an index.
fn header(format: IndexFormat, token_type: TokenType, written: Written) -> Vec<u8> {
    let (count, num_entries) = (written.sentences, written.documents + 1);
    let bytes = |numbers: &[u64]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    match format {
        IndexFormat::Mmap => {
            let (version, code) = (bytes(&[VERSION]), [token_type.code() as u8]);
            [MMAP_MAGIC, &version, &code, &bytes(&[count, num_entries])].concat()
        }
        IndexFormat::Lazy => {
            let (code, size) = (token_type.code(), token_type.size());
            [LAZY_MAGIC, &bytes(&[VERSION, code, size, count, count, num_entries])].concat()
        }
    }
}

/// Writes the beginning of each sentence of these lengths, in units of tokens of this size. Returns the end of the last.
fn put_starts(index: &mut FileWriter, lengths: &Path, size: u64) -> Result<u64, StorageError> {
    let mut start = 0;
    each(lengths, |length| {
        let begin = start;
        start += u64::from(u32::from_le_bytes(length)) * size;
        put(index, begin)
    })?;
    Ok(start)
}

/// Passes over the numbers of `SIZE` bytes in a file.
fn each<const SIZE: usize>(
    path: &Path,
    mut body: impl FnMut([u8; SIZE]) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut file = BufReader::with_capacity(BUFFER, path.open()?);
    let mut number = [0; SIZE];
    loop {
        match file.read_exact(&mut number) {
            Ok(()) => body(number)?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(StorageError::new("read", path, error)),
        }
    }
}

/// Opens a part for writing after its first `size` bytes. Files of stores start over.
fn open_part(path: &Path, size: u64) -> Result<FileWriter, StorageError> {
    if !path.is_on_disk() {
        return path.create();
    }
    path.set_size(size)?;
    path.append()
}

fn put(file: &mut FileWriter, number: u64) -> Result<(), StorageError> {
    write(file, &number.to_le_bytes())
}

fn write(file: &mut FileWriter, bytes: &[u8]) -> Result<(), StorageError> {
    let written = file.write_all(bytes);
    written.map_err(|error| StorageError::new("write", file.path(), error))
}
