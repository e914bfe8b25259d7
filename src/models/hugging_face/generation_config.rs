//! `generation_config.json` of a folder of transformers as gin: a decoding with the same parameters. A folder without
//! that file has them in its `config.json`, as version 4 wrote them.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::checkpoint::{GENERATION_KEYS, check_keys, generation_fields};
use crate::models::decoding::{DecodeError, Generate};
use crate::storage::Path;

/// The honoured keys that are parameters of `decoding.generate`, with the form of their values.
const PARAMETERS: &[(&str, Form)] = &[
    ("num_beams", Form::Count),
    ("do_sample", Form::Truth),
    ("num_return_sequences", Form::Count),
    ("eos_token_id", Form::Ids),
    ("length_penalty", Form::Number),
    ("early_stopping", Form::Stopping),
    ("temperature", Form::Number),
    ("top_k", Form::Count),
    ("top_p", Form::Number),
    ("min_p", Form::Number),
    ("top_h", Form::Number),
    ("typical_p", Form::Number),
    ("epsilon_cutoff", Form::Number),
    ("eta_cutoff", Form::Number),
    ("repetition_penalty", Form::Number),
    ("encoder_repetition_penalty", Form::Number),
    ("no_repeat_ngram_size", Form::Count),
    ("encoder_no_repeat_ngram_size", Form::Count),
    ("sequence_bias", Form::Biases),
    ("bad_words_ids", Form::IdLists),
    ("forced_bos_token_id", Form::Id),
    ("forced_eos_token_id", Form::Ids),
    ("remove_invalid_values", Form::Truth),
    ("exponential_decay_length_penalty", Form::Decay),
    ("suppress_tokens", Form::Ids),
    ("begin_suppress_tokens", Form::Ids),
    ("renormalize_logits", Form::Truth),
];

/// The form of a value in JSON.
#[derive(Clone, Copy, Debug)]
enum Form {
    Truth,
    Count,
    Number,
    Id,
    Ids,
    IdLists,
    Biases,
    Decay,
    Stopping,
}

/// A decoding as gin.
#[derive(Debug, PartialEq)]
pub struct GenerationGin {
    /// Statements that bind the decoding of `models.EncoderDecoderModel`.
    pub text: String,
    /// Greatest number of tokens of an answer, if the file says it.
    pub max_new_tokens: Option<usize>,
}

/// Reads the parameters of generation beside a `config.json`, whose decoder begins with `bos_id`.
///
/// # Errors
/// The file cannot be read, a value is not of its form, or a parameter that changes answers is not implemented.
pub fn generation_gin(
    config_file: &Path,
    config: &Map<String, Value>,
    bos_id: i32,
) -> Result<GenerationGin, String> {
    let (file, fields) = generation_fields(config_file, config)?;
    // Keys that are not known are told when the weights are opened.
    check_keys(&file, &fields, &[GENERATION_KEYS])?;
    GenerationGin::of(&fields, config, bos_id).map_err(|reason| format!("{file}: {reason}"))
}

impl GenerationGin {
    fn of(
        fields: &Map<String, Value>,
        config: &Map<String, Value>,
        bos_id: i32,
    ) -> Result<Self, String> {
        let mut text = "models.EncoderDecoderModel.decode_fn = @decoding.generate\n".to_string();
        let mut bind = |name: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "decoding.generate.{name} = {value}").expect("a text grows");
        };
        let set = |key: &str| fields.get(key).filter(|value| !value.is_null());
        let ids = config.get("vocab_size").and_then(Value::as_u64).unwrap_or(u64::MAX);
        // The model itself has one end; several are those of its decoding.
        let is_several = |ids: &&Value| ids.as_array().is_some_and(|ids| ids.len() > 1);
        let ends = config.get("eos_token_id").filter(is_several);
        for (key, form) in PARAMETERS {
            if let Some(value) = set(key).or(ends.filter(|_| *key == "eos_token_id")) {
                let value = form
                    .gin(value, ids)
                    .map_err(|expected| format!("`{key}` is {value}, expected {expected}"))?;
                bind(key, &value);
            }
        }
        check_together(fields)?;
        // Their lengths count the token that starts decoding.
        let length = |tokens: &str, length: &str| {
            let count = |key: &str| {
                let count = |value: &Value| {
                    value
                        .as_u64()
                        .ok_or_else(|| format!("`{key}` is {value}, expected a number of tokens"))
                };
                set(key).map(count).transpose()
            };
            let from_length = count(length)?.map(|length| length.saturating_sub(1));
            Ok::<_, String>(count(tokens)?.or(from_length))
        };
        if let Some(count) = length("min_new_tokens", "min_length")?.filter(|count| *count > 0) {
            bind("min_new_tokens", &count);
        }
        let max_new_tokens = length("max_new_tokens", "max_length")?.map(|count| count as usize);
        if max_new_tokens == Some(0) {
            return Err(
                "`max_length` leaves no token for an answer, expected at least 2".to_string()
            );
        }
        if set("num_return_sequences").and_then(Value::as_u64).is_some_and(|count| count > 1) {
            text.push_str(
                "models.EncoderDecoderModel.predict_batch_with_aux.return_all_decodes = True\n",
            );
        }
        check_start(set("decoder_start_token_id"), bos_id)?;
        Ok(Self { text, max_new_tokens })
    }
}

/// Checks the values that `decoding.generate` checks when it decodes, before the weights are read.
fn check_together(fields: &Map<String, Value>) -> Result<(), String> {
    let number = |key: &str| fields.get(key).and_then(Value::as_f64);
    let count = |key: &str| fields.get(key)?.as_u64().map(|count| count as usize);
    let default = Generate::default();
    let spec = Generate {
        num_beams: count("num_beams").unwrap_or(default.num_beams),
        do_sample: fields.get("do_sample") == Some(&Value::Bool(true)),
        num_return_sequences: count("num_return_sequences").unwrap_or(default.num_return_sequences),
        temperature: number("temperature").unwrap_or(default.temperature),
        top_p: number("top_p").unwrap_or(default.top_p),
        min_p: number("min_p"),
        top_h: number("top_h"),
        typical_p: number("typical_p").unwrap_or(default.typical_p),
        repetition_penalty: number("repetition_penalty").unwrap_or(default.repetition_penalty),
        encoder_repetition_penalty: number("encoder_repetition_penalty")
            .unwrap_or(default.encoder_repetition_penalty),
        ..default
    };
    match spec.check() {
        Err(DecodeError::UnfitGenerate { param, found, expected }) => {
            Err(format!("`{param}` is {found}, expected {expected}"))
        }
        _ => Ok(()),
    }
}

/// Checks that answers begin as the targets of training and of scores do.
fn check_start(start: Option<&Value>, bos_id: i32) -> Result<(), String> {
    match start {
        Some(start) if start.as_i64() != Some(i64::from(bos_id)) => Err(format!(
            "`decoder_start_token_id` is {start}, expected {bos_id}, that of config.json, with which scores begin too"
        )),
        _ => Ok(()),
    }
}

impl Form {
    /// Returns the value as gin, for a model with so many ids; what is expected if it is not of this form.
    fn gin(self, value: &Value, ids: u64) -> Result<String, String> {
        let is_id = |value: &Value| value.as_u64().is_some_and(|id| id < ids);
        let are_ids = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(is_id));
        let is_number = Value::is_number;
        let pair = |value: &Value, first: &dyn Fn(&Value) -> bool| match value
            .as_array()
            .map(Vec::as_slice)
        {
            Some([one, other]) => first(one) && is_number(other),
            _ => false,
        };
        let is_word =
            |value: &Value| are_ids(value) && value.as_array().is_some_and(|list| !list.is_empty());
        let lists = |value: &Value, item: &dyn Fn(&Value) -> bool| {
            value.as_array().is_some_and(|list| list.iter().all(item))
        };
        let (is_fit, expected) = match self {
            Self::Truth => (value.is_boolean(), "true or false".to_string()),
            Self::Count => (value.is_u64(), "a number of 0 or more".to_string()),
            Self::Number => (is_number(value), "a number".to_string()),
            Self::Id => (is_id(value), format!("an id below {ids}")),
            Self::Ids => {
                (is_id(value) || are_ids(value), format!("an id below {ids} or a list of such ids"))
            }
            Self::IdLists => {
                (lists(value, &is_word), format!("a list of lists of ids below {ids}"))
            }
            Self::Biases => (
                lists(value, &|bias| pair(bias, &is_word)),
                format!("a list of pairs of a list of ids below {ids} and a number"),
            ),
            Self::Decay => {
                (pair(value, &Value::is_u64), "a number of tokens and a factor".to_string())
            }
            Self::Stopping => {
                (value.is_boolean() || value == "never", r#"true, false or "never""#.to_string())
            }
        };
        match (is_fit, self, value) {
            (false, ..) => Err(expected),
            (_, _, Value::Bool(true)) => Ok("True".to_string()),
            (_, _, Value::Bool(false)) => Ok("False".to_string()),
            (_, Self::Ids, Value::Number(id)) => Ok(format!("[{id}]")),
            _ => Ok(value.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::GENERATION_FILE;
    use crate::checkpoint::KeyFate::Honoured;

    fn generation(text: &str) -> Result<GenerationGin, String> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = Path::try_from(dir.path()).expect("the path is text").join("config.json");
        config
            .folder()
            .join(GENERATION_FILE)
            .write_atomic(text.as_bytes())
            .expect("it can be written");
        let fields = serde_json::json!({"vocab_size": 384, "num_beams": 7});
        let said = generation_gin(&config, fields.as_object().expect("it is an object"), 0);
        said.map_err(|error| error.replace(&format!("{}/", config.folder()), ""))
    }

    fn statements(text: &str) -> String {
        generation(text).expect("it is accepted").text.replace("decoding.generate.", "")
    }

    #[test]
    fn each_honoured_key_is_read_in_one_place() {
        let elsewhere = [
            "max_length",
            "max_new_tokens",
            "min_length",
            "min_new_tokens",
            "decoder_start_token_id",
        ];
        for (key, fate) in GENERATION_KEYS {
            let is_read = elsewhere.contains(key) || PARAMETERS.iter().any(|(name, _)| name == key);
            assert_eq!(*fate == Honoured, is_read, "{key}");
        }
        assert_eq!(
            GENERATION_KEYS.iter().filter(|(_, fate)| *fate == Honoured).count(),
            PARAMETERS.len() + 5
        );
    }

    #[test]
    fn values_become_gin() {
        let first = "models.EncoderDecoderModel.decode_fn = @decoding.generate\n";
        let text = r#"{"num_beams": 4, "early_stopping": true, "eos_token_id": 2, "sequence_bias": [[[5, 6], -1.5]],
            "min_length": 5, "max_length": 20, "top_k": null}"#;
        let expected = "num_beams = 4\neos_token_id = [2]\nearly_stopping = True\n\
                        sequence_bias = [[[5,6],-1.5]]\nmin_new_tokens = 4\n";
        assert_eq!(statements(text), format!("{first}{expected}"));
        assert_eq!(generation(text).expect("it is accepted").max_new_tokens, Some(19));
        let both =
            r#"{"max_length": 20, "max_new_tokens": 7, "min_length": 9, "min_new_tokens": 0}"#;
        assert_eq!(generation(both).expect("it is accepted").max_new_tokens, Some(7));
        assert_eq!(statements(both), first);
    }

    #[test]
    fn several_ends_of_a_config_end_answers() {
        let config = serde_json::json!({"eos_token_id": [1, 7]});
        let of = |fields: Value| {
            let fields = fields.as_object().expect("it is an object");
            let config = config.as_object().expect("it is an object");
            GenerationGin::of(fields, config, 0).expect("it is accepted").text
        };
        assert!(of(serde_json::json!({})).contains("generate.eos_token_id = [1,7]\n"));
        assert!(of(serde_json::json!({"eos_token_id": 5})).contains("eos_token_id = [5]\n"));
    }

    #[test]
    fn values_that_cannot_be_honoured_are_refused_by_name() {
        for (text, part) in [
            (
                r#"{"num_beam_groups": 2}"#,
                "generation_config.json: `num_beam_groups` is 2, expected 1: there is no search",
            ),
            (
                r#"{"stop_strings": ["x"]}"#,
                "`stop_strings` is [\"x\"], expected null: only tokens end",
            ),
            (
                r#"{"bad_words_ids": [[400]]}"#,
                "`bad_words_ids` is [[400]], expected a list of lists of ids below 384",
            ),
            (
                r#"{"decoder_start_token_id": 5}"#,
                "`decoder_start_token_id` is 5, expected 0, that of config.json",
            ),
            (
                r#"{"num_beams": 4, "do_sample": true}"#,
                "generation_config.json: `num_beams` is 4 with `do_sample`, expected 1",
            ),
            (r#"{"do_sample": true, "top_p": 2}"#, "`top_p` is 2, expected 0 to 1"),
            (r#"{"num_return_sequences": 2}"#, "`num_return_sequences` is 2, expected at most"),
            (r#"{"max_length": 1}"#, "leaves no token"),
            (r#"{"top_p": "0.9"}"#, "`top_p` is \"0.9\", expected a number"),
        ] {
            let said = generation(text).expect_err("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }
}
