//! Regular expressions of which one must match the whole of a parameter's name.

use fancy_regex::Regex;

/// Compiled expressions.
#[derive(Clone, Debug, Default)]
pub struct NamePatterns(Vec<Regex>);

/// A text that is not a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAPattern {
    /// The text.
    pub pattern: String,
    /// The error of the compiler.
    pub reason: String,
}

impl NamePatterns {
    /// Compiles expressions.
    ///
    /// # Errors
    /// One of them is not a regular expression.
    pub fn new(patterns: &[String]) -> Result<Self, NotAPattern> {
        let compile = |pattern: &String| {
            Regex::new(&format!(r"\A(?:{pattern})\z")).map_err(|error| NotAPattern {
                pattern: pattern.clone(),
                reason: error.to_string(),
            })
        };
        patterns.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of them matches the name. A pattern that is too hard to match does not match.
    pub fn match_any(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(name).unwrap_or(false))
    }
}
