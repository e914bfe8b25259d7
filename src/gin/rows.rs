//! Tables in gin, which make many specs out of one block.
//!
//! A row is a dict. While a block is evaluated for a row, the row's fields are macros: `%LABELS`,
//! or `f'glue_{NAME}'` within a text. See [`super::Evaluator::with_row`].

use std::collections::BTreeMap;

use super::configurable::FromGin;
use super::diagnostic::{Diagnostic, Reported};
use super::evaluate::Evaluator;
use super::value::{Value, ValueKind};

/// A dict of macros: their names, and values that are read when they are used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(
    /// By name.
    pub BTreeMap<String, Value>,
);

/// A list of dicts of macros.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(
    /// In the order written.
    pub Vec<Fields>,
);

impl FromGin for Fields {
    fn expected() -> String {
        "a dict from the names of macros to their values".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Dict(entries) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let mut fields = BTreeMap::new();
        for (key, field) in entries {
            let name = cx.read::<String>(key)?;
            if !is_macro_name(&name) {
                let message = format!("`{name}` cannot be the name of a macro");
                let diagnostic = Diagnostic::error(key.span, message);
                return Err(cx.report(diagnostic.help("use letters, digits and `_`")));
            }
            fields.insert(name, field.clone());
        }
        Ok(Self(fields))
    }

    fn to_gin(&self) -> Option<ValueKind> {
        let text = |name: &String| Value::unplaced(ValueKind::Str(name.clone()));
        let entry = |(name, value): (&String, &Value)| (text(name), value.clone());
        Some(ValueKind::Dict(self.0.iter().map(entry).collect()))
    }

    fn declares_macros() -> bool {
        true
    }
}

impl FromGin for Rows {
    fn expected() -> String {
        format!("a list, each item {}", Fields::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        Vec::<Fields>::from_gin(value, cx).map(Self)
    }

    fn to_gin(&self) -> Option<ValueKind> {
        let row = |fields: &Fields| fields.to_gin().map(Value::unplaced);
        self.0.iter().map(row).collect::<Option<_>>().map(ValueKind::List)
    }

    fn declares_macros() -> bool {
        true
    }
}

fn is_macro_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_part)
}
