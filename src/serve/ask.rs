//! The bodies of requests.

use serde_json::{Map, Value};

use crate::interactive::{DEFAULT_TOPK, DecodingOptions, Text, check_topk};

use super::refusal::Refusal;

/// The greatest number of pieces for a mask.
const MAX_TOPK: u64 = 100;

/// A request of `/v1/generate`.
#[derive(Debug, PartialEq)]
pub struct Generate {
    /// The texts.
    pub texts: Vec<Text>,
    /// The options of decoding.
    pub options: DecodingOptions,
    /// Whether the answer is sent as it grows.
    pub stream: bool,
}

impl Generate {
    /// Reads a body.
    ///
    /// # Errors
    /// It is not what is expected.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut fields = object(body)?;
        let texts = texts(&mut fields, "inputs")?;
        let stream = match fields.remove("stream") {
            None => false,
            Some(Value::Bool(stream)) => stream,
            Some(other) => return Err(unexpected("stream", &other, "true or false")),
        };
        if stream && texts.len() != 1 {
            let count = texts.len();
            return Err(Refusal::Malformed(format!(
                "`inputs` has {count} texts, expected 1 with `stream`"
            )));
        }
        let options = serde_json::from_value(Value::Object(fields));
        let options = options.map_err(|error| Refusal::Malformed(error.to_string()))?;
        let texts = texts.into_iter().map(|inputs| Text { inputs, targets: None });
        Ok(Self { texts: texts.collect(), options, stream })
    }
}

/// Reads a body of `/v1/score`.
///
/// # Errors
/// It is not what is expected.
pub fn parse_score(body: &[u8]) -> Result<Vec<Text>, Refusal> {
    let mut fields = object(body)?;
    let (inputs, targets) = (texts(&mut fields, "inputs")?, texts(&mut fields, "targets")?);
    only(&fields, "`inputs` and `targets`")?;
    if inputs.len() != targets.len() {
        let (inputs, targets) = (inputs.len(), targets.len());
        return Err(Refusal::Malformed(format!(
            "`inputs` has {inputs} texts and `targets` {targets}, expected as many"
        )));
    }
    let texts = inputs.into_iter().zip(targets);
    Ok(texts.map(|(inputs, targets)| Text { inputs, targets: Some(targets) }).collect())
}

/// Reads a body of `/v1/fill`: the texts, and the number of pieces for each mask.
///
/// # Errors
/// It is not what is expected.
pub fn parse_fill(body: &[u8]) -> Result<(Vec<Text>, usize), Refusal> {
    let mut fields = object(body)?;
    let texts = texts(&mut fields, "inputs")?;
    let expected = format!("a whole number from 1 to {MAX_TOPK}");
    let topk = match fields.remove("topk") {
        None => DEFAULT_TOPK,
        Some(Value::Number(number)) => match number.as_u64().filter(|topk| *topk <= MAX_TOPK) {
            Some(topk) => topk as usize,
            None => {
                return Err(Refusal::Malformed(format!("`topk` is {number}, expected {expected}")));
            }
        },
        Some(other) => return Err(unexpected("topk", &other, &expected)),
    };
    check_topk("topk", topk).map_err(Refusal::Malformed)?;
    only(&fields, "`inputs` and `topk`")?;
    let texts = texts.into_iter().map(|inputs| Text { inputs, targets: None });
    Ok((texts.collect(), topk))
}

/// Refuses fields that are left.
fn only(fields: &Map<String, Value>, expected: &str) -> Result<(), Refusal> {
    match fields.keys().next() {
        None => Ok(()),
        Some(name) => {
            Err(Refusal::Malformed(format!("unknown field `{name}`, expected {expected}")))
        }
    }
}

/// Reads a body that is an object.
///
/// # Errors
/// It is not JSON, or something else.
pub fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(unexpected("the body", &other, "an object")),
        Err(error) => Err(Refusal::Malformed(format!("the body is not JSON: {error}"))),
    }
}

/// Takes one or several texts.
fn texts(fields: &mut Map<String, Value>, name: &str) -> Result<Vec<String>, Refusal> {
    const EXPECTED: &str = "a text or a list of texts";
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        other => Err(unexpected(name, &other, EXPECTED)),
    };
    match fields.remove(name) {
        None => Err(Refusal::Malformed(format!("`{name}` is missing, expected {EXPECTED}"))),
        Some(Value::Array(list)) if list.is_empty() => {
            Err(Refusal::Malformed(format!("`{name}` is empty, expected {EXPECTED}")))
        }
        Some(Value::Array(list)) => list.into_iter().map(text).collect(),
        Some(other) => Ok(vec![text(other)?]),
    }
}

fn unexpected(name: &str, found: &Value, expected: &str) -> Refusal {
    Refusal::Malformed(format!("`{name}` is {}, expected {expected}", kind(found)))
}

/// The kind of a value, for messages.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_or_several_are_read_with_their_options() {
        let ask = Generate::parse(br#"{"inputs": ["a", "b"], "topk": 3}"#).expect("well formed");
        assert_eq!(ask.texts.len(), 2);
        assert_eq!((ask.options.topk, ask.stream), (Some(3), false));
        let ask = Generate::parse(br#"{"inputs": "a", "stream": true}"#).expect("well formed");
        assert_eq!((ask.texts[0].inputs.as_str(), ask.stream), ("a", true));
    }

    #[test]
    fn found_and_expected_are_told() {
        for (body, part) in [
            ("{", "the body is not JSON: EOF"),
            ("[]", "`the body` is a list, expected an object"),
            ("{}", "`inputs` is missing"),
            (r#"{"inputs": 3}"#, "`inputs` is a number, expected a text or a list of texts"),
            (r#"{"inputs": ["a", null]}"#, "`inputs` is null"),
            (r#"{"inputs": []}"#, "`inputs` is empty"),
            (r#"{"inputs": ["a", "b"], "stream": true}"#, "expected 1 with `stream`"),
            (r#"{"inputs": "a", "tempo": 1}"#, "unknown field `tempo`"),
            (r#"{"inputs": "a", "topk": "x"}"#, "invalid type"),
        ] {
            let refusal = Generate::parse(body.as_bytes()).expect_err("it is refused");
            assert!(refusal.message().contains(part), "{refusal:?}");
        }
        let refusal =
            parse_score(br#"{"inputs": ["a", "b"], "targets": "c"}"#).expect_err("it is refused");
        assert!(refusal.message().contains("2 texts and `targets` 1"));
        for (body, part) in [
            (r#"{"inputs": "a", "topk": 0}"#, "`topk` is 0, expected at least 1"),
            (
                r#"{"inputs": "a", "topk": 101}"#,
                "`topk` is 101, expected a whole number from 1 to 100",
            ),
            (r#"{"inputs": "a", "topk": "x"}"#, "`topk` is a text"),
            (r#"{"inputs": "a", "beam": 1}"#, "unknown field `beam`, expected `inputs` and `topk`"),
        ] {
            let refusal = parse_fill(body.as_bytes()).expect_err("it is refused");
            assert!(refusal.message().contains(part), "{refusal:?}");
        }
    }
}
