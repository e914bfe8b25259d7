//! The body of a request for completions, with OpenAI's defaults.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::interactive::{DecodingOptions, GivenPrompt};
use crate::serve::ask::{kind, object};

use super::fault::Fault;

/// The fields of OpenAI's that only change how it handles a request.
const WITHOUT_EFFECT: [&str; 1] = ["user"];

/// The most of some numbers: samples of a prompt, and tokens that are named in place of each.
const MAX_SAMPLES: u64 = 64;
const MAX_LOGPROBS: u64 = 5;
/// The most texts that end an answer; OpenAI takes 4.
const MAX_STOPS: usize = 64;

/// OpenAI's default of `max_tokens`.
const DEFAULT_MAX_TOKENS: u64 = 16;

/// A request for completions.
#[derive(Debug, PartialEq)]
pub struct Completions {
    /// The prompts.
    pub prompts: Vec<GivenPrompt>,
    /// The options of decoding, with those of `max_tokens` that are at least 1.
    pub options: DecodingOptions,
    /// Greatest number of tokens of an answer; with 0 nothing is decoded.
    pub max_tokens: usize,
    /// Number of answers to each prompt.
    pub n: usize,
    /// Number of samples of each prompt, of which the `n` best are the answers.
    pub best_of: usize,
    /// The texts that end an answer.
    pub stop: Arc<[String]>,
    /// Whether answers are sent as they grow.
    pub stream: bool,
    /// Whether the last event of a stream counts the tokens.
    pub include_usage: bool,
    /// Number of tokens that are named in place of each; `None` without log-probabilities.
    pub logprobs: Option<usize>,
    /// Whether answers begin with their prompts.
    pub echo: bool,
}

impl Completions {
    /// Reads a body for the model of that name.
    ///
    /// # Errors
    /// A field is missing, is not as expected, is not supported, or asks for another model.
    pub fn parse(body: &[u8], served: &str) -> Result<Self, Fault> {
        let mut fields = Fields(object(body)?);
        fields.model(served)?;
        let prompts = fields.prompts()?;
        let max_tokens = fields.count("max_tokens", 0, u64::MAX)?.unwrap_or(DEFAULT_MAX_TOKENS);
        let n = fields.count("n", 1, MAX_SAMPLES)?.unwrap_or(1);
        let best_of = fields.count("best_of", n, MAX_SAMPLES)?.unwrap_or(n);
        let stream = fields.flag("stream")?;
        if stream && best_of > n {
            let message =
                format!("`best_of` is {best_of} and `n` {n}, expected as many with `stream`");
            return Err(Fault::field("best_of", message));
        }
        let asked = Self {
            prompts,
            options: fields.options(max_tokens)?,
            max_tokens: max_tokens as usize,
            n: n as usize,
            best_of: best_of as usize,
            stop: fields.stop()?,
            stream,
            include_usage: fields.include_usage(stream)?,
            logprobs: fields.count("logprobs", 0, MAX_LOGPROBS)?.map(|count| count as usize),
            echo: fields.flag("echo")?,
        };
        fields.end()?;
        Ok(asked)
    }

    /// Whether the request is for scores of its prompts, as those of evaluation harnesses are.
    pub fn scores_given(&self) -> bool {
        self.echo && self.logprobs.is_some()
    }
}

/// The fields of a body that are not read yet.
struct Fields(Map<String, Value>);

impl Fields {
    /// Takes a field, of which null means that it is not given.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn model(&mut self, served: &str) -> Result<(), Fault> {
        match self.take("model") {
            Some(Value::String(name)) if name == served => Ok(()),
            Some(Value::String(name)) => Err(Fault::other_model(&name, served)),
            None => {
                Err(Fault::field("model", format!("`model` is missing, expected \"{served}\"")))
            }
            Some(other) => Err(unexpected("model", &other, &format!("\"{served}\""))),
        }
    }

    fn prompts(&mut self) -> Result<Vec<GivenPrompt>, Fault> {
        const EXPECTED: &str =
            "a text, a list of texts, a list of token ids, or a list of such lists";
        let wrong = |value: &Value| unexpected("prompt", value, EXPECTED);
        let missing = |found: &str| {
            Fault::field("prompt", format!("`prompt` is {found}, expected {EXPECTED}"))
        };
        let ids = |list: &[Value]| -> Result<GivenPrompt, Fault> {
            let id = |value: &Value| value.as_i64().ok_or_else(|| wrong(value));
            match list.is_empty() {
                true => Err(missing("empty")),
                false => Ok(GivenPrompt::Ids(list.iter().map(id).collect::<Result<_, _>>()?)),
            }
        };
        match self.take("prompt") {
            None => Err(missing("missing")),
            Some(Value::String(text)) => Ok(vec![GivenPrompt::Text(text)]),
            Some(Value::Array(list)) => match list.first() {
                None => Err(missing("empty")),
                Some(Value::Number(_)) => Ok(vec![ids(&list)?]),
                Some(_) => {
                    let prompt = |value: &Value| match value {
                        Value::String(text) => Ok(GivenPrompt::Text(text.clone())),
                        Value::Array(list) => ids(list),
                        other => Err(wrong(other)),
                    };
                    list.iter().map(prompt).collect()
                }
            },
            Some(other) => Err(wrong(&other)),
        }
    }

    /// Takes the options of decoding. OpenAI draws from all tokens unless something else is said, and `top_p` 0 leaves only
    /// the most probable one.
    fn options(&mut self, max_tokens: u64) -> Result<DecodingOptions, Fault> {
        let temperature = self.number("temperature", 2.0)?;
        let top_p = self.number("top_p", 1.0)?;
        let seed = match self.take("seed") {
            None => None,
            Some(value) => match value.as_i64() {
                Some(seed) => Some(seed),
                None => return Err(unexpected("seed", &value, "a whole number of 64 bits")),
            },
        };
        Ok(DecodingOptions {
            num_decodes: Some(1),
            temperature: Some(if top_p == 0.0 { 0.0 } else { temperature }),
            topp: Some(top_p).filter(|top_p| *top_p > 0.0 && *top_p < 1.0),
            max_tokens: Some(max_tokens.max(1) as usize),
            seed,
            ..DecodingOptions::default()
        })
    }

    fn stop(&mut self) -> Result<Arc<[String]>, Fault> {
        const EXPECTED: &str = "a text or a list of texts, none of them empty";
        let text = |value: Value| match value {
            Value::String(text) if !text.is_empty() => Ok(text),
            Value::String(_) => {
                Err(Fault::field("stop", format!("`stop` is empty, expected {EXPECTED}")))
            }
            other => Err(unexpected("stop", &other, EXPECTED)),
        };
        match self.take("stop") {
            None => Ok(Arc::default()),
            Some(Value::Array(list)) if list.len() > MAX_STOPS => Err(Fault::field(
                "stop",
                format!("`stop` has {} texts, expected at most {MAX_STOPS}", list.len()),
            )),
            Some(Value::Array(list)) => list.into_iter().map(text).collect(),
            Some(one) => Ok([text(one)?].into()),
        }
    }

    fn include_usage(&mut self, stream: bool) -> Result<bool, Fault> {
        match self.take("stream_options") {
            None => Ok(false),
            Some(Value::Object(options)) if stream => {
                let mut options = Self(options);
                let include_usage = options.flag("include_usage")?;
                options.end()?;
                Ok(include_usage)
            }
            Some(Value::Object(_)) => {
                let message = "`stream_options` is given, expected it with `stream` only";
                Err(Fault::field("stream_options", message.to_string()))
            }
            Some(other) => Err(unexpected("stream_options", &other, "an object")),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool, Fault> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(unexpected(name, &other, "true or false")),
        }
    }

    /// Takes a number from 0 on, which is 1 if it is not given.
    fn number(&mut self, name: &str, most: f64) -> Result<f64, Fault> {
        let expected = format!("a number from 0 to {most}");
        match self.take(name) {
            None => Ok(1.0),
            Some(Value::Number(number)) => match number.as_f64() {
                Some(found) if (0.0..=most).contains(&found) => Ok(found),
                _ => Err(outside(name, &Value::Number(number), &expected)),
            },
            Some(other) => Err(unexpected(name, &other, &expected)),
        }
    }

    fn count(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Fault> {
        let expected = match most {
            u64::MAX => format!("a whole number from {least} on"),
            _ => format!("a whole number from {least} to {most}"),
        };
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => match number.as_u64() {
                Some(found) if (least..=most).contains(&found) => Ok(Some(found)),
                _ => Err(outside(name, &Value::Number(number), &expected)),
            },
            Some(other) => Err(unexpected(name, &other, &expected)),
        }
    }

    /// Refuses fields that are left, unless they change nothing.
    fn end(&mut self) -> Result<(), Fault> {
        WITHOUT_EFFECT.iter().for_each(|name| drop(self.take(name)));
        let neutral = [
            ("frequency_penalty", json!(0)),
            ("presence_penalty", json!(0)),
            ("logit_bias", json!({})),
            ("suffix", json!("")),
        ];
        for (name, neutral) in neutral {
            if let Some(found) = self.take(name) {
                let same = found == neutral || found.as_f64().is_some_and(|found| found == 0.0);
                if !same {
                    let message = format!(
                        "`{name}` is {found}, expected none: this server does not support it"
                    );
                    return Err(Fault::field(name, message));
                }
            }
        }
        match self.0.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => {
                let message =
                    format!("unknown field `{name}`, expected those of OpenAI's completions");
                Err(Fault::field(name, message))
            }
        }
    }
}

fn unexpected(name: &str, found: &Value, expected: &str) -> Fault {
    Fault::field(name, format!("`{name}` is {}, expected {expected}", kind(found)))
}

fn outside(name: &str, found: &Value, expected: &str) -> Fault {
    Fault::field(name, format!("`{name}` is {found}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<Completions, Fault> {
        Completions::parse(format!(r#"{{"model": "m", {fields}}}"#).as_bytes(), "m")
    }

    #[test]
    fn defaults_are_those_of_openai() {
        let asked = parse(r#""prompt": "a", "user": "u", "seed": null, "suffix": """#);
        let asked = asked.expect("well formed");
        let options = DecodingOptions {
            num_decodes: Some(1),
            temperature: Some(1.0),
            max_tokens: Some(16),
            ..DecodingOptions::default()
        };
        assert_eq!((asked.options, asked.max_tokens, asked.logprobs), (options, 16, None));
        assert_eq!((asked.n, asked.best_of, asked.stream, asked.echo), (1, 1, false, false));
    }

    #[test]
    fn prompts_have_four_forms() {
        let text = |text: &str| GivenPrompt::Text(text.to_string());
        let ids = |ids: &[i64]| GivenPrompt::Ids(ids.to_vec());
        for (prompt, expected) in [
            (r#""a""#, vec![text("a")]),
            (r#"["a", "b"]"#, vec![text("a"), text("b")]),
            ("[3, 4]", vec![ids(&[3, 4])]),
            ("[[3], [4, 5]]", vec![ids(&[3]), ids(&[4, 5])]),
        ] {
            let asked = parse(&format!(r#""prompt": {prompt}"#)).expect("well formed");
            assert_eq!(asked.prompts, expected);
        }
    }

    #[test]
    fn found_and_expected_are_told_with_the_field() {
        for (fields, param, part) in [
            (r#""prompt": []"#, "prompt", "`prompt` is empty"),
            (r#""prompt": [3, "a"]"#, "prompt", "`prompt` is a text"),
            (r#""n": 1"#, "prompt", "`prompt` is missing"),
            (r#""prompt": "a", "n": 2, "best_of": 1"#, "best_of", "a whole number from 2 to 64"),
            (
                r#""prompt": "a", "temperature": 3"#,
                "temperature",
                "`temperature` is 3, expected a number from 0 to 2",
            ),
            (r#""prompt": "a", "stop": [""]"#, "stop", "`stop` is empty"),
            (
                r#""prompt": "a", "best_of": 2, "stream": true"#,
                "best_of",
                "expected as many with `stream`",
            ),
            (r#""prompt": "a", "suffix": "b""#, "suffix", "does not support it"),
            (
                r#""prompt": "a", "presence_penalty": 0.5"#,
                "presence_penalty",
                "`presence_penalty` is 0.5",
            ),
            (r#""prompt": "a", "stream_options": {}"#, "stream_options", "with `stream` only"),
            (r#""prompt": "a", "top_k": 3"#, "top_k", "unknown field `top_k`"),
        ] {
            let error = &parse(fields).expect_err("it is refused").body()["error"];
            assert_eq!(error["param"], param, "{error}");
            assert!(error["message"].as_str().is_some_and(|said| said.contains(part)), "{error}");
        }
        let other = Completions::parse(br#"{"model": "x", "prompt": "a"}"#, "m");
        let error = &other.expect_err("it is refused").body()["error"];
        assert_eq!(error["code"], "model_not_found");
    }
}
