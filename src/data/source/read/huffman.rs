//! Huffman codes, defined as in deflate: by the lengths of their symbols' codes.

use std::io::{self, Read};

use super::bits::Bits;

/// Maximum length of a code.
const LONGEST: usize = 15;
/// Maximum number of symbols of a code, which is that of the literals and lengths.
const MAX_SYMBOLS: usize = 288;
/// Codes up to this length are looked up in a table; the few longer ones are found by counting.
const LOOKED_UP: usize = 10;

/// A code that decodes symbols.
pub(super) struct Code {
    /// The lengths from which the code was built.
    pub lengths: Vec<u8>,
    /// By the next bits: the symbol times 16, and the length of its code; 0 for a longer code.
    table: Box<[u16; 1 << LOOKED_UP]>,
    /// Symbols of each length.
    counts: [u16; LONGEST + 1],
    /// The symbols by length, then by value, which is the order of their codes.
    symbols: Vec<u16>,
}

impl Code {
    /// Builds the code in which symbol `i` takes `lengths[i]` bits, or does not occur.
    ///
    /// # Errors
    /// Lengths that do not form a code. An incomplete code may have at most one symbol.
    pub(super) fn new(lengths: &[u8]) -> Result<Self, &'static str> {
        if lengths.len() > MAX_SYMBOLS
            || lengths.iter().any(|length| usize::from(*length) > LONGEST)
        {
            return Err("a Huffman code has too many symbols or too long ones");
        }
        let mut counts = [0; LONGEST + 1];
        lengths.iter().for_each(|length| counts[usize::from(*length)] += 1);
        counts[0] = 0;
        let mut left = 1_i32;
        for count in &counts[1..] {
            left = 2 * left - i32::from(*count);
            if left < 0 {
                return Err("a Huffman code has more symbols than codes");
            }
        }
        let num_symbols = counts.iter().sum::<u16>();
        if left > 0 && num_symbols > 1 {
            return Err("a Huffman code is not complete");
        }
        let mut code = Self {
            lengths: lengths.to_vec(),
            table: Box::new([0; 1 << LOOKED_UP]),
            counts,
            symbols: vec![0; usize::from(num_symbols)],
        };
        code.fill(lengths);
        Ok(code)
    }

    fn fill(&mut self, lengths: &[u8]) {
        // The next code of each length, and its index among all codes.
        let (mut codes, mut places) = ([0_u16; LONGEST + 1], [0_u16; LONGEST + 1]);
        for length in 1..LONGEST {
            codes[length + 1] = (codes[length] + self.counts[length]) << 1;
            places[length + 1] = places[length] + self.counts[length];
        }
        for (symbol, length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let length = usize::from(*length);
            self.symbols[usize::from(places[length])] = symbol as u16;
            places[length] += 1;
            // The highest bit of a code comes first.
            let first = usize::from(codes[length].reverse_bits() >> (16 - length));
            codes[length] = codes[length].wrapping_add(1);
            if length <= LOOKED_UP {
                for place in (first..self.table.len()).step_by(1 << length) {
                    self.table[place] = (symbol << 4 | length) as u16;
                }
            }
        }
    }

    /// Decodes the next symbol; at least 15 bits are available, or all that are left.
    #[inline]
    pub(super) fn decode<R: Read>(&self, bits: &mut Bits<R>) -> io::Result<usize> {
        let entry = self.table[bits.peek() as usize % (1 << LOOKED_UP)];
        if entry == 0 {
            return self.decode_long(bits);
        }
        bits.skip(u32::from(entry & 15))?;
        Ok(usize::from(entry >> 4))
    }

    /// Counts through the lengths: codes of one length are consecutive, and those of the next
    /// length begin at twice the number after the last one.
    #[cold]
    fn decode_long<R: Read>(&self, bits: &mut Bits<R>) -> io::Result<usize> {
        let (mut code, mut first, mut place) = (0, 0, 0);
        for length in 1..=LONGEST {
            code |= (bits.peek() >> (length - 1) & 1) as usize;
            let count = usize::from(self.counts[length]);
            if code < first + count {
                bits.skip(length as u32)?;
                return Ok(usize::from(self.symbols[place + code - first]));
            }
            place += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        let reason = "corrupt deflate stream: bits that are not the code of a symbol";
        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
    }
}
