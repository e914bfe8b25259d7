//! BLEU (Papineni et al. 2002) as sacreBLEU counts it (Post 2018, arXiv:1804.08771).
//!
//! Sources: t5 `evaluation/metrics.py`; sacreBLEU `metrics/bleu.py` and `tokenizers/`, with the
//! same results: smoothing `exp`, n-grams of 1 to 4 tokens, upper and lower case distinguished.

use std::collections::HashMap;
use std::sync::LazyLock;

use fancy_regex::Regex;
use serde_json::Value;

use gimlet_gin::{
    Configurable, Diagnostic, Evaluator, FromGin, Reported, Value as GinValue, ValueKind, choose,
    one_of,
};

use super::metric::{Metric, MetricError, Pairs, Values, named, one};
use super::python_text::{is_space, words};

const MAX_ORDER: usize = 4;

/// Corpus BLEU of texts, 0 to 100: `bleu`. A target is a text, or a list of texts, each of which is
/// a reference of its example.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.bleu")]
pub struct Bleu {
    /// Tokenizer of the texts.
    #[gin(default = BleuTokenizer::Intl)]
    pub tokenizer: BleuTokenizer,
}

/// sacreBLEU's tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BleuTokenizer {
    /// mteval v13a: ASCII punctuation is separated from words.
    V13a,
    /// mteval v14, international: punctuation and symbols of any script.
    Intl,
    /// Every character is a token.
    Char,
    /// Every Chinese character is a token, and the rest is cut as with '13a'.
    Zh,
    /// Texts are tokenized already.
    None,
}

/// The supported tokenizers, in the order of their names.
const TOKENIZERS: [BleuTokenizer; 5] = [
    BleuTokenizer::V13a,
    BleuTokenizer::Intl,
    BleuTokenizer::Char,
    BleuTokenizer::Zh,
    BleuTokenizer::None,
];
const NAMES: [&str; 5] = ["13a", "intl", "char", "zh", "none"];

/// Tokenizers that are not supported, with the reason.
const REFUSED: [(&str, &str); 6] = [
    ("ja-mecab", NEEDS_MECAB),
    ("ko-mecab", NEEDS_MECAB),
    ("spm", NEEDS_MODEL),
    ("flores101", NEEDS_MODEL),
    ("flores200", NEEDS_MODEL),
    ("spBLEU-1K", NEEDS_MODEL),
];

const NEEDS_MECAB: &str =
    "sacrebleu splits with MeCab and its dictionary, which Gimlet does not have";
const NEEDS_MODEL: &str = "sacrebleu splits with a SentencePiece model that it downloads";

impl FromGin for BleuTokenizer {
    fn expected() -> String {
        one_of(&NAMES)
    }

    fn from_gin(value: &GinValue, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        if let ValueKind::Str(name) = &value.kind
            && let Some((name, reason)) = REFUSED.iter().find(|(refused, _)| refused == name)
        {
            let message = format!("the BLEU tokenizer '{name}' is not supported: {reason}");
            let known = Self::expected();
            let help = format!("name {known}, or score the predictions with sacrebleu itself");
            return Err(cx.report(Diagnostic::error(value.span, message).help(help)));
        }
        let name = choose(value, &NAMES, cx)?;
        let index = NAMES.iter().position(|known| *known == name);
        Ok(TOKENIZERS[index.expect("`choose` returns one of its options")])
    }

    fn to_gin(&self) -> Option<ValueKind> {
        let index = TOKENIZERS.iter().position(|known| known == self)?;
        NAMES[index].to_string().to_gin()
    }
}

impl Metric for Bleu {
    fn keys(&self) -> Vec<String> {
        named(&["bleu"])
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let mut counts = BleuCounts::default();
        for (target, prediction) in pairs.iter() {
            let references = match target {
                Value::Array(texts) if !texts.is_empty() => texts.as_slice(),
                _ => std::slice::from_ref(target),
            };
            let tokenized = |value| Ok(self.tokenizer.apply(pairs.text(value)?));
            let references = references.iter().map(tokenized).collect::<Result<Vec<_>, _>>()?;
            counts.add(&tokenized(prediction)?, &references);
        }
        Ok(one("bleu", counts.score()))
    }
}

impl BleuTokenizer {
    /// Returns the text with spaces between tokens; like sacreBLEU, without the white space at its
    /// end.
    fn apply(self, text: &str) -> String {
        let text = text.trim_end_matches(is_space);
        match self {
            Self::None => text.to_string(),
            Self::Char => {
                let chars: Vec<String> = text.chars().map(String::from).collect();
                chars.join(" ")
            }
            Self::Intl => replaced(text, &INTL),
            Self::Zh => {
                let mut spaced = String::with_capacity(2 * text.len());
                for c in text.trim_start_matches(is_space).chars() {
                    match is_chinese(c) {
                        true => spaced.extend([' ', c, ' ']),
                        false => spaced.push(c),
                    }
                }
                replaced(&spaced, &V13A)
            }
            Self::V13a => {
                let mut text = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
                for (entity, character) in
                    [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")]
                {
                    text = text.replace(entity, character);
                }
                replaced(&format!(" {text} "), &V13A)
            }
        }
    }
}

/// Whether sacreBLEU's `tokenizer_zh.py` considers a character Chinese. Two of its ranges should
/// lie above U+FFFF, but are written such that Python reads four digits of them: they contain
/// punctuation marks and symbols from U+2001 on.
fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{2001}'..='\u{2a6d}' | '\u{2e80}'..='\u{2fdf}' | '\u{2ff0}'..='\u{303f}'
        | '\u{3100}'..='\u{312f}' | '\u{31a0}'..='\u{31bf}' | '\u{31c0}'..='\u{31ef}'
        | '\u{3200}'..='\u{4db5}' | '\u{4e00}'..='\u{9fbb}' | '\u{f900}'..='\u{fa2d}'
        | '\u{fa30}'..='\u{fa6a}' | '\u{fa70}'..='\u{fad9}' | '\u{fe10}'..='\u{fe1f}'
        | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ffef}')
}

/// A pattern and its replacement.
type Rule = (Regex, &'static str);

fn rule((pattern, replacement): (&str, &'static str)) -> Rule {
    (Regex::new(pattern).expect("the pattern is well-formed"), replacement)
}

static INTL: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    [(r"(\P{N})(\p{P})", "$1 $2 "), (r"(\p{P})(\P{N})", " $1 $2"), (r"(\p{S})", " $1 ")]
        .map(rule)
        .into()
});

static V13A: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    [
        (r"([{-~\[-` -&(-+:-@/])", " $1 "),
        (r"([^0-9])([.,])", "$1 $2 "),
        (r"([.,])([^0-9])", " $1 $2"),
        (r"([0-9])(-)", "$1 $2 "),
    ]
    .map(rule)
    .into()
});

fn replaced(text: &str, rules: &[Rule]) -> String {
    rules.iter().fold(text.to_string(), |text, (pattern, replacement)| {
        pattern.replace_all(&text, *replacement).into_owned()
    })
}

/// Returns the n-grams of a text with the number of occurrences.
fn ngrams<'a>(tokens: &[&'a str]) -> HashMap<Vec<&'a str>, usize> {
    let mut counts = HashMap::new();
    for order in 1..=MAX_ORDER {
        for ngram in tokens.windows(order) {
            *counts.entry(ngram.to_vec()).or_default() += 1;
        }
    }
    counts
}

/// The counts for BLEU over a corpus.
#[derive(Default)]
struct BleuCounts {
    matched: [usize; MAX_ORDER],
    total: [usize; MAX_ORDER],
    length: usize,
    reference_length: usize,
}

impl BleuCounts {
    fn add(&mut self, prediction: &str, references: &[String]) {
        let tokens: Vec<&str> = words(prediction).collect();
        let references: Vec<Vec<&str>> =
            references.iter().map(|reference| words(reference).collect()).collect();
        let mut known: HashMap<Vec<&str>, usize> = HashMap::new();
        for reference in &references {
            for (ngram, count) in ngrams(reference) {
                let most = known.entry(ngram).or_default();
                *most = count.max(*most);
            }
        }
        for (ngram, count) in ngrams(&tokens) {
            let order = ngram.len() - 1;
            self.total[order] += count;
            self.matched[order] += count.min(known.get(&ngram).copied().unwrap_or(0));
        }
        // The nearest length, the shorter of two.
        let lengths = references.iter().map(Vec::len);
        let nearest = lengths.min_by_key(|length| (length.abs_diff(tokens.len()), *length));
        self.length += tokens.len();
        self.reference_length += nearest.unwrap_or(0);
    }

    fn score(&self) -> f64 {
        if self.matched.iter().all(|count| *count == 0) {
            return 0.0;
        }
        let (mut smoothing, mut sum) = (1.0, 0.0);
        for (matched, total) in self.matched.iter().zip(self.total) {
            let precision = match (matched, total) {
                // No prediction is that long.
                (_, 0) => return 0.0,
                (0, _) => {
                    smoothing *= 2.0;
                    100.0 / (smoothing * total as f64)
                }
                _ => 100.0 * *matched as f64 / total as f64,
            };
            sum += precision.ln();
        }
        let brevity = match self.length < self.reference_length {
            true => (1.0 - self.reference_length as f64 / self.length as f64).exp(),
            false => 1.0,
        };
        brevity * (sum / MAX_ORDER as f64).exp()
    }
}
