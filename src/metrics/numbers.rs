//! Correlations of numbers. Sources: t5 `evaluation/metrics.py`; SciPy's definitions.

use gimlet_gin::Configurable;

use super::metric::{Metric, MetricError, Pairs, Values, named, one};

/// Pearson's correlation, times 100: `pearson_corrcoef`; NaN if one side is constant.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.pearson_corrcoef")]
pub struct PearsonCorrcoef;

impl Metric for PearsonCorrcoef {
    fn keys(&self) -> Vec<String> {
        named(&["pearson_corrcoef"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        if pairs.len() < 2 {
            let reason = "a correlation needs at least 2 examples, found 1".to_string();
            return Err(pairs.unfit(reason));
        }
        let (targets, predictions) = numbers(pairs)?;
        Ok(one("pearson_corrcoef", 100.0 * correlation(&targets, &predictions)))
    }
}

/// Spearman's correlation of ranks, times 100: `spearman_corrcoef`; NaN for a single example, or if
/// one side is constant.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.spearman_corrcoef")]
pub struct SpearmanCorrcoef;

impl Metric for SpearmanCorrcoef {
    fn keys(&self) -> Vec<String> {
        named(&["spearman_corrcoef"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let (targets, predictions) = numbers(pairs)?;
        let is_nan = |numbers: &[f64]| numbers.iter().any(|number| number.is_nan());
        let value = match pairs.len() < 2 || is_nan(&targets) || is_nan(&predictions) {
            true => f64::NAN,
            false => correlation(&ranks(&targets), &ranks(&predictions)),
        };
        Ok(one("spearman_corrcoef", 100.0 * value))
    }
}

fn numbers(pairs: &Pairs<'_>) -> Result<(Vec<f64>, Vec<f64>), MetricError> {
    let targets = pairs.read(pairs.targets, Pairs::number)?;
    Ok((targets, pairs.read(pairs.predictions, Pairs::number)?))
}

/// Computes SciPy's `pearsonr`: numbers are divided by the largest before squaring, which could
/// overflow.
fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let is_constant = |numbers: &[f64]| numbers.iter().all(|number| *number == numbers[0]);
    if is_constant(left) || is_constant(right) {
        return f64::NAN;
    }
    let (left, right) = (unit(left), unit(right));
    let products: Vec<f64> = left.iter().zip(&right).map(|(l, r)| l * r).collect();
    let product = products.iter().sum::<f64>().clamp(-1.0, 1.0);
    if products.len() == 2 { product.round() } else { product }
}

/// Subtracts the mean from the numbers, and divides by the root of the resulting sum of squares.
fn unit(numbers: &[f64]) -> Vec<f64> {
    let mean = pairwise_sum(numbers) / numbers.len() as f64;
    let centred: Vec<f64> = numbers.iter().map(|number| number - mean).collect();
    let largest = centred.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
    let squares: Vec<f64> = centred.iter().map(|number| (number / largest).powi(2)).collect();
    let norm = largest * pairwise_sum(&squares).sqrt();
    centred.iter().map(|number| number / norm).collect()
}

/// Computes NumPy's sum, whose last digits matter if numbers hardly differ from their mean.
fn pairwise_sum(numbers: &[f64]) -> f64 {
    const LANES: usize = 8;
    const BLOCK: usize = 128;
    if numbers.len() < LANES {
        return numbers.iter().sum();
    }
    if numbers.len() > BLOCK {
        let half = numbers.len() / 2;
        let (left, right) = numbers.split_at(half - half % LANES);
        return pairwise_sum(left) + pairwise_sum(right);
    }
    let (rows, rest) = numbers.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for row in rows {
        sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    rest.iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |sum, number| sum + number)
}

/// Returns ranks from 1; equal numbers get the mean of their ranks.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    let mut ranks = vec![0.0; numbers.len()];
    for run in order.chunk_by(|a, b| numbers[*a] == numbers[*b]) {
        let first = order.partition_point(|index| numbers[*index] < numbers[run[0]]);
        let mean = first as f64 + (run.len() as f64 + 1.0) / 2.0;
        run.iter().for_each(|index| ranks[*index] = mean);
    }
    ranks
}
