//! Python's random numbers.

use rand_mt::Mt;

/// The generator of Python's `random.Random(seed)`, whose draws it repeats. Source: CPython 3.9 `Lib/random.py` and
/// `Modules/_randommodule.c`.
#[derive(Clone, Debug)]
pub struct PythonRandom(Mt);

impl PythonRandom {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Self {
        let words = [seed as u32, (seed >> 32) as u32];
        let num_words = if words[1] == 0 { 1 } else { 2 };
        Self(Mt::new_with_key(words.into_iter().take(num_words)))
    }

    /// Draws a number from 0 to below 1: `random()`.
    pub fn random(&mut self) -> f64 {
        let [high, low] = [5, 6].map(|bits| self.0.next_u32() >> bits);
        (f64::from(high) * f64::from(1 << 26) + f64::from(low)) / (1u64 << 53) as f64
    }

    /// Draws `count` different numbers below `population`: `sample(range(population), count)`.
    ///
    /// # Panics
    /// `count` exceeds `population`.
    pub fn sample(&mut self, population: usize, count: usize) -> Vec<usize> {
        assert!(count <= population, "a sample of {count} has at most {population} numbers");
        // The least power of 4 that is not below three times the count, which is none itself.
        let of_set = if count > 5 { 4usize.pow((3 * count).ilog(4) + 1) } else { 0 };
        if population > 21 + of_set {
            let mut drawn = Vec::with_capacity(count);
            while drawn.len() < count {
                let number = self.below(population);
                if !drawn.contains(&number) {
                    drawn.push(number);
                }
            }
            return drawn;
        }
        let mut pool: Vec<usize> = (0..population).collect();
        (0..count).map(|_| pool.swap_remove(self.below(pool.len()))).collect()
    }

    /// Draws a number below `bound`, which is 1 to 2^32 - 1: `_randbelow`.
    fn below(&mut self, bound: usize) -> usize {
        let bits = bound.ilog2() + 1;
        loop {
            let number = (self.0.next_u32() >> (32 - bits)) as usize;
            if number < bound {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python 3 computed the values.
    fn check(seed: u64, (population, count): (usize, usize), sample: &[usize], next: f64) {
        let mut random = PythonRandom::new(seed);
        assert_eq!(random.sample(population, count), sample, "{seed} {population} {count}");
        assert_eq!(random.random(), next, "{seed} {population} {count}");
    }

    #[test]
    fn samples_are_those_of_python() {
        check(0, (10, 0), &[], 0.8444218515250481);
        check(7, (21, 3), &[10, 4, 12], 0.6509344730398537);
        check(7, (22, 5), &[10, 4, 12, 20, 1], 0.07243628666754276);
        check(8, (22, 5), &[7, 11, 12, 4, 6], 0.7048169228716079);
        check(3, (85, 6), &[30, 75, 69, 16, 47, 77], 0.47405353654712656);
        check(4, (86, 6), &[30, 38, 13, 50, 61, 19], 0.09010024418320572);
        check(
            1099511627781,
            (300, 20),
            &[
                258, 264, 137, 14, 271, 23, 84, 40, 68, 122, 70, 126, 194, 62, 283, 117, 239, 28,
                57, 218,
            ],
            0.04437452055432067,
        );
        check(
            2,
            (278, 22),
            &[
                28, 46, 43, 184, 86, 157, 128, 108, 18, 81, 220, 201, 260, 190, 227, 257, 137, 14,
                186, 238, 163, 194,
            ],
            0.42361096957169064,
        );
        check(
            2,
            (277, 22),
            &[
                28, 46, 43, 184, 86, 157, 128, 108, 18, 81, 220, 201, 260, 190, 227, 257, 137, 268,
                14, 186, 238, 163,
            ],
            0.907750110179297,
        );
    }
}
