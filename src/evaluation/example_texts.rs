//! The files of a task's examples as Mesh TensorFlow writes them: `{task}_inputs`, `{task}_targets` and
//! `{task}_{step}_predictions`, a line for each example, as Python prints its value. Source: mesh `transformer/utils.py`.

use gimlet_gin::{repr_bytes, repr_float};
use gimlet_storage::Path;
use serde_json::Value;

use super::line_file::LineFile;
use super::results::Results;
use super::task::{EvalError, EvalTask, Example, Side};

/// The files of one evaluation of a task.
pub(super) struct ExampleTexts {
    /// Files that are the same for every checkpoint, so that only the first one's evaluation writes them.
    truth: Option<Truth>,
    predictions: LineFile,
}

struct Truth {
    inputs: LineFile,
    targets: LineFile,
}

impl ExampleTexts {
    /// Creates the files, those of inputs and targets only at the first checkpoint.
    pub(super) fn create(folder: &Path, task: &str, step: i64, is_first: bool) -> Self {
        let file = |name: &str| LineFile::create(folder.join(&format!("{task}_{name}")));
        Self {
            truth: is_first.then(|| Truth { inputs: file("inputs"), targets: file("targets") }),
            predictions: file(&format!("{step}_predictions")),
        }
    }

    /// Writes the next examples, whose results begin at `first`.
    pub(super) fn add(
        &mut self,
        task: &EvalTask<'_>,
        examples: &[Example],
        results: &Results,
        first: usize,
    ) {
        let printed = |value, side| one_line(&(task.printed)(value, side));
        if let Some(Truth { inputs, targets }) = &mut self.truth {
            let texts = examples.iter().filter_map(|it| it.features.get("inputs_pretokenized"));
            // Texts of features are bytes in TensorFlow.
            let texts = texts.filter_map(Value::as_str).map(|text| repr_bytes(text.as_bytes()));
            texts.for_each(|text| inputs.write(text));
            let values = results.targets[first..].iter();
            values.for_each(|value| targets.write(printed(value, Side::Target)));
        }
        let predictions = &mut self.predictions;
        if let Some(values) = &results.predictions {
            values[first..].iter().for_each(|it| predictions.write(printed(it, Side::Prediction)));
        } else if let Some(scores) = &results.scores {
            let scores = scores[first..].iter().filter_map(Value::as_f64);
            scores.for_each(|score| predictions.write(float32(score)));
        }
    }

    /// Makes the files visible.
    pub(super) fn finish(self) -> Result<(), EvalError> {
        if let Some(Truth { inputs, targets }) = self.truth {
            inputs.finish()?;
            targets.finish()?;
        }
        self.predictions.finish()
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Prints a number as NumPy prints a float32: the fewest digits that tell it from its neighbours.
fn float32(number: f64) -> String {
    let shortest = (number as f32).to_string();
    repr_float(shortest.parse().expect("Rust reads the numbers that it prints"))
}

#[cfg(test)]
mod tests {
    use gimlet_gin::Ref;
    use gimlet_metrics::{Accuracy, MetricFn};
    use serde_json::json;

    use super::super::spec::{Evaluator, Logger, MeshLogger};
    use super::super::task::Outputs;
    use super::*;

    #[test]
    fn examples_are_written_once_and_predictions_at_each_step() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Path::try_from(scratch.path()).unwrap();
        let logger = Logger::Mesh(MeshLogger { output_eval_examples: true });
        let evaluator = Evaluator { logger_cls: vec![Ref(logger)], ..Evaluator::default() };
        let mut runner = evaluator.build(Some(&dir.join("inference_eval")), None);
        let task = EvalTask {
            name: "sums",
            metric_fns: &[Ref(MetricFn::Accuracy(Accuracy))],
            postprocess: &|text, _, _| Ok(json!(text)),
            printed: &|value, _| value.as_str().unwrap_or_default().to_string(),
        };
        let example = |input: &str, target: &str| {
            let input = ("inputs_pretokenized".to_string(), json!(input));
            Example { features: [input].into_iter().collect(), target: target.to_string() }
        };
        for (step, input) in [(7, "1 + 1"), (9, "read again")] {
            let mut evaluation = runner.begin(task, step);
            for (input, target) in [(input, "2"), ("à la\nligne, it's", "3\n4")] {
                let texts = Some(vec!["2\n".to_string()]);
                let outputs = Outputs { texts, scores: None };
                evaluation.add(&[example(input, target)], outputs).unwrap();
            }
            evaluation.finish().unwrap();
        }
        let read = |name: &str| dir.join(name).read_to_string().unwrap();
        assert_eq!(read("sums_inputs"), "b'1 + 1'\nb\"\\xc3\\xa0 la\\nligne, it's\"\n");
        assert_eq!(read("sums_targets"), "2\n3 4\n");
        assert_eq!([7, 9].map(|step| read(&format!("sums_{step}_predictions"))), ["2 \n2 \n"; 2]);
        // With the events.
        assert_eq!(dir.list().unwrap().len(), 5);
    }

    /// NumPy 1.26 printed the expected texts.
    #[test]
    fn scores_are_printed_as_numpy_prints_them() {
        for (number, expected) in
            [(-12.345_678_9, "-12.345679"), (-1.0e-5, "-1e-05"), (-100.0, "-100.0"), (0.0, "0.0")]
        {
            assert_eq!(float32(number), expected);
        }
    }
}
