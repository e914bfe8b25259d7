//! The fates of the keys of the JSON files in a folder of Hugging Face's transformers. Each file has one table of
//! every key that transformers write; a key is honoured, refused unless its value changes nothing, or has no effect.
//! A key that no table lists is reported, never skipped silently.
//!
//! ```ignore
//! const KEYS: &[(&str, KeyFate)] = &[
//!     ("d_model", KeyFate::Honoured),
//!     ("num_beam_groups", KeyFate::Refused { harmless: &["1"], reason: "diverse beam search is not implemented" }),
//!     ("_name_or_path", KeyFate::NoEffect),
//! ];
//! let notice = check_keys(&file, &object, &[KEYS])?;
//! ```

use gimlet_storage::Path;
use serde_json::{Map, Value};

/// The effect of a key on the model, or on its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFate {
    /// The reader of the file uses the value, and refuses values that it cannot use.
    Honoured,
    /// A value that would change results and cannot be used is refused.
    Refused {
        /// Values that change nothing, as JSON; `null` is always one of them.
        harmless: &'static [&'static str],
        /// The reason, which follows "expected X: ".
        reason: &'static str,
    },
    /// No value changes a result.
    NoEffect,
}

/// The keys of a file, or a part of them.
pub type KeyTable = &'static [(&'static str, KeyFate)];

/// Checks every key of a file against its tables, and returns a warning about the keys that none of them lists.
///
/// # Errors
/// A value is refused: the file, the key, the value, and the reason.
pub fn check_keys(
    file: &Path,
    object: &Map<String, Value>,
    tables: &[KeyTable],
) -> Result<Option<String>, String> {
    let mut unknown = Vec::new();
    for (key, value) in object {
        let row = tables.iter().copied().flatten().find(|(name, _)| name == key);
        match row {
            None => unknown.push(key),
            Some((_, KeyFate::Honoured | KeyFate::NoEffect)) => {}
            Some((_, KeyFate::Refused { harmless, reason })) => {
                if !value.is_null() && !harmless.iter().any(|text| is_value(value, text)) {
                    let expected = harmless.first().unwrap_or(&"null");
                    return Err(format!(
                        "{file}: `{key}` is {value}, expected {expected}: {reason}"
                    ));
                }
            }
        }
    }
    Ok((!unknown.is_empty()).then(|| {
        format!(
            "{file}: {} not known; check that the model does not depend on it",
            match &unknown[..] {
                [key] => format!("the key `{key}` is"),
                keys => format!("the keys {} are", gimlet_telemetry::quoted_names(keys, 8)),
            }
        )
    }))
}

/// Whether a value equals one that is given as JSON. 1 and 1.0 are equal.
fn is_value(value: &Value, text: &str) -> bool {
    let other: Value = serde_json::from_str(text).expect("tables hold valid JSON");
    match (value.as_f64(), other.as_f64()) {
        (Some(value), Some(other)) => value == other,
        _ => *value == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: KeyTable = &[
        ("d_model", KeyFate::Honoured),
        (
            "beams",
            KeyFate::Refused { harmless: &["1", "[]"], reason: "groups are not implemented" },
        ),
        ("note", KeyFate::NoEffect),
    ];

    fn check(text: &str) -> Result<Option<String>, String> {
        let file = Path::parse("hub/config.json").expect("it is a path");
        check_keys(&file, &serde_json::from_str(text).expect("it is an object"), &[KEYS])
    }

    #[test]
    fn values_that_change_nothing_are_accepted() {
        for text in [r#"{"d_model": 3, "beams": 1.0, "note": {}}"#, r#"{"beams": []}"#] {
            assert_eq!(check(text), Ok(None));
        }
        assert_eq!(check(r#"{"beams": null}"#), Ok(None));
    }

    #[test]
    fn other_values_of_refused_keys_are_refused_with_the_reason() {
        assert_eq!(
            check(r#"{"beams": 2}"#),
            Err("hub/config.json: `beams` is 2, expected 1: groups are not implemented".to_string())
        );
    }

    #[test]
    fn unknown_keys_are_named_in_one_warning() {
        let said = |text| check(text).expect("nothing is refused").expect("a warning");
        assert!(said(r#"{"x": 1}"#).starts_with("hub/config.json: the key `x` is not known"));
        assert!(said(r#"{"x": 1, "y": 2}"#).contains("the keys `x`, `y` are not known"));
    }
}
