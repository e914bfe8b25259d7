//! Text functions as in TensorFlow's kernels: ASCII only, not Unicode.

/// Whether `tf.strings.strip` and `tf.strings.split` treat a character as a space.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
}

/// Whether RE2's `\s` matches a character: spaces except the vertical tab.
fn is_re2_space(c: char) -> bool {
    is_space(c) && c != '\x0b'
}

/// Whether RE2's `\w` matches a character.
fn is_re2_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// `tf.strings.strip`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `tf.strings.split` without a separator.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Replaces each run of spaces by a single space.
pub(super) fn collapse_spaces(text: &str) -> String {
    let mut out = Collapsed::with_capacity(text.len());
    text.chars().for_each(|c| out.push(c));
    out.text
}

/// Puts spaces around each ASCII punctuation mark, then collapses spaces. t5's `_pad_punctuation`.
pub(super) fn pad_punctuation(text: &str) -> String {
    pad_where(text, |c| c.is_ascii_punctuation())
}

/// Puts spaces around each character that `padded` accepts, then collapses spaces.
pub(super) fn pad_where(text: &str, padded: impl Fn(char) -> bool) -> String {
    let mut out = Collapsed::with_capacity(text.len() + text.len() / 4);
    for c in text.chars() {
        if padded(c) {
            out.push(' ');
            out.push(c);
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    out.text
}

/// Joins by spaces, then collapses spaces. t5's `_string_join`.
pub(super) fn join(parts: &[&str]) -> String {
    collapse_spaces(&parts.join(" "))
}

/// Replaces all characters that match RE2's `\W` by spaces, then splits at spaces; empty tokens
/// stay.
pub(super) fn space_tokens(text: &str) -> Vec<String> {
    let mut tokens = vec![String::new()];
    for c in text.chars() {
        match tokens.last_mut() {
            Some(token) if is_re2_word(c) => token.push(c),
            _ => tokens.push(String::new()),
        }
    }
    tokens
}

/// A text in which runs of spaces are single spaces.
struct Collapsed {
    text: String,
    after_space: bool,
}

impl Collapsed {
    fn with_capacity(capacity: usize) -> Self {
        Self { text: String::with_capacity(capacity), after_space: false }
    }

    fn push(&mut self, c: char) {
        let space = is_re2_space(c);
        if !space {
            self.text.push(c);
        } else if !self.after_space {
            self.text.push(' ');
        }
        self.after_space = space;
    }
}
