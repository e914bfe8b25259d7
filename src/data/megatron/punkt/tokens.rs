//! The words around a mark, and the decision which of them end a sentence.

use fancy_regex::{Regex, RegexBuilder};

use super::parameters::{Parameters, SMALL};

/// Hyphens and dots that are one token.
const RUNS: &str = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)";
/// Characters that cannot stand within a word.
const NO_WORD: &str = r#"(?:[)";}\]*:@'({\[?!])"#;
/// The type of all numbers.
const NUMBER: &str = "##number##";

/// A pattern whose steps back are in proportion to the text, and so not limited.
pub(super) fn regex(pattern: &str) -> Regex {
    let built = RegexBuilder::new(pattern).backtrack_limit(usize::MAX).build();
    built.expect("the pattern is valid")
}

/// A token and what is known of it.
#[derive(Debug)]
pub(super) struct Token<'a> {
    text: &'a str,
    /// Its small letters, and one text for all numbers.
    kind: String,
    is_abbreviation: bool,
    is_ellipsis: bool,
    pub ends_sentence: bool,
}

/// Cuts text into tokens.
#[derive(Debug)]
pub(super) struct WordCutter {
    word: Regex,
    number: Regex,
}

impl WordCutter {
    pub(super) fn new() -> Self {
        let word = format!(
            r#"{RUNS}|(?=[^("`{{\[:;&#*@)}}\]\-,])\S+?(?=\s|$|{NO_WORD}|{RUNS}|,(?=$|\s|{NO_WORD}|{RUNS}))|\S"#
        );
        Self { word: regex(&word), number: regex(r"^-?[.,]?\d[\d,.-]*\.?$") }
    }

    /// The tokens of a text, line by line.
    pub(super) fn tokens<'a>(&self, text: &'a str) -> Result<Vec<Token<'a>>, fancy_regex::Error> {
        let words = text.split('\n').flat_map(|line| self.word.find_iter(line));
        words.map(|word| self.token(word?.as_str())).collect()
    }

    fn token<'a>(&self, text: &'a str) -> Result<Token<'a>, fancy_regex::Error> {
        let kind = match self.number.is_match(text)? {
            true => NUMBER.to_string(),
            false => text.to_lowercase(),
        };
        let is_ellipsis = text.len() > 1 && text.bytes().all(|byte| byte == b'.');
        Ok(Token { text, kind, is_abbreviation: false, is_ellipsis, ends_sentence: false })
    }
}

impl Token<'_> {
    fn ends_in_period(&self) -> bool {
        self.text.ends_with('.')
    }

    fn kind_without_period(&self) -> &str {
        match self.kind.strip_suffix('.') {
            Some(kind) if !kind.is_empty() => kind,
            _ => &self.kind,
        }
    }

    /// The type, without the period if that ends a sentence.
    fn kind_in_sentence(&self) -> &str {
        if self.ends_sentence { self.kind_without_period() } else { &self.kind }
    }

    fn begins_with_capital(&self) -> bool {
        self.text.starts_with(char::is_uppercase)
    }

    /// Whether it is a letter and a period.
    fn is_initial(&self) -> bool {
        let letter = self.text.strip_suffix('.').and_then(|rest| {
            let mut chars = rest.chars();
            chars.next().filter(|_| chars.next().is_none())
        });
        letter.is_some_and(char::is_alphabetic)
    }

    /// Decides by the form of the token alone.
    fn decide_by_form(&mut self, parameters: &Parameters) {
        if ["?", "!", "."].contains(&self.text) {
            self.ends_sentence = true;
        } else if !self.is_ellipsis && self.ends_in_period() && !self.text.ends_with("..") {
            let word = self.text[..self.text.len() - 1].to_lowercase();
            self.is_abbreviation = parameters.is_abbreviation(&word);
            self.ends_sentence = !self.is_abbreviation;
        }
    }

    /// Corrects the decision by the token after it.
    fn decide_by_next(&mut self, next: &Token<'_>, parameters: &Parameters) {
        if !self.ends_in_period() {
            return;
        }
        let (kind, next_kind) = (self.kind_without_period(), next.kind_in_sentence());
        let is_initial = self.is_initial();
        if parameters.go_together(kind, next_kind) {
            return self.continue_sentence();
        }
        let begins = next.begins_sentence(parameters);
        if (self.is_abbreviation || self.is_ellipsis) && !is_initial {
            let starts = next.begins_with_capital() && parameters.starts_sentences(next_kind);
            if begins == Some(true) || starts {
                self.ends_sentence = true;
                return;
            }
        }
        if is_initial || kind == NUMBER {
            let is_name = is_initial
                && begins.is_none()
                && next.begins_with_capital()
                && parameters.seen(next_kind) & SMALL == 0;
            if begins == Some(false) || is_name {
                self.continue_sentence();
            }
        }
    }

    fn continue_sentence(&mut self) {
        self.ends_sentence = false;
        self.is_abbreviation = true;
    }

    /// Whether the capital or small letter of the token shows that it begins a sentence, or does not; `None` if it shows
    /// neither.
    fn begins_sentence(&self, parameters: &Parameters) -> Option<bool> {
        if [";", ":", ",", ".", "!", "?"].contains(&self.text) {
            return Some(false);
        }
        parameters.begins_sentence(self.kind_in_sentence(), self.text)
    }
}

/// Decides which tokens end a sentence.
pub(super) fn annotate<'a>(mut tokens: Vec<Token<'a>>, parameters: &Parameters) -> Vec<Token<'a>> {
    tokens.iter_mut().for_each(|token| token.decide_by_form(parameters));
    for index in 1..tokens.len() {
        let (before, after) = tokens.split_at_mut(index);
        if let Some(token) = before.last_mut() {
            token.decide_by_next(&after[0], parameters);
        }
    }
    tokens
}
