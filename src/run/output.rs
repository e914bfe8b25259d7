//! The standard output of commands, in colour for people.

use std::io::{self, ErrorKind, IsTerminal, Write};

use anyhow::anyhow;
use clap::ValueEnum;

use crate::telemetry::colors;

use super::failure::Failure;

/// Writes to standard output. A reader that closes it early, such as `head`, is no error.
pub(super) fn write(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::world(error)),
        _ => Ok(()),
    }
}

/// Refuses to write bytes on a terminal.
pub(super) fn refuse_terminal(why: &str) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => Err(Failure::usage(anyhow!(
            "standard output is a terminal, and {why}: expected a pipe, or a file as in `> FILE`"
        ))),
        false => Ok(()),
    }
}

/// Writes to standard error, of which a reader may have closed the other end: `gimlet train ... 2>&1 | head` trains on.
pub(super) fn write_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A number of things in words: `no errors`, `1 error`, `2 errors`.
pub(super) fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}

/// The choice of coloured output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless the variables NO_COLOR, CLICOLOR_FORCE or TERM say otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Colours text, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    is_on: bool,
}

/// A colour of the terminal's own sixteen, so that it fits the user's theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    /// Names and headings.
    Bold,
    /// Less important text.
    Dim,
    /// One of six, by number: neighbours have different colours.
    Cycle(usize),
}

impl Paint {
    /// Applies the user's choice.
    pub(super) fn new(choice: ColorChoice) -> Self {
        let is_on = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => colors(&io::stdout()),
        };
        Self { is_on }
    }

    /// Whether the output has colours.
    pub(super) fn is_on(self) -> bool {
        self.is_on
    }

    /// The text in a colour.
    pub(super) fn text(self, color: Color, text: &str) -> String {
        // Green, yellow, blue, magenta, cyan, red.
        const CYCLE: [u8; 6] = [32, 33, 34, 35, 36, 31];
        let code = match color {
            _ if !self.is_on => return text.to_string(),
            Color::Bold => 1,
            Color::Dim => 2,
            Color::Cycle(number) => CYCLE[number % CYCLE.len()],
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Quotes a text on one line, with escapes, cut if it is longer than `limit` characters.
pub(super) fn quoted(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => format!("{text:?}"),
        Some((end, _)) => {
            let more = text[end..].chars().count();
            format!("{:?}... and {more} more characters", &text[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(quoted("a\nä", 3), r#""a\nä""#);
        assert_eq!(quoted("ääää", 3), r#""äää"... and 1 more characters"#);
    }

    #[test]
    fn colours_are_for_those_who_see_them() {
        let [on, off] = [ColorChoice::Always, ColorChoice::Never].map(Paint::new);
        assert_eq!(on.text(Color::Cycle(7), "x"), "\u{1b}[33mx\u{1b}[0m");
        assert_eq!(off.text(Color::Bold, "x"), "x");
    }
}
