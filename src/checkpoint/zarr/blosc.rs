//! Decodes frames of c-blosc 1: blocks of a chunk, each filtered and compressed separately. Source:
//! `README_CHUNK_FORMAT.rst` of c-blosc.

use std::io::{self, Read};

use super::error::invalid;

const HEADER_BYTES: usize = 16;

/// Bits of the flags.
const BYTE_SHUFFLE: u8 = 1;
const STORED: u8 = 2;
const BIT_SHUFFLE: u8 = 4;
const NOT_SPLIT: u8 = 16;

/// Blocks are split by the bytes of an element if it has at most this many bytes, ...
const MAX_SPLITS: usize = 16;
/// ... and each part has at least this many bytes.
const MIN_SPLIT_BYTES: usize = 128;

/// The contents of the first 16 bytes.
struct Header {
    flags: u8,
    element_bytes: usize,
    num_bytes: usize,
    block_bytes: usize,
}

/// Decodes a frame to at most `max_bytes`.
pub fn decode(frame: &[u8], max_bytes: usize) -> io::Result<Vec<u8>> {
    let header = header(frame)?;
    if header.num_bytes > max_bytes {
        return Err(invalid(format!("it claims {} bytes, expected {max_bytes}", header.num_bytes)));
    }
    if header.flags & STORED != 0 {
        return Ok(part(frame, HEADER_BYTES, header.num_bytes)?.to_vec());
    }
    let mut out = Vec::new();
    for index in 0..header.num_bytes.div_ceil(header.block_bytes) {
        let start = u32_at(frame, HEADER_BYTES + 4 * index)?;
        let source = frame.get(start..).ok_or_else(|| invalid("a block lies beyond its end"))?;
        let block_bytes = header.block_bytes.min(header.num_bytes - out.len());
        out.extend(block(source, &header, block_bytes)?);
    }
    Ok(out)
}

fn header(frame: &[u8]) -> io::Result<Header> {
    if part(frame, 0, HEADER_BYTES)?[0] > 2 {
        return Err(invalid(format!("it is blosc of version {}, expected 1 or 2", frame[0])));
    }
    let header = Header {
        flags: frame[2],
        element_bytes: usize::from(frame[3]).max(1),
        num_bytes: u32_at(frame, 4)?,
        block_bytes: u32_at(frame, 8)?,
    };
    let packed_bytes = u32_at(frame, 12)?;
    if packed_bytes > frame.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if packed_bytes < frame.len() || (header.block_bytes == 0 && header.flags & STORED == 0) {
        return Err(invalid("its header does not fit its size"));
    }
    Ok(header)
}

fn block(mut source: &[u8], header: &Header, block_bytes: usize) -> io::Result<Vec<u8>> {
    let element_bytes = header.element_bytes;
    let is_split = header.flags & NOT_SPLIT == 0
        && element_bytes <= MAX_SPLITS
        && block_bytes / element_bytes >= MIN_SPLIT_BYTES
        // The last block is never split if it is shorter.
        && block_bytes == header.block_bytes;
    let num_splits = if is_split { element_bytes } else { 1 };
    let split_bytes = block_bytes / num_splits;
    let mut plain = vec![0; block_bytes];
    for out in plain.chunks_exact_mut(split_bytes).take(num_splits) {
        let packed_bytes = u32_at(source, 0)?;
        let packed = part(source, 4, packed_bytes)?;
        match packed.len() == out.len() {
            true => out.copy_from_slice(packed),
            false => decompress(header.flags >> 5, packed, out)?,
        }
        source = &source[4 + packed_bytes..];
    }
    Ok(match header.flags {
        flags if flags & BYTE_SHUFFLE != 0 => unshuffle(&plain, element_bytes),
        flags if flags & BIT_SHUFFLE != 0 => unshuffle_bits(&plain, element_bytes),
        _ => plain,
    })
}

fn decompress(compressor: u8, packed: &[u8], out: &mut [u8]) -> io::Result<()> {
    match compressor {
        0 => blosclz(packed, out),
        1 => lz4(packed, out),
        3 => flate2::read::ZlibDecoder::new(packed).read_exact(out),
        4 => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            decoder.read_exact(out).map_err(|error| invalid(error.to_string()))
        }
        2 => Err(invalid("it is compressed with snappy, expected lz4, zstd, zlib or blosclz")),
        other => Err(invalid(format!("it is compressed with the unknown method {other}"))),
    }
}

/// An output buffer that is filled by copying from itself.
struct Window<'a> {
    out: &'a mut [u8],
    filled: usize,
}

impl Window<'_> {
    fn literal(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.filled + bytes.len();
        let place = self.out.get_mut(self.filled..end).ok_or_else(|| invalid("it is too long"))?;
        place.copy_from_slice(bytes);
        self.filled = end;
        Ok(())
    }

    /// Repeats the bytes `distance` before the end; the copy may overlap itself.
    fn repeat(&mut self, distance: usize, length: usize) -> io::Result<()> {
        let end = self.filled.checked_add(length).filter(|end| *end <= self.out.len());
        let (Some(end), 1..) = (end, distance) else { return Err(invalid("it is too long")) };
        let Some(from) = self.filled.checked_sub(distance) else {
            return Err(invalid("it refers to bytes before its start"));
        };
        for at in self.filled..end {
            self.out[at] = self.out[from + at - self.filled];
        }
        self.filled = end;
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        match self.filled == self.out.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Decodes LZ4's block format.
fn lz4(mut packed: &[u8], out: &mut [u8]) -> io::Result<()> {
    let mut window = Window { out, filled: 0 };
    loop {
        let token = byte(&mut packed)?;
        let length = lz4_length(&mut packed, token >> 4)?;
        window.literal(take(&mut packed, length)?)?;
        if packed.is_empty() {
            return window.finish();
        }
        let distance = usize::from(byte(&mut packed)?) | usize::from(byte(&mut packed)?) << 8;
        let length = lz4_length(&mut packed, token & 15)? + 4;
        window.repeat(distance, length)?;
    }
}

fn lz4_length(packed: &mut &[u8], start: u8) -> io::Result<usize> {
    match start {
        15 => Ok(15 + extended(packed)?),
        _ => Ok(start.into()),
    }
}

/// Reads a sum of bytes, up to and including the first that is not 255.
fn extended(packed: &mut &[u8]) -> io::Result<usize> {
    let mut sum = 0;
    loop {
        let next = byte(packed)?;
        sum += usize::from(next);
        if next < 255 {
            return Ok(sum);
        }
    }
}

/// The distance from which BloscLZ writes two more bytes.
const FAR: usize = 8191;

/// Decodes BloscLZ, a variant of FastLZ: three bits of length and five of distance in each control
/// byte.
fn blosclz(mut packed: &[u8], out: &mut [u8]) -> io::Result<()> {
    let mut window = Window { out, filled: 0 };
    // The first control byte always describes literals.
    let mut control = usize::from(byte(&mut packed)? & 31);
    loop {
        if control < 32 {
            window.literal(take(&mut packed, control + 1)?)?;
        } else {
            let mut length = (control >> 5) + 2;
            if control >> 5 == 7 {
                length += extended(&mut packed)?;
            }
            let (high, low) = ((control & 31) << 8, usize::from(byte(&mut packed)?));
            let distance = match (high + low, low) {
                (FAR, 255) => {
                    let far = usize::from(byte(&mut packed)?) << 8;
                    FAR + far + usize::from(byte(&mut packed)?)
                }
                (near, _) => near,
            };
            window.repeat(distance + 1, length)?;
        }
        match byte(&mut packed) {
            Ok(next) => control = next.into(),
            Err(_) => return window.finish(),
        }
    }
}

/// Converts all first bytes, all second bytes, ... to elements; remaining bytes are copied
/// unchanged.
fn unshuffle(shuffled: &[u8], element_bytes: usize) -> Vec<u8> {
    let count = shuffled.len() / element_bytes;
    let mut out = shuffled.to_vec();
    for (plane, bytes) in shuffled.chunks_exact(count.max(1)).take(element_bytes).enumerate() {
        for (i, byte) in bytes.iter().enumerate() {
            out[i * element_bytes + plane] = *byte;
        }
    }
    out
}

/// Like [`unshuffle`] for bits: all first bits of all first bytes, all second bits of them, ...;
/// c-blosc does not shuffle blocks whose number of elements is not a multiple of eight.
fn unshuffle_bits(shuffled: &[u8], element_bytes: usize) -> Vec<u8> {
    let count = shuffled.len() / element_bytes;
    let mut out = shuffled.to_vec();
    if count == 0 || !count.is_multiple_of(8) {
        return out;
    }
    out[..count * element_bytes].fill(0);
    for (row, bits) in shuffled.chunks_exact(count / 8).take(8 * element_bytes).enumerate() {
        let (plane, bit) = (row / 8, row % 8);
        for (group, packed) in bits.iter().enumerate() {
            for i in 0..8 {
                out[(8 * group + i) * element_bytes + plane] |= (packed >> i & 1) << bit;
            }
        }
    }
    out
}

fn byte(bytes: &mut &[u8]) -> io::Result<u8> {
    Ok(take(bytes, 1)?[0])
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> io::Result<&'a [u8]> {
    let taken = part(bytes, 0, length)?;
    *bytes = &bytes[length..];
    Ok(taken)
}

fn part(bytes: &[u8], start: usize, length: usize) -> io::Result<&[u8]> {
    let end = start.checked_add(length);
    end.and_then(|end| bytes.get(start..end)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<usize> {
    let bytes = part(bytes, at, 4)?.try_into().expect("four bytes");
    Ok(u32::from_le_bytes(bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_no_bytes_are_refused_unless_there_is_nothing_to_unpack() {
        let mut frame = [vec![2, 1, 0, 4], vec![0; 12]].concat();
        frame[12] = 16;
        assert!(decode(&frame, 64).is_err());
        frame[2] = STORED;
        assert!(decode(&frame, 64).unwrap().is_empty());
    }
}
