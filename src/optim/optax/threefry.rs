//! JAX's default random generator, as optax draws its noise: Threefry 2x32 (Salmon et al. 2011), with a counter for each
//! element (`jax_threefry_partitionable`, the default since jax 0.5).
//!
//! `Key::new(3).split(1).normal(4)` is `jax.random.normal(jax.random.split(jax.random.key(3))[1], [4])`. Source: jax
//! `_src/random/threefry2x32.py`, `_src/random/core.py`.

use std::thread;

/// A thread draws at least this many numbers, in about a millisecond.
const MIN_PART: usize = 1 << 14;

/// A key, which gives the same numbers each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u32; 2]);

impl Key {
    /// Returns the key of a seed, of which JAX takes 32 bits.
    pub fn new(seed: i64) -> Self {
        Self([0, seed as u32])
    }

    /// Returns one of the keys that this one splits into, however many they are.
    #[must_use]
    pub fn split(self, index: u64) -> Self {
        Self(self.block(index))
    }

    /// Returns numbers of the standard normal distribution, drawn by all processors.
    pub fn normal(self, count: usize) -> Vec<f32> {
        let mut numbers = vec![0.0; count];
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let part = count.div_ceil(threads).max(MIN_PART);
        thread::scope(|scope| {
            for (index, part_of) in numbers.chunks_mut(part).enumerate() {
                scope.spawn(move || self.fill(part_of, index * part));
            }
        });
        numbers
    }

    /// Fills a part of the numbers, of which `start` lie before it.
    fn fill(self, numbers: &mut [f32], start: usize) {
        for (counter, number) in (start as u64..).zip(numbers) {
            let [high, low] = self.block(counter);
            *number = std::f32::consts::SQRT_2 * erf_inv(uniform(high ^ low));
        }
    }

    /// The hash of a counter: twenty rounds, with the key added after every fourth.
    fn block(self, counter: u64) -> [u32; 2] {
        const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
        let [a, b] = self.0;
        let keys = [a, b, a ^ b ^ 0x1BD1_1BDA];
        let mut high = ((counter >> 32) as u32).wrapping_add(keys[0]);
        let mut low = (counter as u32).wrapping_add(keys[1]);
        for group in 0..5 {
            for rotation in ROTATIONS[group % 2] {
                high = high.wrapping_add(low);
                low = low.rotate_left(rotation) ^ high;
            }
            high = high.wrapping_add(keys[(group + 1) % 3]);
            low = low.wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
        }
        [high, low]
    }
}

/// Returns a number between -1 and 1, which it is never.
fn uniform(bits: u32) -> f32 {
    // The bits become those after the point of a number from 1 to 2.
    let fraction = f32::from_bits(bits >> 9 | 1.0_f32.to_bits()) - 1.0;
    let least = (-1.0_f32).next_up();
    (fraction * 2.0 + least).max(least)
}

/// The inverse of the error function. Source: XLA `ErfInv32`, after Giles 2012, "Approximating the erfinv function".
fn erf_inv(x: f32) -> f32 {
    const CENTRE: [f32; 9] = [
        2.810_226_4e-8,
        3.432_739_4e-7,
        -3.523_387_7e-6,
        -4.391_506_5e-6,
        0.000_218_580_87,
        -0.001_253_725,
        -0.004_177_681_6,
        0.246_640_73,
        1.501_409_4,
    ];
    const TAILS: [f32; 9] = [
        -0.000_200_214_26,
        0.000_100_950_56,
        0.001_349_343_2,
        -0.003_673_428_4,
        0.005_739_507_7,
        -0.007_622_461_3,
        0.009_438_870_5,
        1.001_674,
        2.832_976_8,
    ];
    let w = -(-x * x).ln_1p();
    let (w, coefficients) = match w < 5.0 {
        true => (w - 2.5, CENTRE),
        false => (w.sqrt() - 3.0, TAILS),
    };
    coefficients.iter().fold(0.0, |sum, coefficient| sum * w + coefficient) * x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_jax() {
        assert_eq!((Key::new(-1), Key::new((1 << 40) + 3)), (Key([0, u32::MAX]), Key([0, 3])));
        let split: Vec<Key> = (0..3).map(|index| Key::new(3).split(index)).collect();
        let expected = [
            Key([3_716_834_203, 3_481_239_269]),
            Key([1_946_498_123, 2_217_676_430]),
            Key([1_024_511_538, 2_603_795_180]),
        ];
        assert_eq!(split, expected);
    }

    /// Compares with `jax.random.normal(key, shape)` of jax 0.10.2 on a CPU, up to rounding.
    fn check(key: Key, count: usize, expected: &[(usize, f32)]) {
        let found = key.normal(count);
        assert_eq!(found.len(), count);
        for (index, expected) in expected {
            let difference = (found[*index] - expected).abs();
            assert!(difference <= 1e-6 * expected.abs(), "{index}: {} {expected}", found[*index]);
        }
    }

    #[test]
    fn normal_numbers_are_those_of_jax() {
        let four = [-2.442_455_8, -2.035_680_5, 0.205_544_23, -0.353_550_2];
        check(Key::new(0).split(1), 4, &[(0, four[0]), (1, four[1]), (2, four[2]), (3, four[3])]);
        check(Key::new(3).split(1), 6, &[(0, -1.943_221_6), (3, 0.305_993_14), (5, -1.081_217_4)]);
        check(Key::new((1 << 31) + 5).split(1), 1, &[(0, -1.189_297_7)]);
        // The greatest and the least of a million.
        let tails = [(103_009, -5.419_983), (333_391, 4.490_878_6), (999_999, -0.082_480_97)];
        check(Key::new(7), 1_000_000, &tails);
    }
}
