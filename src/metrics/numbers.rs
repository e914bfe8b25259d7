//! Correlations of numbers. Sources: t5 `evaluation/metrics.py`; SciPy's definitions.

use crate::gin::Configurable;

use super::task::{Metric, MetricError, Pairs, Values, one};

/// Pearson's correlation, times 100: `pearson_corrcoef`; not a number where one side is constant.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.pearson_corrcoef")]
pub struct PearsonCorrcoef;

impl Metric for PearsonCorrcoef {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let (targets, predictions) = numbers(pairs)?;
        Ok(one("pearson_corrcoef", 100.0 * correlation(&targets, &predictions)))
    }
}

/// Spearman's correlation of ranks, times 100: `spearman_corrcoef`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.spearman_corrcoef")]
pub struct SpearmanCorrcoef;

impl Metric for SpearmanCorrcoef {
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let (targets, predictions) = numbers(pairs)?;
        let is_nan = |numbers: &[f64]| numbers.iter().any(|number| number.is_nan());
        let value = match is_nan(&targets) || is_nan(&predictions) {
            true => f64::NAN,
            false => correlation(&ranks(&targets), &ranks(&predictions)),
        };
        Ok(one("spearman_corrcoef", 100.0 * value))
    }
}

fn numbers(pairs: &Pairs<'_>) -> Result<(Vec<f64>, Vec<f64>), MetricError> {
    if pairs.len() < 2 {
        return Err(pairs.unfit("a correlation needs at least 2 examples, found 1".to_string()));
    }
    let targets = pairs.read(pairs.targets, Pairs::number)?;
    Ok((targets, pairs.read(pairs.predictions, Pairs::number)?))
}

fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let centred = |numbers: &[f64]| -> (Vec<f64>, f64) {
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let centred: Vec<f64> = numbers.iter().map(|number| number - mean).collect();
        let norm = centred.iter().map(|number| number * number).sum::<f64>().sqrt();
        (centred, norm)
    };
    let ((left, left_norm), (right, right_norm)) = (centred(left), centred(right));
    let product: f64 =
        left.iter().zip(&right).map(|(l, r)| (l / left_norm) * (r / right_norm)).sum();
    product.clamp(-1.0, 1.0)
}

/// Ranks from 1; equal numbers share the mean of theirs.
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
