//! Zstd files (RFC 8878), and the places inside them at which reading can start.
//!
//! The library decompresses block by block; the headers between blocks are read here. Reading can
//! start at the beginning of a frame without any state. Between two blocks it needs the data to
//! which blocks may refer: the last bytes, up to the size of the frame's window, the codes of
//! earlier blocks, and the last three offsets. A zstd dictionary contains the same data, so the
//! state is kept as a dictionary, and the rest of a frame is read as a frame with that dictionary.

mod fse;
mod pause;
mod tables;
mod tests;

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, SafeResult, get_error_name};

use super::bits::Bits;
use super::checksum::crc_of;
use super::restart::{Inside, Restart, Restarts};
use tables::Tables;

pub(super) use pause::Pause;

/// Distance between restarts: a few hundredths of a second of reading, and few windows in memory.
const SPACING: Spacing = Spacing { bytes: 4 << 20, windows: 4 };
/// Maximum window that is kept for a restart: that of level 19.
const LARGEST_WINDOW: u64 = 8 << 20;
/// Bytes of the file after a restart, which identify the file.
const AHEAD: usize = 4 << 10;
/// Maximum decompressed size of a block.
const LARGEST_BLOCK: usize = 128 << 10;
/// Maximum window of zstd's `--long`.
const WINDOW_LOG: u32 = 31;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Magic number of a frame that is skipped; the lower half of the first byte may have any value.
const SKIPPED_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

/// Whether a file begins like a zstd file.
pub(super) fn is_zstd(first: &[u8]) -> bool {
    first.starts_with(&MAGIC) || is_skipped(first)
}

fn is_skipped(first: &[u8]) -> bool {
    first.first().is_some_and(|byte| byte & 0xf0 == SKIPPED_MAGIC[0])
        && first.get(1..4) == Some(&SKIPPED_MAGIC[1..])
}

/// Minimum amount of decompressed data between restarts.
#[derive(Clone, Copy)]
struct Spacing {
    bytes: u64,
    /// Minimum number of windows within a frame.
    windows: u64,
}

impl Spacing {
    fn within(self, frame: &Frame) -> u64 {
        self.bytes.max(self.windows * frame.window())
    }
}

/// A frame that is being read.
struct Frame {
    /// The window descriptor in the frame's header; `None` if the window is the whole frame.
    descriptor: Option<u8>,
    has_checksum: bool,
    /// Whether the frame is read from its middle on, so that its checksum cannot be verified.
    resumed: bool,
    /// Number of decompressed bytes, and the last of them, kept since some time before the next
    /// restart.
    made: u64,
    history: Vec<u8>,
    /// The codes after the last block, if restarts are to be recorded.
    tables: Option<Tables>,
}

impl Frame {
    /// A frame whose blocks come next.
    fn new(descriptor: Option<u8>, has_checksum: bool) -> Self {
        let mut frame = Self {
            descriptor,
            has_checksum,
            resumed: false,
            made: 0,
            history: Vec::new(),
            tables: None,
        };
        // A frame without a window descriptor is short.
        let is_small = descriptor.is_some() && frame.window() <= LARGEST_WINDOW;
        frame.tables = is_small.then(Default::default);
        frame
    }

    /// Maximum distance of its blocks' references (RFC 8878, 3.1.1.1.2).
    fn window(&self) -> u64 {
        let descriptor = u64::from(self.descriptor.unwrap_or_default());
        let base = 1 << (10 + (descriptor >> 3));
        base + base / 8 * (descriptor & 7)
    }

    /// The data to which the following blocks may refer, if they were kept.
    fn content(&self) -> Option<&[u8]> {
        let length = self.window().min(self.made) as usize;
        self.history.len().checked_sub(length).map(|from| &self.history[from..])
    }
}

/// Decompresses a zstd file.
pub(super) struct Zstd<R> {
    bits: Bits<R>,
    decoder: DCtx<'static>,
    /// `None` between frames.
    frame: Option<Frame>,
    /// The last block, if it is a compressed one.
    block: Vec<u8>,
    out: Vec<u8>,
    taken: usize,
    /// Number of decompressed bytes, including those before a restart, and the same number at the
    /// last restart.
    offset: u64,
    noted: u64,
    spacing: Spacing,
    restarts: Restarts,
}

impl<R: Read> Zstd<R> {
    /// Reads from the beginning of a file.
    pub(super) fn new(file: R) -> io::Result<Self> {
        Self::begin(Bits::new(file, 0), 0)
    }

    fn begin(bits: Bits<R>, offset: u64) -> io::Result<Self> {
        Ok(Self {
            bits,
            decoder: new_decoder()?,
            frame: None,
            block: Vec::new(),
            out: Vec::with_capacity(LARGEST_BLOCK + 1),
            taken: 0,
            offset,
            noted: offset,
            spacing: SPACING,
            restarts: Restarts::default(),
        })
    }

    /// Continues from a restart, with the file open at the byte of the restart; `None` if the
    /// file's bytes after it have changed, or if the restart is not one of a zstd file.
    pub(super) fn restart(file: R, from: &Arc<Restart>) -> io::Result<Option<Self>> {
        let Inside::Zstd { frame } = &from.inside else { return Ok(None) };
        let mut bits = Bits::new(file, from.byte());
        if from.ahead != Some(crc_of(&bits.next_bytes(AHEAD)?)) {
            return Ok(None);
        }
        let mut reader = Self::begin(bits, from.offset)?;
        if let Some(pause) = frame
            && !reader.resume(pause)
        {
            return Ok(None);
        }
        reader.restarts.note(from.clone());
        Ok(Some(reader))
    }

    /// Continues a frame in its middle; `false` if that is not possible.
    fn resume(&mut self, pause: &Pause) -> bool {
        let Some((tables, content)) = Tables::of_dictionary(&pause.dictionary) else {
            return false;
        };
        let mut frame = Frame::new(Some(pause.descriptor), pause.has_checksum);
        frame.resumed = true;
        frame.made = content.len() as u64;
        frame.tables = frame.tables.and(Some(tables));
        self.frame = Some(frame);
        // A header that contains only the window.
        let header = [&MAGIC[..], &[0, pause.descriptor]].concat();
        self.decoder.load_dictionary(&pause.dictionary).is_ok() && self.feed(&header).is_ok()
    }

    /// The restarts that are recorded from now on.
    pub(super) fn restarts(&self) -> Restarts {
        self.restarts.clone()
    }

    /// Decompresses until bytes are ready; `false` at the end of the file.
    fn advance(&mut self) -> io::Result<bool> {
        while self.taken == self.out.len() {
            self.out.clear();
            self.taken = 0;
            self.note()?;
            match self.frame {
                Some(_) => self.next_block()?,
                None if self.bits.at_end()? => return Ok(false),
                None => self.begin_frame()?,
            }
        }
        Ok(true)
    }

    /// Records a restart, if enough data were read since the last one and a restart is possible
    /// here.
    fn note(&mut self) -> io::Result<()> {
        let since = self.offset - self.noted;
        let frame = match &self.frame {
            None if since >= self.spacing.bytes && !self.bits.at_end()? => None,
            Some(frame) if since >= self.spacing.within(frame) => {
                match pause_of(frame, &self.block) {
                    Some(pause) => Some(pause),
                    None => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        let (offset, bit) = (self.offset, self.bits.position());
        let ahead = Some(crc_of(&self.bits.next_bytes(AHEAD)?));
        let inside = Inside::Zstd { frame };
        self.restarts.note(Arc::new(Restart { offset, bit, inside, ahead }));
        self.noted = offset;
        if let Some(frame) = &mut self.frame {
            frame.history.clear();
        }
        Ok(())
    }

    /// Reads a frame's header (RFC 8878, 3.1.1.1), or skips a frame that is not data (3.1.2).
    fn begin_frame(&mut self) -> io::Result<()> {
        let mut header = self.take_bytes(4)?;
        if is_skipped(&header) {
            let length = self.bits.take(32)?;
            return self.pass(length as usize);
        }
        if header != MAGIC {
            return Err(corrupt("what follows is not a zstd frame"));
        }
        let flags = self.take_bytes(1)?[0];
        let is_own_window = flags & 0x20 != 0;
        let descriptor = (!is_own_window).then(|| self.take_bytes(1)).transpose()?;
        let size_bytes = match flags >> 6 {
            0 => usize::from(is_own_window),
            log => 1 << log,
        };
        let rest = self.take_bytes([0, 1, 2, 4][usize::from(flags & 3)] + size_bytes)?;
        header.push(flags);
        header.extend(descriptor.iter().flatten());
        header.extend(rest);
        self.feed(&header)?;
        self.frame = Some(Frame::new(descriptor.map(|byte| byte[0]), flags & 4 != 0));
        Ok(())
    }

    /// Decompresses a block, and ends the frame after its last block.
    fn next_block(&mut self) -> io::Result<()> {
        let header = self.take_bytes(3)?;
        self.feed(&header)?;
        let [first, middle, last] = header[..] else { unreachable!("three were taken") };
        let size = u32::from_le_bytes([first, middle, last, 0]) as usize >> 3;
        let kind = first >> 1 & 3;
        // The library has rejected blocks that are larger than allowed.
        self.block = self.take_bytes(if kind == 1 { 1 } else { size })?;
        let block = std::mem::take(&mut self.block);
        self.feed(&block)?;
        self.follow(if kind == 2 { block } else { Vec::new() });
        if first & 1 == 1 {
            self.end_frame()?;
        }
        Ok(())
    }

    /// Keeps the data that restarts after a block need.
    fn follow(&mut self, block: Vec<u8>) {
        let made = self.out.len() as u64;
        self.offset += made;
        let Some(frame) = &mut self.frame else { return };
        frame.made += made;
        if !block.is_empty() {
            frame.tables = frame.tables.take().and_then(|tables| tables.behind(&block));
        }
        self.block = block;
        let window = frame.window();
        if frame.tables.is_some() && self.offset - self.noted + window >= self.spacing.within(frame)
        {
            let enough = window as usize + 2 * LARGEST_BLOCK;
            frame.history.reserve(enough.saturating_sub(frame.history.len()));
            frame.history.extend_from_slice(&self.out);
            if frame.history.len() as u64 > 2 * window + LARGEST_BLOCK as u64 {
                frame.history.drain(..frame.history.len() - window as usize);
            }
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        let Some(frame) = self.frame.take() else { return Ok(()) };
        let checksum = self.take_bytes(if frame.has_checksum { 4 } else { 0 })?;
        if frame.resumed {
            // The next frame has no dictionary, and the beginning of this one is not available for
            // its checksum.
            self.decoder = new_decoder()?;
            return Ok(());
        }
        self.feed(&checksum)
    }

    /// Passes all these bytes to the library, and adds the decompressed bytes to the ready ones.
    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut input = InBuffer::around(bytes);
        while input.pos() < bytes.len() {
            let (fed, made) = (input.pos(), self.out.len());
            // Reserves more than the size of a block, so that the library holds nothing back.
            self.out.reserve(LARGEST_BLOCK + 1);
            let mut output = OutBuffer::around_pos(&mut self.out, made);
            checked(self.decoder.decompress_stream(&mut output, &mut input))?;
            if (input.pos(), self.out.len()) == (fed, made) {
                return Err(corrupt("bytes without effect"));
            }
        }
        Ok(())
    }

    fn take_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            self.bits.copy(count - bytes.len(), &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Skips `count` bytes of the file.
    fn pass(&mut self, mut count: usize) -> io::Result<()> {
        while count > 0 {
            count -= self.take_bytes(count.min(LARGEST_BLOCK))?.len();
        }
        Ok(())
    }
}

/// The state from which reading continues after a block; `None` if it cannot be determined.
fn pause_of(frame: &Frame, block: &[u8]) -> Option<Pause> {
    let (tables, content) = (frame.tables.as_ref()?, frame.content()?);
    let dictionary = tables.dictionary(tables.offsets_behind(block)?, content)?;
    Some(Pause { descriptor: frame.descriptor?, has_checksum: frame.has_checksum, dictionary })
}

fn new_decoder() -> io::Result<DCtx<'static>> {
    let mut decoder = DCtx::create();
    checked(decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)))?;
    Ok(decoder)
}

fn checked(result: SafeResult) -> io::Result<usize> {
    result.map_err(|code| corrupt(get_error_name(code)))
}

fn corrupt(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("corrupt zstd stream: {reason}"))
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?.read(buffer)?;
        self.consume(found);
        Ok(found)
    }
}

impl<R: Read> BufRead for Zstd<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.advance()?;
        Ok(&self.out[self.taken..])
    }

    fn consume(&mut self, count: usize) {
        self.taken += count;
    }
}
