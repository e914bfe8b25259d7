//! Patterns of names by the rules of Python's `glob`: `*`, `?` and `[...]` stand for characters of one component, but
//! not for the leading dot of a hidden file; `**` as a component stands for any number of folders that are not
//! hidden; a slash at the end matches only folders. A `[` without a closing `]` stands for itself.

use glob::MatchOptions;

/// A pattern below a folder.
#[derive(Debug)]
pub(super) struct Pattern {
    /// Its components; empty for the folder itself.
    pub parts: Vec<Component>,
    /// Whether it matches folders only.
    pub only_folders: bool,
}

/// A component of a pattern.
#[derive(Debug)]
pub(super) enum Component {
    /// An exact name.
    Named(String),
    /// Names that match a pattern.
    Like(Like),
    /// Any number of folders.
    Below,
}

/// A pattern of names of one component.
#[derive(Debug)]
pub(super) struct Like {
    pattern: glob::Pattern,
    /// Whether hidden names can match.
    hidden: bool,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Self {
        let names = text.split('/').filter(|name| !matches!(*name, "" | "."));
        let only_folders = text.ends_with('/') || text.ends_with("/.");
        Self { parts: names.map(Component::parse).collect(), only_folders }
    }

    /// Whether the pattern contains `..`.
    pub(super) fn climbs(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Component::Named(name) if name == ".."))
    }
}

impl Component {
    fn parse(text: &str) -> Self {
        match text {
            "**" => Self::Below,
            _ if text.contains(SPECIAL) => Self::Like(Like::parse(text)),
            _ => Self::Named(text.to_string()),
        }
    }
}

impl Like {
    fn parse(text: &str) -> Self {
        let pattern = glob::Pattern::new(&in_words_of_the_crate(text));
        let pattern = pattern.expect("stars are single and brackets closed");
        Self { pattern, hidden: is_hidden(text) }
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let options = MatchOptions { require_literal_leading_dot: false, ..MatchOptions::new() };
        (self.hidden || !is_hidden(name)) && self.pattern.matches_with(name, options)
    }
}

/// The characters that make a component a pattern.
pub(super) const SPECIAL: [char; 3] = ['*', '?', '['];

/// The part of a pattern up to the last slash before its first special character.
pub(super) fn fixed_folder(pattern: &str) -> &str {
    let special = pattern.find(SPECIAL).unwrap_or(pattern.len());
    let end = pattern[..special].rfind('/').map_or(0, |slash| slash + 1);
    &pattern[..end]
}

pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// A file or folder, given by the names on the path from the folder of the pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below<'a> {
    pub names: &'a [&'a str],
    pub is_folder: bool,
}

impl Below<'_> {
    /// Whether the path matches; `parts` must not contain `..`.
    pub(super) fn matches(self, parts: &[Component]) -> bool {
        let inner = |names| Below { names, ..self };
        match (parts.split_first(), self.names.split_first()) {
            (None, first) => first.is_none(),
            (Some((Component::Below, rest)), _) => {
                // `a/**` matches `a` itself only if `a` is a folder.
                let least = usize::from(self.names.is_empty() && !self.is_folder);
                let most = self.names.iter().take_while(|name| !is_hidden(name)).count();
                (least..=most).any(|taken| inner(&self.names[taken..]).matches(rest))
            }
            (Some(_), None) => false,
            (Some((Component::Named(named), rest)), Some((name, below))) => {
                named == name && inner(below).matches(rest)
            }
            (Some((Component::Like(like), rest)), Some((name, below))) => {
                like.matches(name) && inner(below).matches(rest)
            }
        }
    }
}

/// Converts a pattern for the crate, which refuses several stars in a row and a `[` without a
/// closing `]`.
fn in_words_of_the_crate(text: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '*' => rest.len() - rest.trim_start_matches('*').len(),
            '[' => class_length(rest).unwrap_or(1),
            other => other.len_utf8(),
        };
        match (first, length) {
            ('*', _) => written.push('*'),
            ('[', 1) => written.push_str("[[]"),
            _ => written.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    written
}

/// Number of bytes of the class at the start of a text, if the class is closed; a `]` as its first
/// character belongs to the class.
fn class_length(text: &str) -> Option<usize> {
    let start = if text[1..].starts_with('!') { 2 } else { 1 };
    let first = text[start..].chars().next()?;
    let from = start + first.len_utf8();
    Some(from + text[from..].find(']')? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches_text(pattern: &str, name: &str) -> bool {
        let names: Vec<&str> = name.split('/').filter(|name| !name.is_empty()).collect();
        Below { names: &names, is_folder: name.is_empty() }.matches(&Pattern::parse(pattern).parts)
    }

    #[test]
    fn names_match_as_in_python() {
        for (pattern, name, expected) in [
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("[.]hidden", ".hidden", false),
            ("a***b", "axxb", true),
            ("a[", "a[", true),
            ("[!]", "[!]", true),
            ("[]x]", "]", true),
            ("[!]x]", "y", true),
            ("x**", "x/y", false),
            ("**/b", "a/.c/b", false),
            ("**/.c/b", "a/.c/b", true),
            ("**", "", true),
            ("*/**", "file", false),
            (".//a/./b", "a/b", true),
            ("é?", "éß", true),
        ] {
            assert_eq!(matches_text(pattern, name), expected, "{pattern} {name}");
        }
    }
}
