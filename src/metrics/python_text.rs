//! Python's definitions of space, words and digits, on which the formulas of t5 depend.

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

/// Greatest number of digits of a number that Python reads.
const MOST_DIGITS: usize = 4300;

/// Python's `str.isspace`, which includes the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Splits the text at runs of white space, as `str.split()` does.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Whether it is a letter, digit or underscore: `\w` of `re`.
pub(super) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    let category = category(c);
    GeneralCategoryGroup::Letter.contains(category)
        || GeneralCategoryGroup::Number.contains(category)
}

/// Replaces decimal digits of any script by ASCII digits, as `int` and `float` do.
pub fn with_ascii_digits(text: &str) -> String {
    text.chars().map(|c| digit(c).map_or(c, |digit| char::from(b'0' + digit))).collect()
}

/// Removes underscores between two digits; `None` if one is elsewhere.
pub fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |index: Option<usize>| {
        index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit)
    };
    let between_digits =
        |(at, _): (usize, &str)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    text.match_indices('_').all(between_digits).then(|| text.replace('_', ""))
}

/// Returns `int(word)` of a word without sign and space; larger numbers become the largest one.
pub(super) fn whole_number(word: &str) -> Option<usize> {
    let digits = without_underscores(&with_ascii_digits(word))?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && digits.len() <= MOST_DIGITS).then(|| digits.parse().unwrap_or(usize::MAX))
}

/// Returns the value of a decimal digit. Digits lie in runs from 0 to 9, several of which may be
/// adjacent.
fn digit(c: char) -> Option<u8> {
    let is_digit = |code: u32| {
        char::from_u32(code).is_some_and(|c| category(c) == GeneralCategory::DecimalNumber)
    };
    if c.is_ascii() || !is_digit(c.into()) {
        return c.to_digit(10).map(|digit| digit as u8);
    }
    let before = (1..).take_while(|back| is_digit(u32::from(c) - back)).count();
    Some((before % 10) as u8)
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}
