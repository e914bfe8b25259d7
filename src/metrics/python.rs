//! A metric that is a function of the user's Python.

use std::collections::BTreeMap;

use rmpv::Value as Wire;

use super::metric::{Metric, MetricError, ModelOutput, Pairs, Values};
use gimlet_gin::{Configurable, Value};
use gimlet_python::{PythonFunction, PythonWorkers, of_json};

/// A function of targets and predictions, which returns a dict of numbers, run by the user's own
/// Python (`docs/python_tasks.md`). Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.metrics.python")]
pub struct PythonMetric {
    /// The module that Python imports; the working directory is searched first.
    pub module: String,
    /// The function's name within the module; dots lead into classes.
    #[gin(default = None)]
    pub function: Option<String>,
    /// In place of `function`: a task that the module registers with SeqIO, which has the metric.
    #[gin(default = None)]
    pub task: Option<String>,
    /// Index of the metric in the `metric_fns` of `task`, from 0.
    #[gin(default = 0)]
    pub index: usize,
    /// Further arguments of the function, by name.
    #[gin(default = BTreeMap::new())]
    pub kwargs: BTreeMap<String, Value>,
    /// The required output of the model: the 'prediction' as text, or the 'score' of the target.
    #[gin(default = ModelOutput::Prediction)]
    pub model_output: ModelOutput,
    /// The Python that runs it.
    #[gin(method)]
    pub workers: PythonWorkers,
}

impl PythonMetric {
    /// Returns the function, or the part of a task.
    pub fn function(&self) -> PythonFunction {
        PythonFunction {
            module: self.module.clone(),
            function: self.function.clone(),
            task: self.task.clone(),
            part: "metric_fns",
            index: self.index,
            kwargs: self.kwargs.clone(),
        }
    }
}

impl Metric for PythonMetric {
    /// Returns no keys, because only the function knows them.
    fn keys(&self) -> Vec<String> {
        Vec::new()
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let function = self.function();
        let list = |values: &[serde_json::Value]| values.iter().map(of_json).collect::<Wire>();
        let entries = [("targets", list(pairs.targets)), ("predictions", list(pairs.predictions))];
        let computed = function
            .request("metric", entries)
            .and_then(|request| self.workers.call(&function, request))
            .map_err(|error| pairs.unfit(error.to_string()))?;
        let Wire::Map(values) = computed else { unreachable!("the worker gives a dict of floats") };
        let value = |(key, value): (Wire, Wire)| {
            (key.as_str().unwrap_or_default().to_string(), value.as_f64().unwrap_or(f64::NAN))
        };
        Ok(values.into_iter().map(value).collect())
    }

    fn model_output(&self) -> ModelOutput {
        self.model_output
    }
}
