//! The data that a zstd block may take from earlier blocks: codes, and the last offsets.
//!
//! Codes are kept in the format of their descriptions in blocks, which is also that of a dictionary
//! (RFC 8878, 5). The last offsets change with every sequence; they can be determined from one
//! block's sequences if three of its offsets are new.

use super::fse::{Backward, Code, Distribution};

/// Extra bits of the lengths of literals, by symbol.
const LITERAL_BITS: [u8; 36] = {
    let mut bits = [0; 36];
    let more = [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    let mut i = 0;
    while i < more.len() {
        bits[16 + i] = more[i];
        i += 1;
    }
    bits
};
/// Extra bits of the lengths of matches, by symbol.
const MATCH_BITS: [u8; 53] = {
    let mut bits = [0; 53];
    let more = [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    let mut i = 0;
    while i < more.len() {
        bits[32 + i] = more[i];
        i += 1;
    }
    bits
};
/// Number of offset symbols; each has as many extra bits as its number.
const OFFSETS: usize = 32;

/// Descriptions of the predefined codes, which need no description in a block (RFC 8878,
/// 3.1.1.3.2.2).
const OF_LITERALS: [u8; 20] = [
    0x51, 0x10, 0x63, 0x8c, 0x31, 0xc6, 0x18, 0x63, 0x0c, 0x21, 0xc4, 0x18, 0x63, 0x66, 0x66, 0x86,
    0x46, 0x92, 0x04, 0x00,
];
const OF_OFFSETS: [u8; 14] =
    [0x20, 0x84, 0x10, 0x42, 0x66, 0x46, 0x44, 0x44, 0x44, 0x44, 0x24, 0x49, 0x02, 0x00];
const OF_MATCHES: [u8; 29] = [
    0x21, 0x14, 0xc4, 0x18, 0x63, 0x8c, 0x21, 0x84, 0x10, 0x42, 0x08, 0x21, 0x84, 0x10, 0x42, 0x08,
    0x21, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x24, 0x09, 0x00, 0x00,
];
/// A code of two symbols, for frames whose literals have needed no code so far.
const OF_NO_LITERAL: [u8; 2] = [0x80, 0x10];

const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// The code of one kind of number.
#[derive(Clone)]
enum Table {
    Described(Vec<u8>),
    /// A single symbol, which a dictionary cannot describe.
    One(u8),
}

impl Table {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Described(bytes) => Distribution::read(bytes).map(|(found, _)| Code::new(&found)),
            Self::One(symbol) => Some(Code::of_one(*symbol)),
        }
    }
}

/// The codes after some blocks of a frame.
#[derive(Clone)]
pub(super) struct Tables {
    huffman: Vec<u8>,
    literals: Table,
    offsets: Table,
    matches: Table,
}

impl Default for Tables {
    /// The codes before the first block.
    fn default() -> Self {
        let described = |bytes: &[u8]| Table::Described(bytes.to_vec());
        Self {
            huffman: OF_NO_LITERAL.to_vec(),
            literals: described(&OF_LITERALS),
            offsets: described(&OF_OFFSETS),
            matches: described(&OF_MATCHES),
        }
    }
}

impl Tables {
    /// The codes after one more compressed block; `None` if the block is not valid.
    pub(super) fn behind(mut self, block: &[u8]) -> Option<Self> {
        self.pass(block).map(|_| self)
    }

    /// The codes of a dictionary, and its content.
    pub(super) fn of_dictionary(dictionary: &[u8]) -> Option<(Self, &[u8])> {
        let rest = dictionary.get(8..)?;
        let (huffman, mut rest) = rest.split_at_checked(huffman_length(rest)?)?;
        let mut table = || {
            let (_, length) = Distribution::read(rest)?;
            let (description, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(Table::Described(description.to_vec()))
        };
        let (offsets, matches, literals) = (table()?, table()?, table()?);
        let tables = Self { huffman: huffman.to_vec(), literals, offsets, matches };
        // Three offsets precede the content.
        rest.get(12..).map(|content| (tables, content))
    }

    /// Skips the data before a block's sequences, and records the codes; returns the number of
    /// sequences and their bits.
    fn pass<'a>(&mut self, block: &'a [u8]) -> Option<(usize, &'a [u8])> {
        let rest = self.pass_literals(block)?;
        let (count, rest) = match *rest {
            [0, ref rest @ ..] => return Some((0, rest)),
            [255, low, high, ref rest @ ..] => {
                (usize::from(u16::from_le_bytes([low, high])) + 0x7f00, rest)
            }
            [first, low, ref rest @ ..] if first > 127 => {
                (usize::from(first - 128) << 8 | usize::from(low), rest)
            }
            [first, ref rest @ ..] => (first.into(), rest),
            [] => return None,
        };
        let (modes, mut rest) = rest.split_first()?;
        for (table, shift, predefined) in [
            (&mut self.literals, 6, &OF_LITERALS[..]),
            (&mut self.offsets, 4, &OF_OFFSETS),
            (&mut self.matches, 2, &OF_MATCHES),
        ] {
            match modes >> shift & 3 {
                0 => *table = Table::Described(predefined.to_vec()),
                1 => {
                    let (symbol, behind) = rest.split_first()?;
                    (*table, rest) = (Table::One(*symbol), behind);
                }
                2 => {
                    let (_, length) = Distribution::read(rest)?;
                    let (description, behind) = rest.split_at_checked(length)?;
                    (*table, rest) = (Table::Described(description.to_vec()), behind);
                }
                // The table of the previous block is used again.
                _ => {}
            }
        }
        Some((count, rest))
    }

    /// Skips a block's literals, and records their code.
    fn pass_literals<'a>(&mut self, block: &'a [u8]) -> Option<&'a [u8]> {
        let mut header = [0; 8];
        let known = block.len().min(5);
        header[..known].copy_from_slice(&block[..known]);
        let (header, size_format) = (u64::from_le_bytes(header), block.first()? >> 2 & 3);
        let field = |from: u32, bits: u32| (header >> from & ((1 << bits) - 1)) as usize;
        let (length, size) = match (block[0] & 3, size_format) {
            (kind @ 0..2, format) => {
                let (length, size) = match format {
                    1 => (2, field(4, 12)),
                    3 => (3, field(4, 20)),
                    _ => (1, field(3, 5)),
                };
                (length, if kind == 0 { size } else { 1 })
            }
            (_, 0 | 1) => (3, field(14, 10)),
            (_, 2) => (4, field(18, 14)),
            _ => (5, field(22, 18)),
        };
        let (literals, rest) = block.get(length..)?.split_at_checked(size)?;
        if block[0] & 3 == 2 {
            self.huffman = literals.get(..huffman_length(literals)?)?.to_vec();
        }
        Some(rest)
    }

    /// The last three offsets after a block, where `self` are the codes after it; `None` if they
    /// depend on earlier blocks.
    pub(super) fn offsets_behind(&self, block: &[u8]) -> Option<[u32; 3]> {
        // Reads the same codes again.
        let (count, bits) = self.clone().pass(block)?;
        let codes = [&self.literals, &self.offsets, &self.matches].map(Table::code);
        let [Some(literals), Some(offsets), Some(matches)] = codes else { return None };
        let mut bits = Backward::new(bits)?;
        let (mut literal, mut offset, mut matched) =
            (literals.start(&mut bits)?, offsets.start(&mut bits)?, matches.start(&mut bits)?);
        let mut last = [None; 3];
        for left in (0..count).rev() {
            let log = Some(offsets.symbol(offset)).filter(|log| *log < OFFSETS)? as u32;
            let value = (1_u64 << log) + u64::from(bits.take(log)?);
            bits.take((*MATCH_BITS.get(matches.symbol(matched))?).into())?;
            let follows_none = literals.symbol(literal) == 0;
            bits.take((*LITERAL_BITS.get(literals.symbol(literal))?).into())?;
            remember(&mut last, value, follows_none);
            if left > 0 {
                literal = literals.next(literal, &mut bits)?;
                matched = matches.next(matched, &mut bits)?;
                offset = offsets.next(offset, &mut bits)?;
            }
        }
        let known = bits.is_empty() && last.iter().all(Option::is_some);
        known.then(|| last.map(|offset| offset.expect("all are known")))
    }

    /// A dictionary (RFC 8878, 5) with these codes, offsets and content; `None` if it cannot
    /// describe them.
    pub(super) fn dictionary(&self, offsets: [u32; 3], content: &[u8]) -> Option<Vec<u8>> {
        // The dictionary's id may be any number.
        let mut dictionary = [&DICTIONARY_MAGIC[..], &[1, 0, 0, 0], &self.huffman].concat();
        for table in [&self.offsets, &self.matches, &self.literals] {
            let Table::Described(description) = table else { return None };
            dictionary.extend(description);
        }
        offsets.iter().for_each(|offset| dictionary.extend(offset.to_le_bytes()));
        dictionary.extend(content);
        Some(dictionary)
    }
}

/// Number of bytes of the description of a code for literals: its weights, compressed or not.
fn huffman_length(description: &[u8]) -> Option<usize> {
    description.first().map(|first| match *first {
        packed @ ..128 => 1 + usize::from(packed),
        plain => 1 + usize::from(plain - 127).div_ceil(2),
    })
}

/// Records a sequence's offset (RFC 8878, 3.1.1.5). `None` means an offset from before the block.
fn remember(last: &mut [Option<u32>; 3], value: u64, follows_none: bool) {
    match value + u64::from(follows_none && value <= 3) {
        1 => {}
        2 => last.swap(0, 1),
        3 => last.rotate_right(1),
        // The last offset minus 1, or a new one.
        4 if value == 3 => *last = [last[0].map(|offset| offset.wrapping_sub(1)), last[0], last[1]],
        _ => *last = [u32::try_from(value - 3).ok(), last[0], last[1]],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_that_need_no_description_are_described_as_they_are() {
        let described = |bytes: &[u8], log, counts: &[(usize, i16)]| {
            let repeated = counts.iter().flat_map(|(n, count)| std::iter::repeat_n(*count, *n));
            let expected = Distribution { log, counts: repeated.collect() };
            assert_eq!(Distribution::read(bytes), Some((expected, bytes.len())));
        };
        // RFC 8878, 3.1.1.3.2.2: runs of equal numbers.
        let literals = [(1, 4), (1, 3), (11, 2), (3, 1), (9, 2), (1, 3), (1, 2), (5, 1), (4, -1)];
        described(&OF_LITERALS, 6, &literals);
        described(&OF_OFFSETS, 5, &[(6, 1), (3, 2), (15, 1), (5, -1)]);
        described(&OF_MATCHES, 6, &[(1, 1), (1, 4), (1, 3), (6, 2), (37, 1), (7, -1)]);
    }

    #[test]
    fn offsets_are_remembered_as_the_format_says() {
        let check = |value, follows_none, expected| {
            let mut last = [Some(10), Some(20), Some(30)];
            remember(&mut last, value, follows_none);
            assert_eq!(last.map(Option::unwrap), expected, "{value} {follows_none}");
        };
        check(1, false, [10, 20, 30]);
        check(2, false, [20, 10, 30]);
        check(3, false, [30, 10, 20]);
        check(1, true, [20, 10, 30]);
        check(2, true, [30, 10, 20]);
        check(3, true, [9, 10, 20]);
        check(4, false, [1, 10, 20]);
        check(4, true, [1, 10, 20]);
        check(1000, true, [997, 10, 20]);
    }
}
