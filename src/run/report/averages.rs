//! The averages of GLUE and SuperGLUE, as the T5 papers report them (google-research/text-to-text-transfer-transformer,
//! t5/evaluation/eval_utils.py): the mean over the benchmark's parts, of which one with two metrics or two tasks counts with their mean.

use std::collections::BTreeMap;

use super::metrics::{Curves, TaskCurves};
use super::series::Series;

/// The name of the metric.
const AVERAGE: &str = "average";

/// A task, less its version, and a metric of it.
type OfTask = (&'static str, &'static str);

/// Benchmarks, by the name of their curve's task, with their parts.
const BENCHMARKS: [(&str, &[&[OfTask]]); 2] = [
    (
        "GLUE",
        &[
            &[("glue_cola", "matthews_corrcoef")],
            &[("glue_sst2", "accuracy")],
            &[("glue_mrpc", "f1"), ("glue_mrpc", "accuracy")],
            &[("glue_stsb", "pearson_corrcoef"), ("glue_stsb", "spearman_corrcoef")],
            &[("glue_qqp", "f1"), ("glue_qqp", "accuracy")],
            &[("glue_mnli_matched", "accuracy"), ("glue_mnli_mismatched", "accuracy")],
            &[("glue_qnli", "accuracy")],
            &[("glue_rte", "accuracy")],
        ],
    ),
    (
        "SuperGLUE",
        &[
            &[("super_glue_boolq", "accuracy")],
            &[("super_glue_cb", "mean_3class_f1"), ("super_glue_cb", "accuracy")],
            &[("super_glue_copa", "accuracy")],
            &[("super_glue_multirc", "f1"), ("super_glue_multirc", "exact_match")],
            &[("super_glue_record", "f1"), ("super_glue_record", "em")],
            &[("super_glue_rte", "accuracy")],
            &[("super_glue_wic", "accuracy")],
            &[("super_glue_wsc", "accuracy")],
        ],
    ),
];

/// Adds the average of each benchmark of which all metrics are there, at the steps at which all are.
pub fn add_averages(evaluation: &mut TaskCurves) {
    for (benchmark, parts) in BENCHMARKS {
        let average = of_parts(&evaluation.tasks, parts);
        if let Some(curve) = average.filter(|curve| curve.last().is_some()) {
            let curves = Curves::from([(AVERAGE.to_string(), curve)]);
            evaluation.tasks.insert(benchmark.to_string(), curves);
        }
    }
}

fn of_parts(tasks: &BTreeMap<String, Curves>, parts: &[&[OfTask]]) -> Option<Series> {
    let values = |part: &OfTask| -> Option<BTreeMap<i64, f64>> {
        let (task, metric) = part;
        let is_task =
            |name: &str| name.strip_prefix(task).is_some_and(|rest| rest.starts_with("_v"));
        let mut found = tasks.iter().filter(|(name, _)| is_task(name));
        Some(
            found
                .find_map(|(_, curves)| curves.get(*metric))?
                .points(usize::MAX)
                .into_iter()
                .collect(),
        )
    };
    let of_part = |metrics: &&[OfTask]| metrics.iter().map(values).collect::<Option<Vec<_>>>();
    let parts: Vec<Vec<BTreeMap<i64, f64>>> = parts.iter().map(of_part).collect::<Option<_>>()?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let at = |step: &i64| -> Option<f64> {
        let of_part = |metrics: &Vec<BTreeMap<i64, f64>>| {
            let values = metrics.iter().map(|metric| metric.get(step).copied());
            Some(mean(&values.collect::<Option<Vec<_>>>()?))
        };
        Some(mean(&parts.iter().map(of_part).collect::<Option<Vec<_>>>()?))
    };
    let mut average = Series::default();
    for step in parts[0][0].keys() {
        if let Some(value) = at(step) {
            average.push(*step, value);
        }
    }
    Some(average)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_is_over_parts_and_needs_all_of_them() {
        let mut evaluation = TaskCurves::default();
        let (_, parts) = BENCHMARKS[1];
        for (at, metrics) in parts.iter().enumerate() {
            for (place, (task, metric)) in metrics.iter().enumerate() {
                let end = if *task == "super_glue_wsc" { "_simple_eval" } else { "" };
                let curves = evaluation.tasks.entry(format!("{task}_v102{end}")).or_default();
                let curve = curves.entry(metric.to_string()).or_default();
                // A part's mean is its number, doubled at the second step, at which the last part is missing.
                let offset = place as f64 - (metrics.len() - 1) as f64 / 2.0;
                curve.push(10, at as f64 + offset);
                if at < parts.len() - 1 {
                    curve.push(20, 2.0 * at as f64 + offset);
                }
            }
        }
        add_averages(&mut evaluation);
        let average = evaluation.tasks["SuperGLUE"][AVERAGE].points(10);
        assert_eq!(average, [(10, 3.5)]);
        assert!(!evaluation.tasks.contains_key("GLUE"));

        evaluation.tasks.remove("SuperGLUE");
        evaluation.tasks.remove("super_glue_copa_v102");
        add_averages(&mut evaluation);
        assert!(!evaluation.tasks.contains_key("SuperGLUE"));
    }
}
