//! Decompresses deflate streams (RFC 1951) block by block.
//!
//! `flate2` decompresses such streams too, but it neither reports its bit position nor starts at a
//! given bit, and a restart in the middle of a file needs both.

use std::io::{self, Read};

use super::bits::Bits;
use super::huffman::Code;
use super::pause::Pause;

/// Maximum distance of a reference back into the stream.
pub(super) const WINDOW: usize = 32 << 10;
/// Bytes decompressed at once.
const CHUNK: usize = 128 << 10;
const FULL: usize = WINDOW + CHUNK;
/// Maximum number of bytes for one symbol.
const LONGEST_MATCH: usize = 258;

const END_OF_BLOCK: usize = 256;
/// Extra bits and minimum length of each length symbol, from 257 on. The longest length has a
/// separate symbol.
const LENGTHS: [(u32, usize); 29] = {
    let mut lengths = bases(4, 3);
    lengths[28] = (0, LONGEST_MATCH);
    lengths
};
/// Extra bits and minimum distance of each distance symbol.
const DISTANCES: [(u32, usize); 30] = bases(2, 1);
/// The order in which the lengths of the code for lengths are stored.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The extra bits and the base number of each symbol: the first `2 * a_bit` symbols have no extra
/// bits, each further group of `a_bit` symbols has one more, and a base number is the end of the
/// previous symbol's range.
const fn bases<const N: usize>(a_bit: usize, first: usize) -> [(u32, usize); N] {
    let mut bases = [(0, first); N];
    let mut i = 1;
    while i < N {
        let (extra, base) = bases[i - 1];
        bases[i].0 = if i < 2 * a_bit { 0 } else { (i / a_bit - 1) as u32 };
        bases[i].1 = base + (1 << extra);
        i += 1;
    }
    bases
}

/// The position in a stream.
#[derive(Default)]
enum Place {
    /// Before a block.
    #[default]
    Block,
    /// In a stored block, with this number of bytes left.
    Stored(usize),
    /// In a block of literals and matches.
    Symbols { literals: Code, distances: Code },
    /// After the last block.
    End,
}

/// Decompresses one stream.
#[derive(Default)]
pub(super) struct Inflate {
    /// The last decompressed bytes: the window to which the stream may refer, then the bytes not
    /// taken yet.
    out: Vec<u8>,
    taken: usize,
    place: Place,
    in_last_block: bool,
}

impl Inflate {
    /// Continues a stream from a saved state.
    pub(super) fn resume(pause: &Pause) -> io::Result<Self> {
        let place = match &pause.codes {
            Some((literals, distances)) => symbols_of(literals, distances)?,
            None => Place::Block,
        };
        let out = pause.window.clone();
        Ok(Self { taken: out.len(), out, place, in_last_block: pause.in_last_block })
    }

    /// The state from which another reader can continue, when all bytes are taken; `None` in a
    /// stored block, which is short, and at the end.
    pub(super) fn pause(&self) -> Option<Pause> {
        let codes = match &self.place {
            Place::Block => None,
            Place::Symbols { literals, distances } => {
                Some((literals.lengths.clone(), distances.lengths.clone()))
            }
            Place::Stored(_) | Place::End => return None,
        };
        let window = self.out[self.out.len().saturating_sub(WINDOW)..].to_vec();
        Some(Pause { window, codes, in_last_block: self.in_last_block })
    }

    /// The decompressed bytes that are not taken yet.
    pub(super) fn ready(&self) -> &[u8] {
        &self.out[self.taken..]
    }

    /// Takes `count` of the ready bytes.
    pub(super) fn take(&mut self, count: usize) {
        self.taken += count;
    }

    /// Whether the last block ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.place, Place::End)
    }

    /// Decompresses more bytes, up to the end of a block or the limit of the buffer; called when
    /// all bytes are taken.
    pub(super) fn decompress<R: Read>(&mut self, bits: &mut Bits<R>) -> io::Result<()> {
        if self.out.len() >= FULL {
            self.out.drain(..self.out.len() - WINDOW);
            self.taken = self.out.len();
        }
        self.out.reserve(FULL + LONGEST_MATCH - self.out.len());
        match &mut self.place {
            Place::Block => self.place = self.block(bits)?,
            Place::Stored(left) => {
                *left -= bits.copy((*left).min(FULL - self.out.len()), &mut self.out)?;
                if *left == 0 {
                    self.place = self.behind_block();
                }
            }
            Place::Symbols { literals, distances } => {
                if symbols(literals, distances, bits, &mut self.out)? == Ended::Yes {
                    self.place = self.behind_block();
                }
            }
            Place::End => {}
        }
        Ok(())
    }

    fn behind_block(&self) -> Place {
        if self.in_last_block { Place::End } else { Place::Block }
    }

    /// Reads the header of a block.
    fn block<R: Read>(&mut self, bits: &mut Bits<R>) -> io::Result<Place> {
        self.in_last_block = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => {
                bits.align();
                let (length, inverse) = (bits.take(16)?, bits.take(16)?);
                match length ^ inverse {
                    0xffff if length == 0 => Ok(self.behind_block()),
                    0xffff => Ok(Place::Stored(length as usize)),
                    _ => Err(corrupt("the length of a stored block is wrong")),
                }
            }
            1 => {
                let lengths: Vec<u8> =
                    [(144, 8), (112, 9), (24, 7), (8, 8)].into_iter().flat_map(repeated).collect();
                symbols_of(&lengths, &[5; 32])
            }
            2 => dynamic(bits),
            _ => Err(corrupt("a block of an unknown kind")),
        }
    }
}

fn repeated((count, length): (usize, u8)) -> impl Iterator<Item = u8> {
    std::iter::repeat_n(length, count)
}

fn symbols_of(literals: &[u8], distances: &[u8]) -> io::Result<Place> {
    let code = |lengths| Code::new(lengths).map_err(corrupt);
    Ok(Place::Symbols { literals: code(literals)?, distances: code(distances)? })
}

/// Reads the codes that a block contains.
fn dynamic<R: Read>(bits: &mut Bits<R>) -> io::Result<Place> {
    let (num_literals, num_distances) = (bits.take(5)? as usize + 257, bits.take(5)? as usize + 1);
    let num_lengths = bits.take(4)? as usize + 4;
    if num_literals > 286 || num_distances > 30 {
        return Err(corrupt("a block has too many symbols"));
    }
    let mut lengths = [0; ORDER.len()];
    for place in &ORDER[..num_lengths] {
        lengths[*place] = bits.take(3)? as u8;
    }
    let code = Code::new(&lengths).map_err(corrupt)?;
    let mut lengths = Vec::with_capacity(num_literals + num_distances);
    while lengths.len() < num_literals + num_distances {
        bits.refill()?;
        let (length, count) = match code.decode(bits)? {
            16 => {
                let last = lengths
                    .last()
                    .ok_or_else(|| corrupt("a repeated length without one before it"))?;
                (*last, 3 + bits.take(2)?)
            }
            17 => (0, 3 + bits.take(3)?),
            18 => (0, 11 + bits.take(7)?),
            length => (length as u8, 1),
        };
        lengths.extend(repeated((count as usize, length)));
    }
    if lengths.len() > num_literals + num_distances {
        return Err(corrupt("a block has more lengths than symbols"));
    }
    if lengths[END_OF_BLOCK] == 0 {
        return Err(corrupt("a block has no end"));
    }
    let (literals, distances) = lengths.split_at(num_literals);
    symbols_of(literals, distances)
}

/// Whether a block has ended.
#[derive(PartialEq, Eq)]
enum Ended {
    Yes,
    No,
}

/// Decompresses literals and matches until `out` is full or the block ends.
fn symbols<R: Read>(
    literals: &Code,
    distances: &Code,
    bits: &mut Bits<R>,
    out: &mut Vec<u8>,
) -> io::Result<Ended> {
    while out.len() < FULL {
        bits.refill()?;
        let mut symbol = literals.decode(bits)?;
        if symbol < END_OF_BLOCK {
            out.push(symbol as u8);
            // The available bits suffice for one more symbol.
            symbol = literals.decode(bits)?;
            if symbol < END_OF_BLOCK {
                out.push(symbol as u8);
                continue;
            }
            bits.refill()?;
        }
        if symbol == END_OF_BLOCK {
            return Ok(Ended::Yes);
        }
        // With the symbol, at most 48 of the 56 available bits are used.
        let length = number(LENGTHS.get(symbol - END_OF_BLOCK - 1), bits)?;
        let distance = number(DISTANCES.get(distances.decode(bits)?), bits)?;
        let Some(from) = out.len().checked_sub(distance) else {
            return Err(corrupt("a match begins before the data"));
        };
        if distance >= length {
            out.extend_from_within(from..from + length);
        } else {
            // The match overlaps its own output.
            (from..from + length).for_each(|at| out.push(out[at]));
        }
    }
    Ok(Ended::No)
}

/// The number encoded by a symbol and its extra bits.
#[inline]
fn number<R: Read>(base: Option<&(u32, usize)>, bits: &mut Bits<R>) -> io::Result<usize> {
    let Some((extra, base)) = base else { return Err(corrupt("an unknown symbol")) };
    let more = bits.peek() as usize & ((1 << extra) - 1);
    bits.skip(*extra)?;
    Ok(base + more)
}

/// The error of a stream that no compressor can have made.
pub(super) fn corrupt(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("corrupt deflate stream: {reason}"))
}
