//! Writes zip archives of stored, not compressed, files as a stream, like `torch.save`.

use std::io::{self, Write};

use super::tensor_file::TensorFile;

/// Alignment of the data of each file in bytes; PyTorch's, so that the data can be mapped into
/// memory.
const ALIGNMENT: u64 = 64;

/// The identifier of the field that fills the space before the data; PyTorch's.
const PADDING_FIELD: u16 = 0x4246;

/// The identifier of the field with sizes and offsets of 64 bits.
const ZIP64_FIELD: u16 = 1;

/// Checksums and sizes follow the data; names are UTF-8.
const FLAGS: u16 = 0x0808;

/// 1 January 1980, the earliest date that zip can express.
const DATE: u16 = 0x21;

/// Value of a 32-bit field whose number is in the zip64 field.
const ELSEWHERE: u32 = u32::MAX;

/// An archive that is being written.
pub(super) struct ZipWriter {
    out: TensorFile,
    entries: Vec<ZipMember>,
}

struct ZipMember {
    name: String,
    crc: u32,
    size: u64,
    /// Offset of its header.
    offset: u64,
}

impl ZipWriter {
    pub(super) fn new(out: TensorFile) -> Self {
        Self { out, entries: Vec::new() }
    }

    /// Writes a file whose size is known in advance; `write` fills it.
    pub(super) fn file(
        &mut self,
        name: &str,
        size: u64,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let offset = self.out.position();
        self.out.write_all(&local_header(name, size, offset))?;
        let start = self.out.position();
        let crc = self.out.tensor(write)?.crc32;
        let written = self.out.position() - start;
        assert_eq!(written, size, "`{name}` has the size that was announced");
        let mut descriptor = b"PK\x07\x08".to_vec();
        descriptor.extend(crc.to_le_bytes());
        match u32::try_from(size) {
            Ok(size) if size != ELSEWHERE => descriptor.extend([size.to_le_bytes(); 2].concat()),
            _ => descriptor.extend([size.to_le_bytes(); 2].concat()),
        }
        self.out.write_all(&descriptor)?;
        self.entries.push(ZipMember { name: name.to_string(), crc, size, offset });
        Ok(())
    }

    /// Writes the directory, and returns the underlying file.
    pub(super) fn finish(mut self) -> io::Result<TensorFile> {
        let start = self.out.position();
        let directory: Vec<u8> = self.entries.iter().flat_map(directory_entry).collect();
        self.out.write_all(&directory)?;
        let (count, size) = (self.entries.len() as u64, directory.len() as u64);
        let end = self.out.position();
        if count >= u16::MAX.into() || start >= ELSEWHERE.into() || size >= ELSEWHERE.into() {
            self.out.write_all(&zip64_end(count, size, start, end))?;
        }
        let short = |number: u64| u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes();
        let mut tail = b"PK\x05\x06\0\0\0\0".to_vec();
        tail.extend([short(count); 2].concat());
        tail.extend(long(size));
        tail.extend(long(start));
        tail.extend([0; 2]);
        self.out.write_all(&tail)?;
        Ok(self.out)
    }
}

/// Encodes a number in a 32-bit field, if it fits.
fn long(number: u64) -> [u8; 4] {
    u32::try_from(number).unwrap_or(ELSEWHERE).to_le_bytes()
}

fn field(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("fields are short");
    [&kind.to_le_bytes()[..], &length.to_le_bytes(), data].concat()
}

fn local_header(name: &str, size: u64, offset: u64) -> Vec<u8> {
    let mut extra = Vec::new();
    if size >= ELSEWHERE.into() {
        extra = field(ZIP64_FIELD, &[size.to_le_bytes(); 2].concat());
    }
    // The header has 30 bytes, and 4 bytes come before the padding itself.
    let before = offset + 30 + name.len() as u64 + extra.len() as u64 + 4;
    let padding = before.next_multiple_of(ALIGNMENT) - before;
    extra.extend(field(PADDING_FIELD, &vec![0; padding as usize]));
    let mut header = b"PK\x03\x04".to_vec();
    header.extend(common(size));
    header.extend([0; 4]); // The checksum follows the data.
    header.extend([long(size); 2].concat());
    header.extend(lengths(name, &extra));
    header.extend(name.bytes());
    header.extend(extra);
    header
}

/// Encodes version needed, flags, method, time and date.
fn common(size: u64) -> Vec<u8> {
    let version: u16 = if size >= ELSEWHERE.into() { 45 } else { 20 };
    [version, FLAGS, 0, 0, DATE].iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn lengths(name: &str, extra: &[u8]) -> [u8; 4] {
    let [a, b] = u16::try_from(name.len()).expect("names are short").to_le_bytes();
    let [c, d] = u16::try_from(extra.len()).expect("fields are short").to_le_bytes();
    [a, b, c, d]
}

fn directory_entry(entry: &ZipMember) -> Vec<u8> {
    let mut large = Vec::new();
    if entry.size >= ELSEWHERE.into() {
        large.extend([entry.size.to_le_bytes(); 2].concat());
    }
    if entry.offset >= ELSEWHERE.into() {
        large.extend(entry.offset.to_le_bytes());
    }
    let extra = if large.is_empty() { large } else { field(ZIP64_FIELD, &large) };
    let mut out = b"PK\x01\x02".to_vec();
    out.extend(45u16.to_le_bytes());
    out.extend(common(if extra.is_empty() { 0 } else { u64::MAX }));
    out.extend(entry.crc.to_le_bytes());
    out.extend([long(entry.size); 2].concat());
    out.extend(lengths(&entry.name, &extra));
    out.extend([0; 10]); // No comment, disk 0, no attributes.
    out.extend(long(entry.offset));
    out.extend(entry.name.bytes());
    out.extend(extra);
    out
}

/// The end of a directory that 32 bits cannot describe, and the locator with its offset.
fn zip64_end(count: u64, size: u64, start: u64, end: u64) -> Vec<u8> {
    let mut out = b"PK\x06\x06".to_vec();
    out.extend(44u64.to_le_bytes());
    out.extend([45u16.to_le_bytes(); 2].concat());
    out.extend([0; 8]); // Disk 0.
    out.extend([count, count, size, start].iter().flat_map(|number| number.to_le_bytes()));
    out.extend(b"PK\x06\x07\0\0\0\0");
    out.extend(end.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    out
}
