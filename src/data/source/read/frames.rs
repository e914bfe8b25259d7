//! Decompresses files of consecutive frames: members of gzip, frames of zstd, or one zlib stream.
//!
//! Decompression can start at the beginning of any frame, and nowhere else.

use std::fmt::Display;
use std::io::{self, BufRead};
use std::ops::Range;

use flate2::{Decompress, DecompressError, FlushDecompress, Status};
use zstd::stream::raw::{self, DParameter, Operation};

use super::decode::Compression;
use super::position::FrameStart;

/// Size of the buffer of decompressed bytes: that of zstd's largest block.
const BUFFER_SIZE: usize = 128 << 10;
/// Base-2 logarithms of the maximum windows: those of deflate and of zstd's `--long`.
const DEFLATE_WINDOW_LOG: u8 = 15;
const ZSTD_WINDOW_LOG: u32 = 31;

/// A library's decompressor of one frame.
enum Decompressor {
    Deflate(Decompress),
    Zstd(raw::Decoder<'static>),
}

/// The result of one call of a decompressor.
struct Decompressed {
    num_read: usize,
    num_written: usize,
    is_end_of_frame: bool,
}

impl Decompressor {
    fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::Plain => unreachable!("a file that is not compressed has no frames"),
            Compression::Gzip => Self::Deflate(Decompress::new_gzip(DEFLATE_WINDOW_LOG)),
            Compression::Zlib => Self::Deflate(Decompress::new(true)),
            Compression::Zstd => {
                let mut decoder = raw::Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                Self::Zstd(decoder)
            }
        })
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Decompressed> {
        match self {
            Self::Deflate(decoder) => {
                let (read_before, written_before) = (decoder.total_in(), decoder.total_out());
                let status = decoder.decompress(input, output, FlushDecompress::None);
                let reason =
                    |error: DecompressError| error.message().unwrap_or("damaged").to_string();
                let status = status.map_err(|error| corrupt("deflate", reason(error)))?;
                Ok(Decompressed {
                    num_read: (decoder.total_in() - read_before) as usize,
                    num_written: (decoder.total_out() - written_before) as usize,
                    is_end_of_frame: status == Status::StreamEnd,
                })
            }
            Self::Zstd(decoder) => {
                let status = decoder.run_on_buffers(input, output);
                let status = status.map_err(|error| corrupt("zstd", error))?;
                Ok(Decompressed {
                    num_read: status.bytes_read,
                    num_written: status.bytes_written,
                    is_end_of_frame: status.remaining == 0,
                })
            }
        }
    }
}

fn corrupt(format: &str, reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("corrupt {format} stream: {reason}"))
}

/// The state of reading a compressed file.
pub(super) struct Frames {
    compression: Compression,
    /// The decompressor of the current frame; `None` between frames.
    decompressor: Option<Decompressor>,
    /// The frame that was begun last.
    start: FrameStart,
    /// The place after the decompressed bytes.
    reached: FrameStart,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were not taken yet.
    ready: Range<usize>,
}

impl Frames {
    /// The state at the beginning of a frame; `None` for files that are not compressed.
    pub(super) fn new(compression: Compression, start: FrameStart) -> Option<Self> {
        (compression != Compression::Plain).then(|| Self {
            compression,
            decompressor: None,
            start,
            reached: start,
            buffer: vec![0; BUFFER_SIZE],
            ready: 0..0,
        })
    }

    /// The frame that was begun last.
    pub(super) fn start(&self) -> FrameStart {
        self.start
    }

    /// Decompressed bytes that were not taken yet; none at the end of the file.
    pub(super) fn fill_buf(&mut self, file: &mut impl BufRead) -> io::Result<&[u8]> {
        while self.ready.is_empty() {
            let input = file.fill_buf()?;
            let Some(decompressor) = &mut self.decompressor else {
                if input.is_empty() {
                    break;
                }
                self.begin_frame()?;
                continue;
            };
            let found = decompressor.run(input, &mut self.buffer)?;
            if input.is_empty() && found.num_written == 0 && !found.is_end_of_frame {
                let reason = "the compressed stream breaks off";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
            }
            file.consume(found.num_read);
            self.reached.byte += found.num_read as u64;
            self.reached.offset += found.num_written as u64;
            self.ready = 0..found.num_written;
            if found.is_end_of_frame {
                self.decompressor = None;
            }
        }
        Ok(&self.buffer[self.ready.clone()])
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.ready.start += count;
    }

    fn begin_frame(&mut self) -> io::Result<()> {
        // TensorFlow writes and reads one stream in each file.
        if self.compression == Compression::Zlib && self.reached.byte > 0 {
            return Err(corrupt("deflate", "other bytes follow the end of the zlib stream"));
        }
        self.decompressor = Some(Decompressor::new(self.compression)?);
        self.start = self.reached;
        Ok(())
    }
}
