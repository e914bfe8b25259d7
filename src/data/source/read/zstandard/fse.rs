//! Codes of finite state entropy, as in zstd's blocks (RFC 8878, 4.1).
//!
//! A code is a table of states. Each state has a symbol and the number of bits that lead to the
//! next state.

/// Base-2 logarithm of the maximum number of states of a zstd code.
const LARGEST_LOG: u32 = 9;

/// The frequency of each symbol, out of `1 << log`; -1 means less than one.
#[derive(Debug, PartialEq)]
pub(super) struct Distribution {
    pub log: u32,
    pub counts: Vec<i16>,
}

impl Distribution {
    /// Reads a description at the beginning of `bytes`, and returns its length too.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut bits = Forward { bytes, at: 0 };
        let log = bits.take(4)? + 5;
        let (mut left, mut counts) = (1_i32 << log, Vec::new());
        if log > LARGEST_LOG {
            return None;
        }
        while left > 0 {
            let count = bits.below((left + 1) as u32)? as i16 - 1;
            left -= i32::from(count.abs());
            counts.push(count);
            // Runs of symbols that do not occur are stored in groups of three.
            let mut zeros = if count == 0 { 3 } else { 0 };
            while zeros == 3 {
                zeros = bits.take(2)?;
                counts.extend(std::iter::repeat_n(0, zeros as usize));
            }
            if counts.len() > 256 {
                return None;
            }
        }
        (left == 0).then(|| (Self { log, counts }, bits.at.div_ceil(8)))
    }
}

/// Bits from the lowest bit of the first byte on.
struct Forward<'a> {
    bytes: &'a [u8],
    /// Bits taken.
    at: usize,
}

impl Forward<'_> {
    /// The next bits, 0 after the end.
    fn peek(&self, count: u32) -> u32 {
        let bytes = self.bytes.get(self.at / 8..).unwrap_or_default();
        let mut word = [0; 4];
        let found = bytes.len().min(4);
        word[..found].copy_from_slice(&bytes[..found]);
        u32::from_le_bytes(word) >> (self.at % 8) & ((1 << count) - 1)
    }

    fn take(&mut self, count: u32) -> Option<u32> {
        let found = self.peek(count);
        self.skip(count).then_some(found)
    }

    fn skip(&mut self, count: u32) -> bool {
        self.at += count as usize;
        self.at <= self.bytes.len() * 8
    }

    /// A number up to `most`; if the range is not a power of two, the lower numbers take one bit
    /// less.
    fn below(&mut self, most: u32) -> Option<u32> {
        let bits = 32 - most.leading_zeros();
        let (low, spare) = ((1 << (bits - 1)) - 1, (1 << bits) - 1 - most);
        let value = self.peek(bits);
        if value & low < spare {
            return self.skip(bits - 1).then_some(value & low);
        }
        self.skip(bits).then_some(if value > low { value - spare } else { value })
    }
}

/// A state of a code.
#[derive(Clone, Copy, Default)]
struct State {
    symbol: u8,
    /// The next state is `base` plus the number in the next `bits` bits.
    bits: u8,
    base: u16,
}

/// A code ready for decoding.
pub(super) struct Code {
    log: u32,
    states: Vec<State>,
}

impl Code {
    /// The code of a single symbol, which takes no bits.
    pub(super) fn of_one(symbol: u8) -> Self {
        Self { log: 0, states: vec![State { symbol, ..State::default() }] }
    }

    /// The code of a distribution.
    pub(super) fn new(Distribution { log, counts }: &Distribution) -> Self {
        let size = 1_usize << log;
        let mut states = vec![State::default(); size];
        let mut next: Vec<usize> = counts.iter().map(|count| count.unsigned_abs().into()).collect();
        let rare = counts.iter().enumerate().filter(|(_, count)| **count == -1);
        let mut end = size;
        for (symbol, _) in rare {
            end -= 1;
            states[end].symbol = symbol as u8;
        }
        // The states of the other symbols are spread over the rest.
        let (step, mut at) = ((size >> 1) + (size >> 3) + 3, 0);
        for (symbol, count) in counts.iter().enumerate() {
            for _ in 0..(*count).max(0) {
                states[at].symbol = symbol as u8;
                at = (at + step) % size;
                while at >= end {
                    at = (at + step) % size;
                }
            }
        }
        for state in &mut states {
            let number = &mut next[usize::from(state.symbol)];
            state.bits = (log - number.ilog2()) as u8;
            state.base = ((*number << state.bits) - size) as u16;
            *number += 1;
        }
        Self { log: *log, states }
    }

    /// The first state.
    pub(super) fn start(&self, bits: &mut Backward) -> Option<usize> {
        bits.take(self.log).map(|state| state as usize)
    }

    /// The symbol of a state.
    pub(super) fn symbol(&self, state: usize) -> usize {
        self.states[state].symbol.into()
    }

    /// The state after `state`.
    pub(super) fn next(&self, state: usize, bits: &mut Backward) -> Option<usize> {
        let State { bits: count, base, .. } = self.states[state];
        bits.take(count.into()).map(|more| usize::from(base) + more as usize)
    }
}

/// Bits from the highest bit of the last byte on, after the 1 that marks their beginning.
pub(super) struct Backward<'a> {
    bytes: &'a [u8],
    /// Number of bits left.
    left: usize,
}

impl<'a> Backward<'a> {
    /// The bits of a stream.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let last = bytes.last().filter(|last| **last > 0)?;
        Some(Self { bytes, left: bytes.len() * 8 - 1 - last.leading_zeros() as usize })
    }

    /// The next bits as a number; at most 32.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        self.left = self.left.checked_sub(count as usize)?;
        let mut word = [0; 8];
        let bytes = &self.bytes[self.left / 8..];
        let found = bytes.len().min(8);
        word[..found].copy_from_slice(&bytes[..found]);
        Some((u64::from_le_bytes(word) >> (self.left % 8) & ((1 << count) - 1)) as u32)
    }

    /// Whether all bits were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }
}
