//! From decoded text to what metrics compare.

use crate::gin::Configurable;

/// Any postprocessor of a task, in called form: `@postprocessors.lower_text()`.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Postprocessor {
    /// Lower case.
    LowerText(LowerText),
    /// A label's index.
    StringLabelToClassId(StringLabelToClassId),
}

/// Lower-cases the text. Source: t5 `postprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.lower_text")]
pub struct LowerText {}

/// The index of a label in `label_classes`. Source: t5 `postprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.postprocessors.string_label_to_class_id")]
pub struct StringLabelToClassId {
    /// The labels in the order of their ids.
    pub label_classes: Vec<String>,
    /// The id of any other text.
    #[gin(default = -1)]
    pub default: i64,
}

impl Postprocessor {
    /// The postprocessed text; class ids in decimal.
    pub fn apply(&self, text: &str) -> String {
        match self {
            Self::LowerText(_) => text.to_lowercase(),
            Self::StringLabelToClassId(spec) => {
                let index = spec.label_classes.iter().position(|label| label == text);
                index.map_or(spec.default, |index| index as i64).to_string()
            }
        }
    }
}
