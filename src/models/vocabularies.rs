//! The vocabularies of a model, for features that are declared in a run's gin file.

use super::families::t5::EncoderDecoderModel;
use super::spec::Model;
use crate::gin::{
    Configurable, Diagnostic, Evaluator, FromGin, Function, Reference, Registry, Reported, Schema,
    Slot, Span, Value, ValueKind, read_slot,
};

/// The vocabulary of a model's inputs. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.models.get_input_vocabulary")]
pub struct GetInputVocabulary {
    /// The model.
    pub model: ModelVocabularies,
}

/// The vocabulary of a model's outputs. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.models.get_output_vocabulary")]
pub struct GetOutputVocabulary {
    /// The model.
    pub model: ModelVocabularies,
}

impl Function for GetInputVocabulary {
    fn call(self) -> Result<ValueKind, String> {
        Ok(self.model.input.kind)
    }
}

impl Function for GetOutputVocabulary {
    fn call(self) -> Result<ValueKind, String> {
        Ok(self.model.output.kind)
    }
}

/// The vocabularies of a model, as its gin file refers to them. Nothing else of the model is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelVocabularies {
    input: Value,
    output: Value,
}

impl Slot for ModelVocabularies {
    fn schemas() -> Vec<&'static Schema> {
        Model::schemas()
    }

    fn schema_of(&self) -> &'static Schema {
        EncoderDecoderModel::schema()
    }

    fn evaluate_as(schema: &'static Schema, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        if ["vocabulary", "input_vocabulary"].iter().all(|name| schema.param(name).is_none()) {
            let message = format!("@{} has no parameter for a vocabulary", schema.name);
            return Err(cx.report(Diagnostic::error(Span::NOWHERE, message)));
        }
        let mut vocabulary = |name| cx.param::<InScope>(schema, name, None).map(|found| found.0);
        if schema.param("vocabulary").is_some() {
            let both = vocabulary("vocabulary")?;
            return Ok(Self { input: both.clone(), output: both });
        }
        Ok(Self {
            input: vocabulary("input_vocabulary")?,
            output: vocabulary("output_vocabulary")?,
        })
    }

    fn register_slot(registry: &mut Registry) {
        Model::register_slot(registry);
    }
}

read_slot!(ModelVocabularies);

/// A reference that is evaluated elsewhere in the scope in which it was read.
struct InScope(Value);

impl FromGin for InScope {
    fn expected() -> String {
        Value::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let kind = match &value.kind {
            ValueKind::Reference(reference) if reference.scope.is_empty() => {
                let scope = cx.scope_path();
                let scope = scope.split('/').filter(|part| !part.is_empty());
                let scope = scope.map(str::to_string).collect();
                ValueKind::Reference(Reference { scope, ..reference.clone() })
            }
            other => other.clone(),
        };
        Ok(Self(Value { kind, span: value.span }))
    }
}
