//! Regular expressions in RE2's syntax, for patterns that t5 makes from data.
//!
//! t5 puts words of the data into patterns without escaping, so their punctuation acts as
//! operators. Syntax that RE2 and this engine interpret differently is rewritten; syntax that RE2
//! rejects is rejected.

use fancy_regex::Regex;

/// Compiles a pattern as RE2 interprets it, or returns an error for a pattern that RE2 rejects.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let refused =
        |reason: &str| format!("the regular expression {pattern:?} is malformed: {reason}");
    let translated = translate(pattern).map_err(|reason| refused(&reason))?;
    Regex::new(&translated).map_err(|error| refused(&error.to_string()))
}

/// `tf.strings.regex_replace` of the first match. A rewrite that is not valid ends at its first
/// mistake, as in RE2.
pub(super) fn replace_first(regex: &Regex, text: &str, rewrite: &str) -> Result<String, String> {
    let found = regex.captures(text).map_err(|error| error.to_string())?;
    let Some(found) = found else { return Ok(text.to_string()) };
    let whole = found.get(0).expect("a match has a whole");
    if last_group(rewrite) >= found.len() {
        return Ok(text.to_string());
    }
    let mut out = text[..whole.start()].to_string();
    expand(rewrite, |group| found.get(group).map(|group| group.as_str()), &mut out);
    out.push_str(&text[whole.end()..]);
    Ok(out)
}

/// Replaces every `literal` by a rewrite that may refer only to the whole match.
pub(super) fn replace_literal(text: &str, literal: &str, rewrite: &str) -> String {
    if last_group(rewrite) > 0 {
        return text.to_string();
    }
    let mut value = String::new();
    expand(rewrite, |group| (group == 0).then_some(literal), &mut value);
    text.replace(literal, &value)
}

/// The highest group that a rewrite names. RE2 replaces nothing if the pattern has no such group.
fn last_group(rewrite: &str) -> usize {
    let mut last = 0;
    let mut bytes = rewrite.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'\\'
            && let Some(digit) = bytes.next().filter(u8::is_ascii_digit)
        {
            last = last.max(usize::from(digit - b'0'));
        }
    }
    last
}

/// Appends a rewrite: `\0` to `\9` are groups and `\\` is a backslash; any other escape ends the
/// rewrite.
fn expand<'a>(rewrite: &str, group: impl Fn(usize) -> Option<&'a str>, out: &mut String) {
    let mut chars = rewrite.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('\\') => out.push('\\'),
            Some(digit @ '0'..='9') => {
                out.push_str(group(digit as usize - '0' as usize).unwrap_or(""));
            }
            _ => return,
        }
    }
}

/// Translates a pattern to the syntax of the engine.
fn translate(pattern: &str) -> Result<String, String> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len());
    let (mut i, mut in_class, mut after_repetition) = (0, false, false);
    while i < chars.len() {
        let c = chars[i];
        let rest = &chars[i + 1..];
        let mut repetition = false;
        match c {
            '\\' => {
                let escaped = rest.first().ok_or("it ends in a backslash")?;
                out.push_str(&escape(*escaped, in_class)?);
                i += 1;
            }
            '[' if in_class && rest.first() != Some(&':') => out.push_str("\\["),
            '&' | '~' if in_class => out.extend(['\\', c]),
            ']' if in_class => {
                in_class = false;
                out.push(c);
            }
            _ if in_class => out.push(c),
            '[' => {
                in_class = true;
                out.push(c);
                i += open_class(rest, &mut out);
            }
            '{' if !is_repetition(rest) => out.push_str("\\{"),
            '*' | '+' | '?' if after_repetition => {
                return Err(format!("a repetition is repeated by `{c}`"));
            }
            '*' | '+' | '?' => {
                repetition = true;
                out.push(c);
                if rest.first() == Some(&'?') {
                    out.push('?');
                    i += 1;
                }
            }
            '(' if looks_around(rest) => return Err("it looks ahead or behind".to_string()),
            _ => out.push(c),
        }
        after_repetition = repetition;
        i += 1;
    }
    Ok(out)
}

/// Copies the characters that may follow `[` unescaped, `^` and a first `]`, and returns their
/// number.
fn open_class(rest: &[char], out: &mut String) -> usize {
    let mut taken = 0;
    if rest.first() == Some(&'^') {
        out.push('^');
        taken += 1;
    }
    if rest.get(taken) == Some(&']') {
        out.push_str("\\]");
        taken += 1;
    }
    taken
}

/// Whether `{` begins `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|c| *c == '}') else { return false };
    let body: String = rest[..end].iter().collect();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match body.split_once(',') {
        Some((low, high)) => digits(low) && (high.is_empty() || digits(high)),
        None => digits(&body),
    }
}

fn looks_around(rest: &[char]) -> bool {
    rest.first() == Some(&'?')
        && !matches!(rest.get(1), Some(':' | 'P' | 'i' | 'm' | 's' | 'U' | '-'))
}

/// The meaning of `\c`; classes contain only ASCII.
fn escape(c: char, in_class: bool) -> Result<String, String> {
    let (negated, class) = match c {
        's' => (false, r"\t\n\f\r "),
        'S' => (true, r"\t\n\f\r "),
        'd' => (false, "0-9"),
        'D' => (true, "0-9"),
        'w' => (false, "0-9A-Za-z_"),
        'W' => (true, "0-9A-Za-z_"),
        'b' => return Ok(r"(?-u:\b)".to_string()),
        'n' | 't' | 'r' | 'f' | 'v' | 'A' | 'z' => return Ok(format!("\\{c}")),
        c if c.is_ascii_alphanumeric() => return Err(format!("`\\{c}` means nothing")),
        c if c.is_ascii_punctuation() => return Ok(format!("\\{c}")),
        c => return Ok(c.to_string()),
    };
    Ok(match (in_class, negated) {
        (true, false) => class.to_string(),
        (true, true) => format!("[^{class}]"),
        (false, false) => format!("[{class}]"),
        (false, true) => format!("[^{class}]"),
    })
}
