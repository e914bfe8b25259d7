//! Rust files as text, with comments and literals blanked out so that rules see code only.

use std::fs;
use std::path::{Path, PathBuf};

/// One Rust file of the package.
pub struct Source {
    /// Path within the package, with `/`.
    pub path: String,
    /// The text as written.
    pub text: String,
    /// The text with comments, strings and characters blanked; same lines and offsets.
    pub code: String,
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("sources are readable UTF-8");
        let inner = path.strip_prefix(root).expect("found below the root");
        let code = blank_literals(&text);
        Source { path: inner.to_str().expect("names are ASCII").to_string(), text, code }
    }

    /// The line, from 1, at a byte of the text.
    pub fn line_at(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// `path:line` of a byte of the text.
    pub fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.path, self.line_at(offset))
    }

    /// Returns the code with `#[cfg(test)]` modules blanked out too; a file of tests has
    /// `#![cfg(test)]`.
    pub fn code_without_tests(&self) -> String {
        let mut code = self.code.clone().into_bytes();
        if self.code.contains("#![cfg(test)]") {
            blank(&mut code);
        }
        for (start, _) in self.code.match_indices("#[cfg(test)]") {
            if let Some(end) = end_of_block(&self.code, start) {
                blank(&mut code[start..end]);
            }
        }
        String::from_utf8(code).expect("blanking keeps UTF-8")
    }
}

/// Every Rust file below these folders or files of the package.
pub fn sources(roots: &[&str]) -> Vec<Source> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for root in roots {
        collect(&package.join(root), &mut paths);
    }
    paths.sort();
    paths.iter().map(|path| Source::read(package, path)).collect()
}

fn collect(path: &Path, paths: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("folders are readable") {
            collect(&entry.expect("entries are readable").path(), paths);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        paths.push(path.to_path_buf());
    }
}

/// Returns the byte after the `}` that closes the first `{` at or after `start`; none if a `;`
/// comes first.
pub fn end_of_block(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b';' if depth == 0 => return None,
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(offset + 1),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The identifier with which a text begins.
pub fn first_word(text: &str) -> &str {
    let length = text.bytes().take_while(|byte| is_word(*byte)).count();
    &text[..length]
}

/// Whether a byte can be part of an identifier.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn blank_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            blank(&mut out[at..end]);
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("blanking keeps UTF-8")
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// Returns the end of the comment or literal that starts at `at`; `at` itself if there is none.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => at + find(rest, b"\n"),
        b'/' if rest.starts_with(b"/*") => at + block_comment_length(rest),
        b'"' => at + string_length(rest),
        b'r' if !after_word => at + raw_string_length(rest),
        b'b' | b'c' if !after_word && rest.get(1) == Some(&b'r') => {
            match raw_string_length(&rest[1..]) {
                0 => at,
                length => at + 1 + length,
            }
        }
        b'\'' => at + char_length(rest),
        _ => at,
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|window| window == needle).unwrap_or(bytes.len())
}

fn block_comment_length(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the length of `r"..."` or `r#"..."#`; 0 for other text.
fn raw_string_length(bytes: &[u8]) -> usize {
    let hashes = bytes[1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = 2 + hashes;
    body + find(&bytes[body..], &close) + close.len()
}

/// The length of a character literal; 0 for a lifetime.
fn char_length(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'\\') => 3 + find(&bytes[3..], b"'") + 1,
        Some(first) => {
            let width = match first {
                0..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            if bytes.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        None => 0,
    }
}

#[test]
fn comments_and_literals_are_blanked_and_lifetimes_are_not() {
    let text = "a /* { /* */ } */ '{' b<'a> \"\\\"{\" r#\"\"{\"# c // {\nd b'\\'' e '\\u{7d}'";
    let words: Vec<_> = blank_literals(text).split_whitespace().map(str::to_string).collect();
    assert_eq!(words, ["a", "b<'a>", "c", "d", "b", "e"]);
}
