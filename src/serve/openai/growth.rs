//! One answer while it grows: its tokens, the text that can be shown, and its end.

use std::sync::Arc;

use crate::interactive::{Continued, Decoding, TextStream};
use crate::vocab::Vocabulary;

use super::stop::StopTexts;

/// The tokens of a prompt that decide about the text of those after them.
const CONTEXT: usize = 16;

/// An answer to a prompt.
#[derive(Debug)]
pub struct Growth {
    /// The tokens, with the one that ends it.
    pub ids: Vec<i32>,
    decoding: Decoding,
    before: Vec<i32>,
    text: TextStream,
    stop: StopTexts,
    /// The tokens with which the prompt begins the answer, and those of them that are to come.
    num_begun: usize,
    to_skip: usize,
}

impl Growth {
    /// An answer without tokens, which ends at these texts.
    pub fn new(
        prompt: &Continued,
        decoding: Decoding,
        stop: &Arc<[String]>,
        vocabulary: &dyn Vocabulary,
    ) -> Self {
        let (before, num_begun) = (prompt.before(), prompt.begun().len());
        let before = before[before.len().saturating_sub(CONTEXT)..].to_vec();
        Self {
            ids: Vec::new(),
            decoding,
            text: TextStream::after(&before, vocabulary),
            before,
            stop: StopTexts::at(stop),
            num_begun,
            to_skip: num_begun,
        }
    }

    /// Adds the next token of the decoding, and returns the text that can be shown.
    pub fn push(&mut self, id: i32, vocabulary: &dyn Vocabulary) -> String {
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return String::new();
        }
        self.ids.push(id);
        match self.is_end(id) {
            true => String::new(),
            false => self.stop.push(&self.text.push(id, vocabulary)),
        }
    }

    /// Takes all tokens of the decoding, and returns the rest of the text.
    pub fn finish(&mut self, decoded: &[i32], vocabulary: &dyn Vocabulary) -> String {
        self.ids = decoded.iter().skip(self.num_begun).copied().collect();
        let all = [&self.before[..], &self.ids].concat();
        let whole = self.decoding.prediction.text_of(&all, vocabulary);
        let rest = self.stop.push(&self.text.finish(&whole));
        rest + &self.stop.finish()
    }

    /// Whether one of the texts to end at was found.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_found
    }

    /// OpenAI's reason of the end: that the answer is complete, or as long as it may be.
    pub fn finish_reason(&self) -> &'static str {
        let ends = self.ids.last().is_some_and(|id| self.is_end(*id));
        if ends || self.is_stopped() { "stop" } else { "length" }
    }

    fn is_end(&self, id: i32) -> bool {
        self.decoding.prediction.ends().contains(&i64::from(id))
    }
}
