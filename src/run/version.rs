//! `gimlet --version`: prints the commit and the libtorch of the build, without loading it.

use std::env;
use std::fs;

use memchr::memmem;

/// The text before the facts of a `gimlet-torch` in its file (`torch::BUILD`), which a zero byte
/// ends.
const MARK: &[u8] = b"\0gimlet-torch is built for ";

/// The lines of `--version`.
pub fn text() -> String {
    format!("gimlet {}\n{}\n", version(), torch_build())
}

/// `0.1.0 (1234abcd 2026-11-23)`: the version, and the commit it was built from.
pub fn version() -> String {
    format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("GIMLET_COMMIT"))
}

/// Returns the libtorch for which the `gimlet-torch` beside this program is built.
fn torch_build() -> String {
    let program = env::current_exe().map(|own| own.with_file_name("gimlet-torch"));
    match program.and_then(fs::read) {
        Ok(bytes) => facts(&bytes).unwrap_or_else(|| "libtorch of unknown version".to_string()),
        Err(_) => "without libtorch".to_string(),
    }
}

/// Returns the facts about its build in a program's file.
pub(super) fn facts(program: &[u8]) -> Option<String> {
    let after = memmem::find_iter(program, MARK).map(|start| &program[start + MARK.len()..]);
    // Behind the searched constant itself there may be any other text of the program.
    let is_version = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
    let mut found = after.filter(|rest| rest.strip_prefix(b"libtorch ").is_some_and(is_version));
    let text = found.next()?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_in_the_middle_of_a_program() {
        let mut program = b"ELF\0".to_vec();
        // The searched constant is in the program, too.
        program.extend_from_slice(MARK);
        program.extend_from_slice(b"libtorch of any other text\0");
        program.extend_from_slice(MARK);
        program.extend_from_slice(b"libtorch 2.11.0, CUDA 13.0\0more");
        assert_eq!(facts(&program).as_deref(), Some("libtorch 2.11.0, CUDA 13.0"));
        assert_eq!(facts(b"ELF"), None);
    }
}
