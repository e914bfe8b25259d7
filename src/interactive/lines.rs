//! Texts as lines: plain, or JSON objects with `inputs` and perhaps `targets`.

use std::io::BufRead;

use serde::Deserialize;

/// A text to be answered, or to be scored with its targets.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Text {
    /// The text that the model reads.
    pub inputs: String,
    /// The text to score, or with which the answer begins if the model prompts with targets.
    #[serde(default)]
    pub targets: Option<String>,
}

/// A text as token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The ids that the model reads.
    pub inputs: Vec<i32>,
    /// The ids of the targets, if there are any.
    pub targets: Option<Vec<i32>>,
    /// Whether the inputs were longer than the model's greatest length, and are cut.
    pub is_cut: bool,
}

/// A line that is no text.
#[derive(Debug, thiserror::Error)]
pub enum BadLine {
    /// It is not an object with the fields.
    #[error(
        "{place}: {reason}; expected an object such as {{\"inputs\": \"...\", \"targets\": \"...\"}} in each line, as \
         in the first one"
    )]
    Json {
        /// The file and the line.
        place: String,
        /// The reason, from the parser.
        reason: String,
    },
    /// It has no targets to score.
    #[error(
        "{place}: there are no targets to score; expected {{\"inputs\": \"...\", \"targets\": \"...\"}}, or inputs, a \
         tab and targets"
    )]
    NoTargets {
        /// The file and the line.
        place: String,
    },
    /// Its text is not one that the model reads.
    #[error("{place}: {reason}")]
    Unfit {
        /// The file and the line, or the argument.
        place: String,
        /// Found, expected and a remedy.
        reason: String,
    },
    /// It cannot be read.
    #[error("{place}: {error}")]
    Read {
        /// The file and the line.
        place: String,
        /// The system's error.
        error: std::io::Error,
    },
}

/// Whether a line is a JSON object. The first line of a file decides for all of them.
fn is_json(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('{') && line.ends_with('}') && serde_json::from_str::<Text>(line).is_ok()
}

/// Reads a line. Of a plain one, a tab separates inputs and targets if targets are `wanted`.
///
/// # Errors
/// The line is none, or has no targets though they are wanted.
fn text_of(
    line: &str,
    json: bool,
    wanted: bool,
    place: &dyn Fn() -> String,
) -> Result<Text, BadLine> {
    let text = match (json, line.split_once('\t')) {
        (true, _) => serde_json::from_str(line)
            .map_err(|error| BadLine::Json { place: place(), reason: error.to_string() })?,
        (false, Some((inputs, targets))) if wanted => {
            Text { inputs: inputs.to_string(), targets: Some(targets.to_string()) }
        }
        (false, _) => Text { inputs: line.to_string(), targets: None },
    };
    if wanted && text.targets.is_none() {
        return Err(BadLine::NoTargets { place: place() });
    }
    Ok(text)
}

/// Reads the lines of a file, of which an empty last one is none. `name` is the file's in messages.
pub fn lines_of(
    reader: impl BufRead,
    name: String,
    wanted: bool,
) -> impl Iterator<Item = Result<Text, BadLine>> {
    let mut json = None;
    (1_u64..).zip(reader.lines()).map(move |(number, line)| {
        let place = || format!("{name}:{number}");
        let line = line.map_err(|error| BadLine::Read { place: place(), error })?;
        let line = line.strip_suffix('\r').unwrap_or(&line);
        let json = *json.get_or_insert_with(|| is_json(line));
        text_of(line, json, wanted, &place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, wanted: bool) -> Vec<Result<Text, String>> {
        let lines = lines_of(text.as_bytes(), "a.txt".to_string(), wanted);
        lines.map(|line| line.map_err(|error| error.to_string())).collect()
    }

    fn text(inputs: &str, targets: Option<&str>) -> Result<Text, String> {
        Ok(Text { inputs: inputs.to_string(), targets: targets.map(str::to_string) })
    }

    #[test]
    fn the_first_line_decides_whether_lines_are_json() {
        assert_eq!(
            read("a\n{\"inputs\": \"b\"}\r\n\n", false),
            [text("a", None), text("{\"inputs\": \"b\"}", None), text("", None)]
        );
        let json = "{\"inputs\": \"a\", \"id\": 1}\n{\"inputs\": \"b\", \"targets\": \"c\"}\n";
        assert_eq!(read(json, false), [text("a", None), text("b", Some("c"))]);
    }

    #[test]
    fn a_line_that_is_no_text_is_named() {
        let found = read("{\"inputs\": \"a\"}\nb\n", false);
        assert!(found[1].as_ref().is_err_and(|said| said.starts_with("a.txt:2: expected value")));
        let found = read("a\tb\nc\n", true);
        assert_eq!(found[0], text("a", Some("b")));
        assert!(
            found[1].as_ref().is_err_and(|said| said.starts_with("a.txt:2: there are no targets"))
        );
    }
}
