//! Unicode's properties of characters that BERT's tokenizer needs. Characters that newer versions
//! of Unicode have added may be classified differently than by the tables of TensorFlow Text.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// A normalization form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

/// Converts the text to a normalization form.
pub(super) fn normalize(text: &str, form: Form) -> Cow<'_, str> {
    match form {
        Form::Nfc => ComposingNormalizerBorrowed::new_nfc().normalize(text),
        Form::Nfkc => ComposingNormalizerBorrowed::new_nfkc().normalize(text),
        Form::Nfd => DecomposingNormalizerBorrowed::new_nfd().normalize(text),
        Form::Nfkd => DecomposingNormalizerBorrowed::new_nfkd().normalize(text),
    }
}

/// Returns `NFKC_Casefold` of the text, up to canonical equivalence.
pub(super) fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => out.push(c.to_ascii_lowercase()),
            false => out.push_str(&fold_char(c)),
        }
    }
    out
}

/// Folds a character. Folding may decompose further, and the decomposed characters may fold again.
fn fold_char(c: char) -> String {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let mut text = c.to_string();
    for _ in 0..3 {
        let kept = text.chars().filter(|&c| !ignorable.contains(c));
        let folded: String = kept.flat_map(fold_case).collect();
        text = normalize(&folded, Form::Nfkd).into_owned();
    }
    text
}

/// Applies full case folding. Source: Unicode `CaseFolding.txt`: the lower case of the upper case,
/// with four exceptions.
fn fold_case(c: char) -> Vec<char> {
    match c {
        'ı' => vec![c],
        'ẞ' => vec!['s', 's'],
        // Cherokee folds to capitals, which are older in Unicode than its small letters.
        '\u{13a0}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => c.to_uppercase().collect(),
        c => c.to_uppercase().flat_map(char::to_lowercase).collect(),
    }
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

/// Whether it is a control or format character.
pub(super) fn is_control(c: char) -> bool {
    c.is_ascii_control()
        || !c.is_ascii()
            && matches!(category(c), GeneralCategory::Control | GeneralCategory::Format)
}

/// Whether it is a mark without width, such as an accent.
pub(super) fn is_nonspacing_mark(c: char) -> bool {
    !c.is_ascii() && category(c) == GeneralCategory::NonspacingMark
}

/// Whether it is punctuation, or an ASCII character that is neither letter nor digit.
pub(super) fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    matches!(
        category(c),
        GeneralCategory::ConnectorPunctuation
            | GeneralCategory::DashPunctuation
            | GeneralCategory::OpenPunctuation
            | GeneralCategory::ClosePunctuation
            | GeneralCategory::InitialPunctuation
            | GeneralCategory::FinalPunctuation
            | GeneralCategory::OtherPunctuation
    )
}
