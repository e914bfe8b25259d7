//! The draws of NumPy's `RandomState`, from the Mersenne Twister (Matsumoto & Nishimura 1998). Source: NumPy
//! `random/mtrand.pyx` and `random/src/distributions/distributions.c`, whose streams are frozen.

use rand_mt::Mt;

/// NumPy's `RandomState`.
pub(super) struct RandomState(Mt);

impl RandomState {
    /// The generator of `numpy.random.RandomState(seed)`.
    pub(super) fn new(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// A number in [0, 1) of 53 bits, of which the first of two words gives 27.
    pub(super) fn random(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * f64::from(1 << 26) + f64::from(low)) / (1_u64 << 53) as f64
    }

    /// A number from `low` to below `high`, which is greater.
    pub(super) fn randint(&mut self, low: u32, high: u32) -> u32 {
        low + self.up_to(high - low - 1)
    }

    /// Permutes the items.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.up_to(last as u32) as usize);
        }
    }

    /// A choice: the number of sums of probabilities that are not above a draw.
    pub(super) fn choice(&mut self, sums: &[f64]) -> usize {
        let draw = self.random();
        sums.partition_point(|sum| *sum <= draw)
    }

    /// A number from 0 to `most`. Words, cut to the bits of `most`, are drawn until one is not above it.
    fn up_to(&mut self, most: u32) -> u32 {
        if most == 0 {
            return 0;
        }
        let mask = u32::MAX >> most.leading_zeros();
        loop {
            let word = self.0.next_u32() & mask;
            if word <= most {
                return word;
            }
        }
    }
}

/// The sums by which [`RandomState::choice`] chooses with probabilities in proportion to these weights, rounded as in
/// NumPy, where they are divided by the last sum again.
pub(super) fn choice_sums(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let sums = weights.iter().scan(0.0, |sum, weight| {
        *sum += weight / total;
        Some(*sum)
    });
    let sums: Vec<f64> = sums.collect();
    let last = sums.last().copied().unwrap_or(1.0);
    sums.into_iter().map(|sum| sum / last).collect()
}
