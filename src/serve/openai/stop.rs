//! The end of an answer at the first of some texts. A part of the answer that may be the beginning of one is held back.

use std::sync::Arc;

/// The texts that end an answer, and the part of it that is held back.
#[derive(Debug, Default)]
pub struct StopTexts {
    texts: Arc<[String]>,
    held: String,
    /// Whether one of them was found.
    pub is_found: bool,
}

impl StopTexts {
    /// Ends at any of these texts, of which none is empty.
    pub fn at(texts: &Arc<[String]>) -> Self {
        Self { texts: Arc::clone(texts), ..Self::default() }
    }

    /// Adds a part of the answer, and returns the text that can be shown.
    pub fn push(&mut self, more: &str) -> String {
        if self.is_found {
            return String::new();
        }
        self.held.push_str(more);
        let found = self.texts.iter().filter_map(|text| self.held.find(text)).min();
        self.is_found = found.is_some();
        let end = found.unwrap_or_else(|| self.beginning());
        let rest = self.held.split_off(end);
        std::mem::replace(&mut self.held, rest)
    }

    /// Returns the part that is held back, after the last one was added.
    pub fn finish(&mut self) -> String {
        if self.is_found { String::new() } else { std::mem::take(&mut self.held) }
    }

    /// The first place from which the rest is the beginning of a text to end at.
    fn beginning(&self) -> usize {
        let begins = |at: &usize| self.texts.iter().any(|text| text.starts_with(&self.held[*at..]));
        let mut places = self.held.char_indices().map(|(at, _)| at);
        places.find(begins).unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::StopTexts;

    fn check(texts: &[&str], parts: &[&str], shown: &[&str], is_found: bool) {
        let mut stop = StopTexts::at(&texts.iter().map(ToString::to_string).collect());
        let mut found: Vec<String> = parts.iter().map(|part| stop.push(part)).collect();
        found.push(stop.finish());
        assert_eq!(
            (found, stop.is_found),
            (shown.iter().map(ToString::to_string).collect(), is_found)
        );
    }

    #[test]
    fn an_answer_ends_before_the_first_text_that_is_found() {
        check(&["c", "b"], &["abc", "d"], &["a", "", ""], true);
        check(&[], &["abc"], &["abc", ""], false);
    }

    #[test]
    fn a_beginning_is_held_back_until_it_is_known() {
        check(&["xyz"], &["ax", "y", "z!"], &["a", "", "", ""], true);
        check(&["xyz"], &["ax", "ya", "x"], &["a", "xya", "", "x"], false);
        check(&["€€"], &["a€", "b"], &["a", "€b", ""], false);
    }
}
