//! Answers to many lines: texts of similar length share a batch, and answers are written in the order of the lines.

use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::session::error::SessionError;
use crate::telemetry;

use super::decoding::Decoding;
use super::engine::{Answer, Engine};
use super::lines::{Asked, BadLine, Text};

/// Number of batches whose texts are sorted by length together.
const BATCHES: usize = 32;

/// A line that takes longer is not waited for before those that have come are answered: a program at the other end of
/// a pipe may wait for their answers.
const IDLE: Duration = Duration::from_millis(20);

/// The form of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line for each text: several answers are separated by tabs, and line breaks within one become spaces.
    Lines,
    /// The answers as they are, each followed by a line break.
    Plain,
    /// A JSON object for each text.
    Json,
}

/// The work on lines.
pub struct Progress<'a> {
    /// The model.
    pub engine: &'a Engine<'a>,
    /// Greatest number of texts of a batch.
    pub batch_size: usize,
    /// The form of answers.
    pub format: Format,
    /// A flag that requests the end.
    pub stop: &'a AtomicBool,
}

impl Progress<'_> {
    /// Returns the conversion of texts to ids, which takes every text.
    fn encode(&self) -> impl Fn(&Text, u64) -> Result<Asked, BadLine> {
        |text, _| Ok(self.engine.encoder().encode(text))
    }

    fn line_work<'a>(
        &'a self,
        encode: &'a dyn Fn(&Text, u64) -> Result<Asked, BadLine>,
    ) -> LineWork<'a> {
        LineWork { batch_size: self.batch_size, encode, stop: self.stop }
    }
}

/// The reason for which lines were not all answered.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// A signal asked for the end.
    #[error("interrupted")]
    Asked,
    /// A line is no text.
    #[error(transparent)]
    Line(#[from] BadLine),
    /// libtorch failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Answers cannot be written.
    #[error("cannot write answers: {0}")]
    Write(io::Error),
}

/// Answers each text, in order. Each batch draws its samples with a seed of its own.
///
/// # Errors
/// See [`LinesError`]; the answers to the lines before are written.
pub fn generate_lines(
    progress: &Progress<'_>,
    decoding: &Decoding,
    texts: impl Iterator<Item = Result<Text, BadLine>> + Send + 'static,
    out: &mut dyn Write,
) -> Result<u64, LinesError> {
    let seed = progress.engine.seed(decoding);
    let (mut number, mut num_tokens) = (0, 0);
    let mut watch = |_: &[Option<i32>]| match progress.stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let encode = progress.encode();
    let answered = in_windows(
        &progress.line_work(&encode),
        texts,
        out,
        |batch| {
            tch::manual_seed(seed.wrapping_add(number));
            number += 1;
            let answers = progress.engine.generate(batch, decoding, &mut watch)?;
            num_tokens +=
                answers.iter().flatten().map(|answer| answer.ids.len() as u64).sum::<u64>();
            Ok(answers)
        },
        |text, answers| shown(text, answers, progress.format),
    );
    answered.map(|()| num_tokens)
}

/// Scores the targets of each text, in order.
///
/// # Errors
/// See [`LinesError`]; the scores of the lines before are written.
pub fn score_lines(
    progress: &Progress<'_>,
    texts: impl Iterator<Item = Result<Text, BadLine>> + Send + 'static,
    out: &mut dyn Write,
) -> Result<(), LinesError> {
    score_lines_as(progress, texts, out, |text, score| match progress.format {
        Format::Json => {
            format!("{}\n", json!({"inputs": text.inputs, "targets": text.targets, "score": score}))
        }
        Format::Lines | Format::Plain => format!("{score:.6}\n"),
    })
}

/// Scores the targets of each text, in order, and writes what `shown` makes of text and score.
///
/// # Errors
/// See [`LinesError`]; the scores of the lines before are written.
pub fn score_lines_as(
    progress: &Progress<'_>,
    texts: impl Iterator<Item = Result<Text, BadLine>> + Send + 'static,
    out: &mut dyn Write,
    shown: impl Fn(&Text, &f64) -> String,
) -> Result<(), LinesError> {
    let encode = progress.encode();
    let work = progress.line_work(&encode);
    in_windows(&work, texts, out, |batch| progress.engine.score(batch), shown)
}

/// Returns the lines of a text's answers.
fn shown(text: &Text, answers: &[Answer], format: Format) -> String {
    match format {
        Format::Json => {
            let mut line = json!({"inputs": text.inputs});
            if let Some(targets) = &text.targets {
                line["targets"] = json!(targets);
            }
            line["predictions"] = json!(answers);
            format!("{line}\n")
        }
        Format::Plain => answers.iter().map(|answer| format!("{}\n", answer.text)).collect(),
        Format::Lines => {
            let answers = answers.iter().map(|answer| answer.text.replace(['\n', '\r', '\t'], " "));
            format!("{}\n", answers.collect::<Vec<_>>().join("\t"))
        }
    }
}

/// The work on lines, whatever their answers are.
pub(super) struct LineWork<'a> {
    /// Greatest number of texts of a batch.
    pub batch_size: usize,
    /// Converts a text to ids, or refuses it. Texts have numbers from 1.
    pub encode: &'a dyn Fn(&Text, u64) -> Result<Asked, BadLine>,
    /// A flag that requests the end.
    pub stop: &'a AtomicBool,
}

/// Reads texts in another thread, answers them a window at a time, and writes each window's answers.
pub(super) fn in_windows<T>(
    work: &LineWork<'_>,
    texts: impl Iterator<Item = Result<Text, BadLine>> + Send + 'static,
    out: &mut dyn Write,
    mut answer: impl FnMut(&[&Asked]) -> Result<Vec<T>, SessionError>,
    shown: impl Fn(&Text, &T) -> String,
) -> Result<(), LinesError> {
    let size = work.batch_size * BATCHES;
    let (sender, receiver) = sync_channel(size);
    thread::spawn(move || {
        texts.map(|text| sender.send(text)).take_while(Result::is_ok).for_each(drop)
    });
    let (mut number, mut num_cut) = (0, 0);
    loop {
        let Window { texts, mut end } = Window::read(&receiver, size);
        let mut asked: Vec<Asked> = Vec::with_capacity(texts.len());
        for text in &texts {
            number += 1;
            match (work.encode)(text, number) {
                Ok(ids) => asked.push(ids),
                Err(error) => {
                    end = End::Error(error);
                    break;
                }
            }
        }
        num_cut += asked.iter().filter(|asked| asked.is_cut).count();
        let mut answers: Vec<Option<T>> = asked.iter().map(|_| None).collect();
        for batch in by_length(&asked, work.batch_size) {
            let rows: Vec<&Asked> = batch.iter().map(|at| &asked[*at]).collect();
            let found = answer(&rows)?;
            if work.stop.load(Ordering::Relaxed) {
                return Err(LinesError::Asked);
            }
            batch.into_iter().zip(found).for_each(|(at, found)| answers[at] = Some(found));
        }
        let lines = texts.iter().zip(answers);
        let lines =
            lines.map(|(text, found)| shown(text, &found.expect("every batch is answered")));
        if !write(out, &lines.collect::<String>())? {
            return Ok(());
        }
        match end {
            End::More => {}
            End::Error(error) => return Err(error.into()),
            End::All => break,
        }
    }
    if num_cut > 0 {
        telemetry::warn(&format!(
            "{num_cut} of the texts are longer than the model's inputs, and were cut: a greater \
             TASK_FEATURE_LENGTHS['inputs'] reads more of them"
        ));
    }
    Ok(())
}

/// Texts that are sorted by length together.
struct Window {
    texts: Vec<Text>,
    end: End,
}

/// The end of a window.
enum End {
    /// More texts may come.
    More,
    /// A line that is no text.
    Error(BadLine),
    /// The end of all texts.
    All,
}

impl Window {
    /// Waits for a text, and takes those that follow without a pause.
    fn read(receiver: &Receiver<Result<Text, BadLine>>, size: usize) -> Self {
        let mut texts = Vec::new();
        let end = loop {
            let next = match texts.is_empty() {
                true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => receiver.recv_timeout(IDLE),
            };
            match next {
                Ok(Ok(text)) => texts.push(text),
                Ok(Err(error)) => break End::Error(error),
                Err(RecvTimeoutError::Timeout) => break End::More,
                Err(RecvTimeoutError::Disconnected) => break End::All,
            }
            if texts.len() == size {
                break End::More;
            }
        };
        Self { texts, end }
    }
}

/// Groups texts of similar length, the longest first, so that a shortage of memory shows at once.
fn by_length(asked: &[Asked], batch_size: usize) -> Vec<Vec<usize>> {
    let length = |asked: &Asked| (asked.inputs.len(), asked.targets.as_ref().map_or(0, Vec::len));
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(length(&asked[*at])));
    order.chunks(batch_size).map(<[usize]>::to_vec).collect()
}

/// Writes text; `false` if its reader has closed the stream, which is no error.
fn write(out: &mut dyn Write, text: &str) -> Result<bool, LinesError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(LinesError::Write(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_similar_length_share_a_batch() {
        let asked = |length| Asked { inputs: vec![5; length], targets: None, is_cut: false };
        let asked: Vec<Asked> = [3, 9, 1, 8, 2].map(asked).into();
        assert_eq!(by_length(&asked, 2), [vec![1, 3], vec![0, 4], vec![2]]);
    }

    #[test]
    fn a_line_holds_all_answers_to_a_text() {
        let text = Text { inputs: "q".to_string(), targets: None };
        let answer = |text: &str| Answer { text: text.to_string(), score: -0.5, ids: vec![5] };
        let answers = [answer("a\nb"), answer("c")];
        assert_eq!(shown(&text, &answers, Format::Lines), "a b\tc\n");
        assert_eq!(shown(&text, &answers, Format::Plain), "a\nb\nc\n");
        assert_eq!(
            shown(&text, &answers[1..], Format::Json),
            "{\"inputs\":\"q\",\"predictions\":[{\"text\":\"c\",\"score\":-0.5}]}\n"
        );
    }
}
