//! Text in ASCII, as in PyPI's Unidecode 1.4.0.
//!
//! The crate has the tables of Unidecode's Perl original. `unidecode.json` holds the differences of
//! Python's version, as runs of code points; `text_preprocessors.py` made it.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Context, Preprocess, Step, text_of};
use crate::error::DataError;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Makes a text the targets, and the text without diacritics, in ASCII, the inputs.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.unidecode")]
pub struct Unidecode {
    /// The feature that holds the text; the feature is dropped unless it is also an output.
    #[gin(default = "text".to_string())]
    pub text_key: String,
    /// The feature that gets the ASCII text.
    #[gin(default = "inputs".to_string())]
    pub inputs_key: String,
    /// The feature that gets the unchanged text.
    #[gin(default = "targets".to_string())]
    pub targets_key: String,
}

impl Preprocess for Unidecode {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = [&self.inputs_key, &self.targets_key].map(|key| Key::from(key.as_str()));
        let text_key = self.text_key.clone();
        Ok(vec![Step::map(move |mut example| {
            let text = text_of(&example, &text_key)?.to_string();
            let [inputs, targets] = keys.clone();
            example.take(&text_key);
            example.set(inputs, Value::Text(unidecode(&text)));
            example.set(targets, Value::Text(text));
            Ok(example)
        })])
    }
}

/// Code point to text, for code points whose text in Python's table differs from the crate's.
static CORRECTIONS: LazyLock<HashMap<char, String>> = LazyLock::new(|| {
    let runs: Vec<(u32, Vec<String>)> = serde_json::from_str(include_str!("unidecode.json"))
        .expect("unidecode.json is a list of runs");
    let run = |(first, texts): (u32, Vec<String>)| {
        let points = (first..).map(|point| char::from_u32(point).expect("no surrogate differs"));
        points.zip(texts).collect::<Vec<_>>()
    };
    runs.into_iter().flat_map(run).collect()
});

/// The text in ASCII.
pub(super) fn unidecode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.push_str(ascii_of(c));
        }
    }
    out
}

fn ascii_of(c: char) -> &'static str {
    if let Some(text) = CORRECTIONS.get(&c) {
        return text;
    }
    match unidecode::unidecode_char(c) {
        // Python drops control characters and the characters that the original marks as unknown.
        "[?]" | "[?] " => "",
        _ if ('\u{80}'..='\u{9f}').contains(&c) => "",
        text => text,
    }
}
