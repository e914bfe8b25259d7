//! Words as Python's `str.split()` finds them.

/// The text between runs of white space, to which Python counts the four ASCII separators too.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_space = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
    text.split(is_space).filter(|word| !word.is_empty())
}
