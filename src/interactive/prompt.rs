//! A conversation on a terminal: a text a line, with the history of earlier ones, and the answer as it grows.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::session::error::SessionError;
use crate::telemetry;

use super::decoding::Decoding;
use super::engine::Engine;
use super::lines::Text;
use super::stream::TextStream;

const PROMPT: &str = "> ";

/// The file of texts that were typed before; none without a home folder.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("gimlet/history"))
}

/// Answers one line after another, until Ctrl-D or a signal. Answers that are final as they come are shown as they
/// grow.
///
/// # Errors
/// The terminal cannot be read, or libtorch fails.
pub fn converse(
    engine: &Engine<'_>,
    decoding: &Decoding,
    stop: &AtomicBool,
) -> Result<(), SessionError> {
    let seed = engine.seed(decoding);
    let unreadable =
        |error: ReadlineError| SessionError::Unfit(format!("cannot read the terminal: {error}"));
    let mut editor = DefaultEditor::new().map_err(unreadable)?;
    let history = history_file();
    if let Some(file) = &history {
        // There is none at the first time.
        let _ = editor.load_history(file);
    }
    telemetry::notice("a text a line; Ctrl-D ends");
    if !decoding.streams() {
        telemetry::notice(
            "answers come whole, since a search decides at its end: --temperature=0 shows them as they grow",
        );
    }
    for number in 0.. {
        let line = match editor.readline(PROMPT) {
            Ok(line) if line.trim().is_empty() => continue,
            Ok(line) => line,
            // Ctrl-C discards the line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unreadable(error)),
        };
        let _ = editor.add_history_entry(&line);
        tch::manual_seed(seed.wrapping_add(number));
        answer(engine, decoding, line, stop)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if let Some(file) = &history {
        let folder = file.parent().expect("the file lies in a folder");
        let saved = std::fs::create_dir_all(folder).map_err(ReadlineError::from);
        if let Err(error) = saved.and_then(|()| editor.save_history(file)) {
            telemetry::warn(&format!("the history is not kept: {}: {error}", file.display()));
        }
    }
    Ok(())
}

/// Prints the answers to one text.
fn answer(
    engine: &Engine<'_>,
    decoding: &Decoding,
    line: String,
    stop: &AtomicBool,
) -> Result<(), SessionError> {
    let asked = engine.encoder().encode(&Text { inputs: line, targets: None });
    if asked.is_cut {
        telemetry::warn("the text is longer than the model's inputs, and was cut");
    }
    let (mut stream, streams) = (TextStream::default(), decoding.streams());
    let mut watch = |tokens: &[Option<i32>]| {
        if let (true, [Some(token)]) = (streams, tokens) {
            say(&stream.push(*token, engine.vocabulary()));
        }
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let answers = engine.generate(&[&asked], decoding, &mut watch)?;
    for answer in answers.iter().flatten() {
        let rest = if streams { stream.finish(&answer.text) } else { answer.text.clone() };
        say(&format!("{rest}\n"));
    }
    Ok(())
}

/// Prints at once. A closed terminal ends the conversation at its next line.
fn say(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
