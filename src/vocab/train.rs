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
    let reason = reason.map_or_else(|_| "it says nothing".to_string(), |text| text.into_owned());
    Err(VocabError::Training { reason })
}
