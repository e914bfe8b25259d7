//! Tokens that are added to a vocabulary: they are found in the text before the vocabulary sees it, and have ids of
//! their own. Sources: tokenizers `added_vocabulary.rs`, transformers `tokenization_python.py`.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use fancy_regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A token and the conditions under which it is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct AddedToken {
    /// The text.
    pub content: String,
    /// Whether it is found only between characters that belong to no word.
    #[serde(default)]
    pub single_word: bool,
    /// Whether it takes the spaces before it.
    #[serde(default)]
    pub lstrip: bool,
    /// Whether it takes the spaces after it.
    #[serde(default)]
    pub rstrip: bool,
    /// Whether it is looked for in normalized text.
    #[serde(default)]
    pub normalized: bool,
    /// Whether decoding omits it.
    #[serde(default)]
    pub special: bool,
}

impl AddedToken {
    /// A special token with the flags that transformers give to a plain text.
    pub(super) fn special(content: &str) -> Self {
        Self { content: content.to_string(), special: true, ..Self::default() }
    }

    /// A token with the flags that transformers' `add_tokens` gives to a plain text.
    pub(super) fn plain(content: &str) -> Self {
        Self { content: content.to_string(), normalized: true, ..Self::default() }
    }

    /// Reads a text or an object.
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(content) => Some(Self::special(content)),
            Value::Object(_) => {
                let token: Self = serde_json::from_value(value.clone()).ok()?;
                Some(Self { special: true, ..token })
            }
            _ => None,
        }
    }

    /// Whether it is one of T5's sentinels, which SeqIO decodes as text.
    pub(super) fn is_sentinel(&self) -> bool {
        is_sentinel(&self.content)
    }
}

/// Whether a text is a sentinel, `<extra_id_N>`.
pub(super) fn is_sentinel(text: &str) -> bool {
    let number = text.strip_prefix("<extra_id_").and_then(|text| text.strip_suffix('>'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The tokens of a vocabulary by id.
#[derive(Debug, Default)]
pub(super) struct AddedTokens {
    by_id: HashMap<i32, AddedToken>,
    ids: HashMap<String, i32>,
}

impl AddedTokens {
    /// Adds a token, or changes its flags; a text that has no id gets the next one. `own` is the id of a text in the
    /// vocabulary itself, of `own_size` ids.
    pub(super) fn add(
        &mut self,
        token: AddedToken,
        own: impl Fn(&str) -> Option<i32>,
        own_size: i32,
    ) {
        if token.content.is_empty() {
            return;
        }
        let next = || self.by_id.keys().max().map_or(own_size, |last| own_size.max(last + 1));
        let known = self.ids.get(&token.content).copied().or_else(|| own(&token.content));
        self.insert(known.unwrap_or_else(next), token);
    }

    /// Gives a token the recorded id.
    pub(super) fn insert(&mut self, id: i32, token: AddedToken) {
        self.ids.insert(token.content.clone(), id);
        self.by_id.insert(id, token);
    }

    /// Returns the id of a token.
    pub(super) fn id(&self, content: &str) -> Option<i32> {
        self.ids.get(content).copied()
    }

    /// Returns the token of an id.
    pub(super) fn get(&self, id: i32) -> Option<&AddedToken> {
        self.by_id.get(&id)
    }

    /// All tokens, in the order of their ids.
    pub(super) fn sorted(&self) -> Vec<(i32, &AddedToken)> {
        let mut tokens: Vec<_> = self.by_id.iter().map(|(id, token)| (*id, token)).collect();
        tokens.sort_unstable_by_key(|(id, _)| *id);
        tokens
    }

    /// The greatest id.
    pub(super) fn last(&self) -> Option<i32> {
        self.by_id.keys().copied().max()
    }

    /// Number of tokens whose text `counts`.
    pub(super) fn count(&self, counts: impl Fn(&str) -> bool) -> usize {
        self.ids.keys().filter(|content| counts(content)).count()
    }

    /// Marks the tokens that decoding omits, and no others.
    pub(super) fn mark_special(&mut self, is_special: impl Fn(&str) -> bool) {
        for token in self.by_id.values_mut() {
            token.special = is_special(&token.content);
        }
    }

    /// Builds the search for the tokens that `pattern` returns a text for.
    pub(super) fn finder(&self, pattern: impl Fn(&AddedToken) -> Option<String>) -> TokenFinder {
        let mut found: Vec<(String, i32, AddedToken)> = (self.by_id.iter())
            .filter_map(|(id, token)| Some((pattern(token)?, *id, token.clone())))
            .filter(|(text, ..)| !text.is_empty())
            .collect();
        found.sort_unstable_by_key(|(_, id, _)| *id);
        let automaton = (!found.is_empty()).then(|| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(found.iter().map(|(text, ..)| text))
                .expect("a vocabulary has few added tokens")
        });
        TokenFinder {
            automaton,
            tokens: found.into_iter().map(|(_, id, token)| (id, token)).collect(),
        }
    }
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextPart<'a> {
    /// Text for the vocabulary.
    Text(&'a str),
    /// The id of an added token.
    Token(i32),
}

/// A search for tokens.
#[derive(Debug)]
pub(super) struct TokenFinder {
    automaton: Option<AhoCorasick>,
    tokens: Vec<(i32, AddedToken)>,
}

impl TokenFinder {
    /// Cuts a text as tokenizers do.
    pub(super) fn split<'a>(&self, text: &'a str, mut emit: impl FnMut(TextPart<'a>)) {
        let mut done = 0;
        for found in self.automaton.iter().flat_map(|automaton| automaton.find_iter(text)) {
            let (id, token) = &self.tokens[found.pattern().as_usize()];
            let (mut start, mut end) = (found.start(), found.end());
            let touches_word = text[..start].ends_with(is_word) || text[end..].starts_with(is_word);
            if token.single_word && touches_word {
                continue;
            }
            if token.lstrip {
                start = text[..start].trim_end().len().max(done);
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            if done < start {
                emit(TextPart::Text(&text[done..start]));
            }
            emit(TextPart::Token(*id));
            done = end;
        }
        if done < text.len() {
            emit(TextPart::Text(&text[done..]));
        }
    }

    /// Cuts a text as transformers' tokenizers in Python do, which cut first, and then try the conditions: a part is
    /// a token if its text is one in the end.
    pub(super) fn split_in_python(&self, text: &str, mut emit: impl FnMut(TextPart<'_>)) {
        let mut parts = Vec::new();
        let mut done = 0;
        for found in self.automaton.iter().flat_map(|automaton| automaton.find_iter(text)) {
            if done < found.start() {
                parts.push(text[done..found.start()].to_string());
            }
            parts.push(text[found.range()].to_string());
            done = found.end();
        }
        if done < text.len() {
            parts.push(text[done..].to_string());
        }
        for at in 0..parts.len() {
            if let Some((_, token)) = self.token(&parts[at]) {
                apply_conditions(&mut parts, at, token);
            }
        }
        for part in parts.iter().filter(|part| !part.is_empty()) {
            match self.token(part) {
                Some((id, _)) => emit(TextPart::Token(*id)),
                None => emit(TextPart::Text(part)),
            }
        }
    }

    fn token(&self, text: &str) -> Option<&(i32, AddedToken)> {
        self.tokens.iter().find(|(_, token)| token.content == text)
    }
}

fn apply_conditions(parts: &mut [String], at: usize, token: &AddedToken) {
    let left = at.checked_sub(1).map(|left| parts[left].clone()).unwrap_or_default();
    let right = parts.get(at + 1).cloned().unwrap_or_default();
    if token.rstrip && !right.is_empty() {
        parts[at + 1] = right.trim_start().to_string();
    }
    if token.lstrip && !left.is_empty() {
        parts[at - 1] = left.trim_end().to_string();
    }
    if token.single_word {
        if !left.is_empty() && !left.ends_with(' ') {
            let text = std::mem::take(&mut parts[at]);
            parts[at - 1].push_str(&text);
        } else if !right.is_empty() && !right.starts_with(' ') {
            let text = std::mem::take(&mut parts[at]);
            parts[at + 1].insert_str(0, &text);
        }
    }
}

/// Whether a character belongs to a word.
fn is_word(c: char) -> bool {
    static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w").expect("it is valid"));
    c.is_ascii_alphanumeric() || WORD.is_match(c.encode_utf8(&mut [0; 4])).unwrap_or(false)
}
