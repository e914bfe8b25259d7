//! Several data sets of samples as one, in proportions. Sources: `build_blending_indices` of `megatron/data/helpers.cpp`,
//! `megatron/data/blendable_dataset.py` and `lm_experiments_tools/data.py`.

/// The order of the samples of several data sets: of each sample its data set, and its number there.
#[derive(Debug, PartialEq)]
pub(crate) struct Blend {
    datasets: Vec<u8>,
    numbers: Vec<u64>,
}

impl Blend {
    /// As many samples as all data sets have together, with the weights as their shares.
    pub(crate) fn of_shares(lengths: &[u64], weights: &[f64]) -> Self {
        Self::new(lengths.iter().sum(), lengths, weights)
    }

    /// Each data set as many times over as its weight says.
    pub(crate) fn of_multiples(lengths: &[u64], weights: &[f64]) -> Self {
        let count = |(length, weight): (&u64, &f64)| (weight * *length as f64).ceil();
        let counts: Vec<f64> = lengths.iter().zip(weights).map(count).collect();
        Self::new(counts.iter().sum::<f64>() as u64, lengths, &counts)
    }

    /// Takes each sample from the data set that is furthest behind its weight, the first of equals. A data set starts over
    /// when it has given all of its samples, where upstream fails.
    fn new(size: u64, lengths: &[u64], weights: &[f64]) -> Self {
        let total = numpy_sum(weights);
        let weights: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let mut taken = vec![0_u64; lengths.len()];
        let mut blend = Self { datasets: Vec::new(), numbers: Vec::new() };
        for sample in 0..size {
            let behind =
                |dataset: usize| weights[dataset] * sample.max(1) as f64 - taken[dataset] as f64;
            let furthest = (1..lengths.len()).fold(0, |furthest, dataset| {
                if behind(dataset) > behind(furthest) { dataset } else { furthest }
            });
            blend.datasets.push(furthest as u8);
            blend.numbers.push(taken[furthest] % lengths[furthest].max(1));
            taken[furthest] += 1;
        }
        blend
    }

    /// Number of samples.
    pub(crate) fn len(&self) -> u64 {
        self.datasets.len() as u64
    }

    /// The data set of a sample, and its number there.
    pub(crate) fn get(&self, sample: u64) -> (usize, u64) {
        (self.datasets[sample as usize].into(), self.numbers[sample as usize])
    }
}

/// The sum as NumPy rounds it: from 8 numbers on, eight sums of every eighth number; from 129 on, the sum of two halves.
/// Source: NumPy `loops_utils.h.src`, `pairwise_sum`.
fn numpy_sum(numbers: &[f64]) -> f64 {
    if numbers.len() < 8 {
        return numbers.iter().sum();
    }
    if numbers.len() > 128 {
        let half = numbers.len() / 2;
        let (first, second) = numbers.split_at(half - half % 8);
        return numpy_sum(first) + numpy_sum(second);
    }
    let (rows, rest) = numbers.as_chunks::<8>();
    let [a, b, c, d, e, f, g, h] = rows[1..].iter().fold(rows[0], |mut sums, row| {
        sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        sums
    });
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(sum, |sum, number| sum + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with sums of NumPy 2.4.6.
    #[test]
    fn sums_are_rounded_as_in_numpy() {
        let cases = [
            (7, 2.310_000_000_000_000_5),
            (9, 2.560_000_000_000_000_5),
            (20, 7.6),
            (130, 122.250_000_000_000_01),
            (250, 385.75),
        ];
        for (count, expected) in cases {
            let number = |i: u32| 0.1 * f64::from(i % 7) + 0.01 * f64::from(i);
            let numbers: Vec<f64> = (0..count).map(number).collect();
            assert_eq!(numpy_sum(&numbers), expected, "{count}");
        }
    }
}
