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

    // Other values would change the data of every resumed run. A script computed the expected ones
    // from the definitions of FNV-1a and of ChaCha with eight rounds, without this program.

    #[test]
    fn draws_stay_the_same_in_every_version() {
        let check = |seed, stage, counter, expected: [usize; 3]| {
            let mut draw = StageSeed::new(seed, stage).draw(counter);
            let found = [1000, 1000, usize::MAX].map(|n| draw.below(n));
            assert_eq!(found, expected, "{seed} {stage} {counter}");
        };
        check(0, "", 0, [73, 780, 8_787_842_794_039_725_792]);
        check(7, "shuffle", 0, [331, 592, 10_729_009_986_212_977_323]);
        check(7, "shuffle", 1, [637, 588, 10_936_933_549_477_133_000]);
        check(7, "lines/files/0", 0, [296, 253, 18_125_495_033_456_119_272]);
        check(u64::MAX, "shuffle", 1 << 40, [658, 804, 2_232_181_712_531_707_774]);
    }

    #[test]
    fn every_kind_of_value_stays_the_same_in_every_version() {
        let mut draw = StageSeed::new(7, "shuffle").draw(3);
        assert_eq!(draw.below(10), 4);
        assert_eq!(draw.below(1 << 40), 1_093_431_012_587);
        assert_eq!(draw.unit(), 0.728_176_168_137_828_6);
        assert_eq!(draw.between(-5, 5), 3);
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        draw.shuffle(&mut items);
        assert_eq!(items, [8, 1, 0, 6, 2, 4, 5, 9, 7, 3]);
    }

    #[test]
    fn sequences_stay_the_same_in_every_version() {
        let check = |counter, expected: [usize; 4]| {
            let mut sequence = StageSeed::new(7, "shuffle").sequence(counter);
            assert_eq!([(); 4].map(|()| sequence.below(1000)), expected, "{counter}");
        };
        check(0, [331, 592, 581, 776]);
        // Eight values are a block of ChaCha.
        check(7, [551, 512, 909, 22]);
        check(8, [512, 909, 22, 372]);
        check(1 << 40, [577, 775, 99, 130]);
    }
}
