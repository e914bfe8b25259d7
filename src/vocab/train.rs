//! Trains a SentencePiece model with the C++ trainer that is built with the `sentencepiece` crate.

use std::ffi::{CStr, CString, c_char};

use super::VocabError;

unsafe extern "C" {
    fn gimlet_train_sentencepiece(
        names: *const *const c_char,
        values: *const *const c_char,
        count: usize,
        message: *mut c_char,
        capacity: usize,
    ) -> bool;
}

/// Trains a model with options named as for `spm_train`, and writes `MODEL_PREFIX.model` and
/// `MODEL_PREFIX.vocab`.
///
/// # Errors
/// The trainer's message about the options or the text.
pub fn train_sentencepiece(options: &[(String, String)]) -> Result<(), VocabError> {
    let c_string = |text: &String| {
        CString::new(text.as_str())
            .map_err(|_| VocabError::Training { reason: format!("`{text:?}` holds a zero byte") })
    };
    let names = options.iter().map(|(name, _)| c_string(name)).collect::<Result<Vec<_>, _>>()?;
    let values = options.iter().map(|(_, value)| c_string(value)).collect::<Result<Vec<_>, _>>()?;
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).collect()
    };
    let (name_pointers, value_pointers) = (pointers(&names), pointers(&values));
    let mut message = vec![0; 4096];
    // SAFETY: both arrays hold `options.len()` strings that outlive the call, and `message` has the
    // stated size and gets a terminating zero.
    let is_trained = unsafe {
        gimlet_train_sentencepiece(
            name_pointers.as_ptr(),
            value_pointers.as_ptr(),
            options.len(),
            message.as_mut_ptr().cast(),
            message.len(),
        )
    };
    if is_trained {
        return Ok(());
    }
    let reason = CStr::from_bytes_until_nul(&message).map(CStr::to_string_lossy);
    let reason = reason.map_or_else(|_| "it says nothing".to_string(), |text| explained(&text));
    Err(VocabError::Training { reason })
}

/// Returns the mistake and the remedy if the trainer's message is about the size, otherwise the message.
fn explained(message: &str) -> String {
    let numbers = |text: &str| -> Vec<u64> {
        let digits = text.split(|c: char| !c.is_ascii_digit());
        digits.filter_map(|number| number.parse().ok()).collect()
    };
    let high = message.split_once("Vocabulary size too high").map(|(_, rest)| numbers(rest));
    let low = message.split_once("smaller than required_chars.").map(|(_, rest)| numbers(rest));
    match (high.as_deref(), low.as_deref()) {
        (Some([found, most, ..]), _) => format!(
            "vocab_size is {found}, expected at most {most}, the most that this text allows: lower it, or train on more text"
        ),
        (_, Some([found, least, ..])) => format!(
            "vocab_size is {found}, expected at least {least}, one for each character of this text: raise it, or lower \
             character_coverage"
        ),
        _ => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_does_not_fit_the_text_is_told_with_the_limit() {
        for (message, part) in [
            (
                "INTERNAL: src/trainer_interface.cc(662) [(piece.size()) == (n)] Vocabulary size too high (4000). \
                 Please set it to a value <= 57.",
                "vocab_size is 4000, expected at most 57",
            ),
            (
                "INTERNAL: (587) [(a) <= (b)] Vocabulary size is smaller than required_chars. 30 vs 45. Increase",
                "vocab_size is 30, expected at least 45",
            ),
            ("another mistake", "another mistake"),
        ] {
            assert!(explained(message).starts_with(part), "{}", explained(message));
        }
    }
}
