//! Questions, their contexts and answers.

use super::strings::{join, pad_punctuation, space_tokens};
use super::{
    Context, PairKeys, Preprocess, Step, flat_map, missing, re2, text_of, texts_of, value_of,
};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// One example for each answer of a TriviaQA question and each context that contains it. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.trivia_qa")]
pub struct TriviaQa {}

impl Preprocess for TriviaQa {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = PairKeys::new();
        Ok(vec![flat_map(move |example, _| {
            let question = pad_punctuation(text_of(&example, "question")?);
            let answers: Vec<Answer> =
                texts_of(&example, "answer/normalized_aliases")?.iter().map(Answer::new).collect();
            let mut out = Vec::new();
            for context in contexts(&example)? {
                let context = pad_punctuation(context);
                let lowered = context.to_ascii_lowercase();
                for answer in &answers {
                    if answer.is_in(&lowered)? {
                        let inputs = join(&["question:", &question, "context:", &context]);
                        out.push(keys.pair(inputs, answer.text.clone()));
                    }
                }
            }
            Ok(out)
        })])
    }
}

/// The texts that are searched for TriviaQA's answers.
fn contexts(example: &Example) -> Result<impl Iterator<Item = &str>, String> {
    let of = |key: &str| example.get(key).map(|_| texts_of(example, key)).transpose();
    let pages = of("entity_pages/wiki_context")?;
    let results = of("search_results/search_context")?;
    if pages.is_none() && results.is_none() {
        return Err(missing(example, "entity_pages/wiki_context"));
    }
    let all = pages.unwrap_or_default().iter().chain(results.unwrap_or_default());
    Ok(all.map(String::as_str))
}

/// An answer, which is searched in lower case. Its punctuation is interpreted as in a pattern.
struct Answer {
    text: String,
    lowered: String,
}

impl Answer {
    fn new(text: impl AsRef<str>) -> Self {
        let text = pad_punctuation(text.as_ref());
        Self { lowered: text.to_ascii_lowercase(), text }
    }

    fn is_in(&self, context: &str) -> Result<bool, String> {
        if !self.lowered.contains(|c: char| r".*+?()[]{}|^$\".contains(c)) {
            return Ok(context.contains(&self.lowered));
        }
        // Anchored after translation: `a|b` divides the whole pattern, as in t5.
        let regex = re2::compile(&format!(r"\A(?:.*{}.*)\z", self.lowered))?;
        regex.is_match(context).map_err(|error| error.to_string())
    }
}

/// Converts a SQuAD question to "question: .. context: ..", with the first answer as targets.
/// Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.squad")]
pub struct Squad {
    /// Whether inputs have the context besides the question.
    #[gin(default = true)]
    pub include_context: bool,
}

impl Preprocess for Squad {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let include_context = self.include_context;
        Ok(vec![Step::map(move |example| squad(&example, include_context))])
    }
}

fn squad(example: &Example, include_context: bool) -> Result<Example, String> {
    squad_with(example, include_context, pad_punctuation)
}

/// Does the same with a given function for padding punctuation.
pub(super) fn squad_with(
    example: &Example,
    include_context: bool,
    pad_punctuation: impl Fn(&str) -> String,
) -> Result<Example, String> {
    let padded = |key| text_of(example, key).map(&pad_punctuation);
    let (question, context) = (padded("question")?, padded("context")?);
    let answers: Vec<String> =
        texts_of(example, "answers/text")?.iter().map(|answer| pad_punctuation(answer)).collect();
    let first = answers.first().ok_or("'answers/text' is empty, expected an answer")?.clone();
    let inputs = if include_context {
        join(&["question:", &question, "context:", &context])
    } else {
        join(&["squad trivia question:", &question])
    };
    let features = [
        ("inputs", Value::Text(inputs)),
        ("targets", Value::Text(first)),
        ("id", value_of(example, "id")?.clone()),
        ("context", Value::Text(context)),
        ("question", Value::Text(question)),
        ("answers", Value::Texts(answers)),
    ];
    Ok(features.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// As `squad`, but the targets are the position of the answer's words, "start: 3 end: 5"; without
/// such a position the example is dropped. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.squad_span_space_tokenized")]
pub struct SquadSpanSpaceTokenized {}

impl Preprocess for SquadSpanSpaceTokenized {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(vec![super::filter_map(|example, _| {
            let mut example = squad(&example, true)?;
            let span = span(text_of(&example, "context")?, text_of(&example, "targets")?);
            Ok(span.map(|span| {
                example.set("targets".into(), Value::Text(span));
                example
            }))
        })])
    }
}

/// The position at which the words of `answer` first occur in `context`. Like t5, the search
/// excludes the very end.
fn span(context: &str, answer: &str) -> Option<String> {
    let (context, answer) = (space_tokens(context), space_tokens(answer));
    let last = context.len().checked_sub(answer.len())?;
    let start = (0..last).find(|start| context[*start..*start + answer.len()] == answer)?;
    Some(format!("start: {start} end: {}", start + answer.len() - 1))
}
