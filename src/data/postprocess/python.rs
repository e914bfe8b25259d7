//! A postprocessor that is a function of the user's Python.

use std::collections::BTreeMap;

use rmpv::Value as Wire;
use serde_json::Value as Json;

use super::{ExampleFeatures, Postprocess};
use gimlet_gin::{Configurable, Value};
use gimlet_python::{PythonFunction, PythonWorkers, map, of_json, to_json};

/// A function of a text, which may also take `example` and `is_target`, run by the user's own
/// Python (`docs/python_tasks.md`). Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.postprocessors.python")]
pub struct PythonPostprocessor {
    /// The module that Python imports; the working directory is searched first.
    pub module: String,
    /// The function's name within the module; dots lead into classes.
    #[gin(default = None)]
    pub function: Option<String>,
    /// A task, instead of `function`, that the module registers with SeqIO; its postprocessor is used.
    #[gin(default = None)]
    pub task: Option<String>,
    /// Further arguments of the function, by name.
    #[gin(default = BTreeMap::new())]
    pub kwargs: BTreeMap<String, Value>,
    /// Whether the example's features are NumPy's arrays and its texts bytes, as SeqIO gives them.
    #[gin(default = false)]
    pub as_numpy: bool,
    /// The Python that runs it.
    #[gin(method)]
    pub workers: PythonWorkers,
}

impl PythonPostprocessor {
    /// The function, or the part of a task.
    pub(crate) fn function(&self) -> PythonFunction {
        PythonFunction {
            module: self.module.clone(),
            function: self.function.clone(),
            task: self.task.clone(),
            part: "postprocess_fn",
            index: 0,
            kwargs: self.kwargs.clone(),
        }
    }

    fn apply(
        &self,
        text: &str,
        example: &ExampleFeatures,
        is_target: bool,
    ) -> Result<Json, String> {
        let function = self.function();
        let features = example.iter().map(|(name, value)| (&name[..], of_json(value)));
        let entries = [
            ("text", Wire::from(text)),
            ("example", map(features)),
            ("is_target", Wire::from(is_target)),
            ("as_numpy", Wire::from(self.as_numpy)),
        ];
        let answered = function
            .request("postprocess", entries)
            .and_then(|request| self.workers.call(&function, request));
        answered.map(to_json).map_err(|error| error.to_string())
    }
}

impl Postprocess for PythonPostprocessor {
    fn prediction(&self, text: &str, example: &ExampleFeatures) -> Result<Json, String> {
        self.apply(text, example, false)
    }

    fn target(&self, text: &str, example: &ExampleFeatures) -> Result<Json, String> {
        self.apply(text, example, true)
    }
}
