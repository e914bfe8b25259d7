//! Coreference: the noun that a pronoun refers to, in the Winograd schemas except GLUE's
//! ([`super::wnli`]).

use super::{
    Context, PairKeys, Preprocess, Step, filter, int_of, label_name, re2, text_of, texts_of,
    value_of,
};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Converts a SuperGLUE WSC example to "wsc text: ..", with the noun between asterisks and the
/// pronoun between hash signs; the targets are 'True' or 'False'. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.wsc")]
pub struct Wsc {}

impl Preprocess for Wsc {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = PairKeys::new();
        Ok(vec![Step::map(move |example| {
            let (noun, pronoun) = (Span::of(&example, 1)?, Span::of(&example, 2)?);
            let text = noun.marked(text_of(&example, "text")?, '*')?;
            // The asterisks count as words, too.
            let shift = if noun.index < pronoun.index { 2 } else { 0 };
            let pronoun = Span { index: pronoun.index + shift, ..pronoun };
            let inputs = format!("wsc text: {}", pronoun.marked(&text, '#')?);
            let mut made = keys.pair(inputs, label_name(&example, &["False", "True"])?);
            made.set("idx".into(), value_of(&example, "idx")?.clone());
            Ok(made)
        })])
    }
}

/// Some words of a text, beginning at the word of index `index`.
struct Span<'a> {
    text: &'a str,
    index: i64,
}

impl<'a> Span<'a> {
    fn of(example: &'a Example, number: usize) -> Result<Self, String> {
        let text = text_of(example, &format!("span{number}_text"))?;
        Ok(Self { text, index: int_of(example, &format!("span{number}_index"))? })
    }

    /// The text with marks around the span, if it contains the span. t5 uses the span as a pattern,
    /// and inserts it into another pattern by a rewrite, so punctuation in the span is interpreted
    /// in both.
    fn marked(&self, text: &str, mark: char) -> Result<String, String> {
        let before = format!(r"^((?:\S+\s){{{}}})(", self.index);
        let span = re2::replace_literal("W", "W", self.text);
        let regex = re2::compile(&format!("{before}{span})"))?;
        re2::replace_first(&regex, text, &format!(r"\1{mark} \2 {mark}"))
    }
}

/// Converts a sentence to "wsc: ..", with the pronoun between asterisks; the targets are the noun
/// that the pronoun refers to. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.definite_pronoun_resolution_simple")]
pub struct DefinitePronounResolutionSimple {
    /// The prefix of the inputs.
    #[gin(default = "wsc:".to_string())]
    pub label: String,
}

impl Preprocess for DefinitePronounResolutionSimple {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (keys, label) = (PairKeys::new(), self.label.clone());
        Ok(vec![Step::map(move |example| {
            let regex = re2::compile(&format!(r" ({})( |\.|,)", text_of(&example, "pronoun")?))?;
            let sentence = text_of(&example, "sentence")?;
            let marked = re2::replace_first(&regex, sentence, r" *\1*\2")?;
            let (choice, candidates) =
                (int_of(&example, "label")?, texts_of(&example, "candidates")?);
            let noun = usize::try_from(choice).ok().and_then(|choice| candidates.get(choice));
            let noun = noun.ok_or_else(|| {
                format!("the label is {choice}, and 'candidates' has {} from 0", candidates.len())
            })?;
            Ok(keys.pair(format!("{label} {marked}"), noun.clone()))
        })])
    }
}

/// Converts a SuperGLUE WSC example to "wsc: ..", with the pronoun between asterisks; the targets
/// are the noun, whether or not it is the right one. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.wsc_simple")]
pub struct WscSimple {
    /// The prefix of the inputs.
    #[gin(default = "wsc:".to_string())]
    pub label: String,
    /// Whether examples with a wrong noun are dropped; for training.
    #[gin(default = false)]
    pub correct_referent_only: bool,
}

impl Preprocess for WscSimple {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (keys, label) = (PairKeys::new(), self.label.clone());
        let mut steps = Vec::new();
        if self.correct_referent_only {
            steps.push(filter(|example| Ok(label_or_0(example) != Value::Int(0))));
        }
        steps.push(Step::map(move |example| {
            let blanked = blanked(&example)?;
            let marked = format!(" *{}* ", text_of(&example, "span2_text")?);
            let inputs = format!("{label} {}", re2::replace_literal(&blanked, " X ", &marked));
            let noun = text_of(&example, "span1_text")?.to_string();
            let mut made = keys.pair(inputs, noun);
            made.set("label".into(), label_or_0(&example));
            made.set("idx".into(), value_of(&example, "idx")?.clone());
            Ok(made)
        }));
        Ok(steps)
    }
}

/// The label; data without labels gets 0.
pub(super) fn label_or_0(example: &Example) -> Value {
    example.get("label").cloned().unwrap_or(Value::Int(0))
}

/// Two texts of the data set with a wrong `span2_index`, and their replacements.
const MISPLACED: [(&str, &str); 2] = [
    (
        "The boy continued to whip the pony , and eventually the pony threw him over. John laughed \
         out quite loud. \"Good for him,\" he said. ",
        "The boy continued to whip the pony , and eventually the pony threw him over. John laughed \
         out quite loud. \"Good for X ,\" he said.",
    ),
    (
        "When they had eventually calmed down a bit , and had gotten home, Mr. Farley put the magic \
         pebble in an iron safe . Some day they might want to use it , but really for now, what \
         more could they wish for?",
        "When they had eventually calmed down a bit , and had gotten home, Mr. Farley put the magic \
         pebble in an iron safe . Some day they might want to use X , but really for now, what \
         more could they wish for?",
    ),
];

/// The text with 'X' instead of the pronoun.
fn blanked(example: &Example) -> Result<String, String> {
    let (text, index) = (text_of(example, "text")?, int_of(example, "span2_index")?);
    let words: Vec<&str> = text.split(' ').collect();
    let place = usize::try_from(index).ok().filter(|index| (1..words.len()).contains(index));
    let place = place.ok_or_else(|| {
        let last = words.len() - 1;
        format!("'span2_index' is {index}, expected one from 1 to {last}, the text's words")
    })?;
    if let Some((_, blanked)) = MISPLACED.iter().find(|(known, _)| *known == text) {
        return Ok(blanked.to_string());
    }
    let pronoun = text_of(example, "span2_text")?;
    if words[place] != pronoun {
        let found = words[place];
        return Err(format!("word {index} is '{found}', expected 'span2_text', '{pronoun}'"));
    }
    Ok(format!("{} X {}", words[..place].join(" "), words[place + 1..].join(" ")))
}
