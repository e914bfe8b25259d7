//! GLUE's WNLI as coreference. The heuristics are those of t5's `preprocessors.py`.

use fancy_regex::Regex;

use super::coreference::label_or_0;
use super::{Context, PairKeys, Preprocess, Step, re2, text_of, value_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Converts a premise to "wsc: ..", with its ambiguous pronoun between asterisks; the targets are
/// the words that replace the pronoun in the hypothesis. For evaluation. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.wnli_simple")]
pub struct WnliSimple {
    /// The prefix of the inputs.
    #[gin(default = "wsc:".to_string())]
    pub label: String,
}

impl Preprocess for WnliSimple {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (keys, label) = (PairKeys::new(), self.label.clone());
        Ok(vec![Step::map(move |example: Example| {
            let (premise, hypothesis) =
                (text_of(&example, "sentence1")?, text_of(&example, "sentence2")?);
            let found = best_match(&clean_words(premise), &clean_words(hypothesis))?;
            let noun = noun(&found.candidate, hypothesis)?;
            let inputs = format!("{label} {}", highlighted(premise, found.index)?);
            let mut made = keys.pair(inputs, noun);
            made.set("premise".into(), Value::Text(premise.to_string()));
            made.set("hypothesis".into(), Value::Text(hypothesis.to_string()));
            made.set("label".into(), label_or_0(&example));
            made.set("idx".into(), value_of(&example, "idx")?.clone());
            Ok(made)
        })])
    }
}

const PRONOUNS: [&str; 9] = ["he", "she", "they", "it", "her", "his", "their", "them", "him"];

const MARKS: [char; 4] = ['.', ',', '!', '?'];

/// A pronoun of the premise, and the words that replace it in the hypothesis.
struct Match {
    /// Number of words around the pronoun that the hypothesis repeats.
    score: usize,
    index: usize,
    candidate: String,
}

/// The words in lower case, each without a punctuation mark at its end.
fn clean_words(text: &str) -> Vec<String> {
    let lowered = text.trim().to_lowercase();
    let words = lowered.split(' ').map(|word| {
        // A regular expression's `$` also matches before a line's end.
        let (body, end) = word.strip_suffix('\n').map_or((word, ""), |body| (body, "\n"));
        format!("{}{end}", body.strip_suffix(MARKS).unwrap_or(body))
    });
    words.filter(|word| !word.is_empty()).collect()
}

/// The first of the best matches.
fn best_match(premise: &[String], hypothesis: &[String]) -> Result<Match, String> {
    let mut best: Option<Match> = None;
    for index in (0..premise.len()).filter(|i| PRONOUNS.contains(&premise[*i].as_str())) {
        let found = pronoun_match(premise, hypothesis, index)?;
        if best.as_ref().is_none_or(|best| found.score > best.score) {
            best = Some(found);
        }
    }
    best.ok_or_else(|| {
        format!("'sentence1' has no pronoun; expected one of {}", PRONOUNS.join(", "))
    })
}

fn pronoun_match(premise: &[String], hypothesis: &[String], index: usize) -> Result<Match, String> {
    let (before, after) = (&premise[..index], &premise[index + 1..]);
    let before = &before[before.len() - num_repeated_before(before, hypothesis)..];
    let after = &after[..num_repeated(after, &hypothesis.join(" "))];
    let score = before.len() + after.len();
    let candidate =
        if score > 0 { candidate(before, after, &hypothesis.join(" "))? } else { String::new() };
    Ok(Match { score, index, candidate })
}

/// Number of the first words that the text contains as one joined string.
fn num_repeated(words: &[String], text: &str) -> usize {
    let missing = (0..words.len()).find(|i| !text.contains(&words[..=*i].join(" ")));
    missing.unwrap_or(words.len())
}

/// Number of the last words that the hypothesis contains.
fn num_repeated_before(words: &[String], hypothesis: &[String]) -> usize {
    let reversed = |words: &[String]| words.iter().rev().cloned().collect::<Vec<_>>();
    num_repeated(&reversed(words), &reversed(hypothesis).join(" "))
}

/// The text between the words, or beside the words on one side.
fn candidate(before: &[String], after: &[String], hypothesis: &str) -> Result<String, String> {
    let joined = |parts: &[&[String]]| parts.concat().join(" ");
    let one = |text: &str| vec![text.to_string()];
    let patterns = [
        joined(&[before, &one("(.+)"), after]),
        joined(&[&one("^(.+)"), after]),
        joined(&[before, &one("(.+)$")]),
    ];
    for pattern in patterns {
        let found = re2::compile(&pattern)?;
        let found = found.captures(hypothesis).map_err(|error| error.to_string())?;
        if let Some(found) = found.and_then(|found| found.get(1)) {
            return Ok(found.as_str().to_string());
        }
    }
    Ok(String::new())
}

/// The candidate as spelled in the hypothesis, without a possessive.
fn noun(candidate: &str, hypothesis: &str) -> Result<String, String> {
    let candidate = from_last_article(candidate);
    let words: Vec<String> = candidate
        .split(' ')
        .map(|word| format!(r"{}(?:\.|,|\?|!)?", fancy_regex::escape(word)))
        .collect();
    let regex = Regex::new(&format!("(?i)({})", words.join(" "))).map_err(|e| e.to_string())?;
    let found = regex.captures(hypothesis).map_err(|error| error.to_string())?;
    let found = found.and_then(|found| found.get(1)).ok_or_else(|| {
        format!("the hypothesis lacks the candidate '{candidate}': \"{hypothesis}\"")
    })?;
    let found = found.as_str();
    let found = found.strip_suffix(MARKS).unwrap_or(found);
    let found = found.strip_suffix('\'').or_else(|| found.strip_suffix("'s")).unwrap_or(found);
    Ok(found.to_string())
}

/// The candidate without the words before its last article. For each article, t5 considers only its
/// first occurrence.
fn from_last_article(candidate: &str) -> String {
    let words: Vec<&str> = candidate.split(' ').collect();
    let first = |article: &str| words.iter().position(|word| *word == article);
    let last = ["a", "an", "the"].into_iter().filter_map(first).max().unwrap_or(0);
    words[last..].join(" ")
}

/// The sentence with one word between asterisks, and a space before a punctuation mark at its end.
fn highlighted(sentence: &str, index: usize) -> Result<String, String> {
    let mut words: Vec<String> = sentence.split(' ').map(str::to_string).collect();
    let count = words.len();
    let word = words.get_mut(index).filter(|word| !word.is_empty());
    let word = word.ok_or_else(|| format!("'sentence1' has no word {index}, of {count}"))?;
    *word = match word.strip_suffix(MARKS) {
        Some(body) => format!("*{body}* {}", &word[body.len()..]),
        None => format!("*{word}*"),
    };
    Ok(words.join(" "))
}
