//! Randomness as a function of (seed, stage, counter).
//!
//! No generator state is ever saved: the same three numbers always give the same values. ChaCha
//! with eight rounds is seekable, equal on all machines, and good enough for shuffling.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The seed of one stage of one pipeline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StageSeed {
    key: [u8; 32],
}

impl StageSeed {
    /// The seed of the stage of that name; different names draw independently.
    pub(crate) fn new(seed: u64, stage: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(stage.as_bytes()).to_le_bytes());
        Self { key }
    }

    /// The values of one element of the stage.
    pub(crate) fn draw(&self, counter: u64) -> Draw {
        let mut rng = ChaCha8Rng::from_seed(self.key);
        rng.set_stream(counter);
        Draw(rng)
    }

    /// One value per element, from element `counter` on; cheaper than a `draw` for each.
    pub(crate) fn sequence(&self, counter: u64) -> Draw {
        let mut rng = ChaCha8Rng::from_seed(self.key);
        // `below` and `unit` take two words each.
        rng.set_word_pos(u128::from(counter) * 2);
        Draw(rng)
    }
}

/// A position in a stage's random values.
pub(crate) struct Draw(ChaCha8Rng);

impl Draw {
    /// A uniform index below `n`; `n` is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0, "nothing lies below 0");
        // The bias of multiplying instead of rejecting is n / 2^64.
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// A uniform number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniform number from `low` to below `high`; `high` is greater than `low`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        debug_assert!(low < high, "nothing lies from {low} to below {high}");
        low + self.below((high - low) as usize) as i64
    }

    /// Permutes the items.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// FNV-1a, 64 bits: a hash that never changes, unlike the standard library's.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_goes_on_where_it_was() {
        let seed = StageSeed::new(7, "shuffle");
        let mut whole = seed.sequence(0);
        let values: Vec<usize> = (0..100).map(|_| whole.below(1000)).collect();
        let mut rest = seed.sequence(60);
        assert_eq!(values[60..], (60..100).map(|_| rest.below(1000)).collect::<Vec<_>>()[..]);
    }

    #[test]
    fn seed_stage_and_counter_each_change_the_values() {
        let value = |seed, stage, counter| StageSeed::new(seed, stage).draw(counter).below(1 << 40);
        let base = value(1, "a", 0);
        assert_eq!(base, value(1, "a", 0));
        for other in [value(2, "a", 0), value(1, "b", 0), value(1, "a", 1)] {
            assert_ne!(base, other);
        }
    }
}
