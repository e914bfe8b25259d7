//! Splits text into words. Source: TensorFlow Text `bert_tokenizer.py` (`BasicTokenizer`).

use std::borrow::Cow;

use super::unicode::{Form, fold, is_control, is_nonspacing_mark, is_punctuation, normalize};
use crate::spec::{BertWordPieceVocabulary, NormalizationForm};

/// Cuts text at spaces, around punctuation and around ideographs.
#[derive(Debug)]
pub(super) struct BasicTokenizer {
    lower_case: bool,
    form: Option<Form>,
    keep_whitespace: bool,
    preserve_unused_token: bool,
}

impl BasicTokenizer {
    /// Creates the tokenizer for a vocabulary.
    pub(super) fn new(spec: &BertWordPieceVocabulary) -> Self {
        let form = spec.normalization_form.map(|form| match form {
            NormalizationForm::Nfc => Form::Nfc,
            NormalizationForm::Nfd => Form::Nfd,
            NormalizationForm::Nfkc => Form::Nfkc,
            NormalizationForm::Nfkd => Form::Nfkd,
        });
        Self {
            lower_case: spec.lower_case,
            form,
            keep_whitespace: spec.keep_whitespace,
            preserve_unused_token: spec.preserve_unused_token,
        }
    }

    /// Passes the words of a text to `take`.
    pub(super) fn words(&self, text: &str, mut take: impl FnMut(&str)) {
        let text = self.clean(text);
        let mut word = 0;
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            let (end, is_kept) = match self.unused_token(&text[at..]) {
                Some(length) => (at + length, true),
                // Control characters have become spaces.
                None if next == ' ' => (at + spaces(&text[at..]), self.keep_whitespace),
                None if is_punctuation(next) || is_ideograph(next) => (at + next.len_utf8(), true),
                None => {
                    at += next.len_utf8();
                    continue;
                }
            };
            if word < at {
                take(&text[word..at]);
            }
            if is_kept {
                take(&text[at..end]);
            }
            (word, at) = (end, end);
        }
        if word < text.len() {
            take(&text[word..]);
        }
    }

    /// Returns the text in its case and form, with control characters as spaces.
    fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let is_plain = |byte: u8| (b' '..0x7f).contains(&byte);
        if text.bytes().all(is_plain) {
            return match self.lower_case {
                true => text.to_ascii_lowercase().into(),
                false => text.into(),
            };
        }
        let text = match (self.lower_case, self.form) {
            (true, _) => normalize(&fold(text), Form::Nfd).into_owned().into(),
            (false, Some(form)) => normalize(text, form),
            (false, None) => Cow::Borrowed(text),
        };
        let kept = text.chars().filter(|&c| !self.lower_case || !is_nonspacing_mark(c));
        kept.map(|c| if is_control(c) { ' ' } else { c }).collect::<String>().into()
    }

    /// Returns the length of an `[unused0]` at the beginning, if such words are kept.
    fn unused_token(&self, text: &str) -> Option<usize> {
        let rest = text.strip_prefix("[unused").filter(|_| self.preserve_unused_token)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_whole = digits > 0 && rest[digits..].starts_with(']');
        is_whole.then(|| "[unused".len() + digits + 1)
    }
}

fn spaces(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b' ').count()
}

/// Whether it is an ideograph of Chinese, Japanese or Korean.
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4e00..=0x9fff
        | 0x3400..=0x4dbf
        | 0x20000..=0x2a6df
        | 0x2a700..=0x2b73f
        | 0x2b740..=0x2b81f
        | 0x2b820..=0x2ceaf
        | 0xf900..=0xfaff
        | 0x2f800..=0x2fa1f)
}
