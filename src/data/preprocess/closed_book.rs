//! Questions that are answered without a text (Roberts et al. 2020, arXiv:2002.08910).

use super::text::{filter_map, flat_map, int_list_of, texts_of, value_of};
use super::{Context, Preprocess, Step, missing, text_of};
use crate::error::DataError;
use crate::example::Example;
use crate::random::Draw;
use crate::value::{Leaf, Value};
use gimlet_gin::Configurable;

/// Makes a question with a prefix the inputs, and its first answer the targets; all answers stay.
/// Replaces `natural_questions_open`, `trivia_qa_open` and `web_questions_open` of Google's
/// `t5_cbqa/preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.question_answers")]
pub struct QuestionAnswers {
    /// The prefix of the inputs.
    pub prefix: String,
    /// The feature that holds the list of right answers.
    pub answers_key: String,
    /// The feature that holds the question.
    #[gin(default = "question".to_string())]
    pub question_key: String,
    /// The feature that holds the target; the first of the answers if None.
    #[gin(default = None)]
    pub target_key: Option<String>,
}

impl Preprocess for QuestionAnswers {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        Ok(vec![Step::map(move |example| spec.apply(&example))])
    }
}

impl QuestionAnswers {
    fn apply(&self, example: &Example) -> Result<Example, String> {
        let inputs = format!("{}{}", self.prefix, text_of(example, &self.question_key)?);
        let answers = match example.get(&self.answers_key) {
            Some(Value::Texts(answers)) => answers.clone(),
            Some(Value::Text(answer)) => vec![answer.clone()],
            Some(other) => {
                let (key, found) = (&self.answers_key, other.type_name());
                return Err(format!("'{key}' is {found}, expected a list of texts"));
            }
            None => return Err(missing(example, &self.answers_key)),
        };
        let target = match &self.target_key {
            Some(key) => text_of(example, key)?.to_string(),
            None => answers
                .first()
                .cloned()
                .ok_or_else(|| format!("'{}' is empty, expected an answer", self.answers_key))?,
        };
        Ok(Example::from_iter([
            ("inputs".into(), Value::Text(inputs)),
            ("targets".into(), Value::Text(target)),
            ("answers".into(), Value::Texts(answers)),
        ]))
    }
}

/// Replaces the target by one of the 'answers', at random, and shuffles the answers. Source:
/// `t5_cbqa`'s `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5_cbqa.preprocessors.sample_answer")]
pub struct SampleAnswer {}

impl Preprocess for SampleAnswer {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(vec![filter_map(|example, place| sample_answer(&example, place.draw()).map(Some))])
    }
}

fn sample_answer(example: &Example, mut draw: Draw) -> Result<Example, String> {
    let mut answers = texts_of(example, "answers")?.to_vec();
    draw.shuffle(&mut answers);
    let target = answers.first().cloned().ok_or("'answers' is empty, expected an answer")?;
    Ok(Example::from_iter([
        ("inputs".into(), Value::Text(text_of(example, "inputs")?.to_string())),
        ("targets".into(), Value::Text(target)),
        ("answers".into(), Value::Texts(answers)),
    ]))
}

/// Natural Questions with all answers of all annotators as targets, "answer: .. answer: ..": first
/// their 'yes' and 'no', then the short answers. Questions without answers are dropped. Each
/// annotator's answers stay, for the metric. Source: `t5_cbqa`'s `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5_cbqa.preprocessors.natural_questions_nocontext")]
pub struct NaturalQuestionsNocontext {
    /// The prefix of the inputs.
    #[gin(default = "nq question: ".to_string())]
    pub prefix: String,
    /// Whether answers 'yes' and 'no' are omitted.
    #[gin(default = false)]
    pub drop_yes_no: bool,
    /// Maximum length of short answers, in tokens of the data set; longer ones are omitted.
    #[gin(default = None)]
    pub max_tokens: Option<i64>,
    /// Maximum number of answers in the targets, from the first.
    #[gin(default = None)]
    pub max_answers: Option<usize>,
}

impl Preprocess for NaturalQuestionsNocontext {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        Ok(vec![filter_map(move |example, _| spec.apply(&example))])
    }
}

/// The short answers of all annotators, one after the other.
struct ShortAnswers {
    texts: Vec<String>,
    /// The index of each annotator's first answer.
    starts: Vec<i64>,
}

impl NaturalQuestionsNocontext {
    fn apply(&self, example: &Example) -> Result<Option<Example>, String> {
        let mut yes_no = int_list_of(example, "annotations/yes_no_answer")?;
        if self.drop_yes_no {
            yes_no.fill(-1);
        }
        let ShortAnswers { texts, starts } = self.short_answers(example)?;
        let said = yes_no.iter().filter(|label| **label > -1);
        let said = said.map(|label| if *label == 1 { "yes" } else { "no" });
        let answers = said.chain(texts.iter().map(String::as_str));
        let most = self.max_answers.filter(|most| *most > 0).unwrap_or(usize::MAX);
        let targets: Vec<String> =
            answers.take(most).map(|answer| format!("answer: {answer}")).collect();
        if targets.is_empty() {
            return Ok(None);
        }
        let inputs = format!("{}{}", self.prefix, text_of(example, "question/text")?);
        Ok(Some(Example::from_iter([
            ("inputs".into(), Value::Text(inputs)),
            ("targets".into(), Value::Text(targets.join(" "))),
            ("short_answers/values".into(), Value::Texts(texts)),
            ("short_answers/row_starts".into(), Value::of_longs(starts)),
            ("yes_no_answers".into(), Value::of_longs(yes_no)),
        ])))
    }

    fn short_answers(&self, example: &Example) -> Result<ShortAnswers, String> {
        let of = |part: &str| format!("annotations/short_answers/{part}");
        let rows = value_of(example, &of("text"))?;
        let Value::Texts(all) = rows.flat().fitted(Leaf::Texts, 1) else {
            let (key, found) = (of("text"), rows.type_name());
            return Err(format!("'{key}' is {found}, expected a list of lists of texts"));
        };
        let counts = rows.row_lengths().into_iter().next().unwrap_or_default();
        let kept: Vec<bool> = match self.max_tokens.filter(|most| *most > 0) {
            None => vec![true; all.len()],
            Some(most) => {
                let starts = flat_ints(example, &of("start_token"))?;
                let ends = flat_ints(example, &of("end_token"))?;
                starts.iter().zip(ends).map(|(start, end)| end - start <= most).collect()
            }
        };
        let (mut texts, mut starts) = (Vec::new(), Vec::new());
        let mut pairs = all.iter().zip(&kept);
        for count in counts {
            starts.push(texts.len() as i64);
            let of_annotator = pairs.by_ref().take(count);
            texts.extend(of_annotator.filter(|(_, kept)| **kept).map(|(text, _)| text.clone()));
        }
        Ok(ShortAnswers { texts, starts })
    }
}

/// The whole numbers of a feature, row after row.
fn flat_ints(example: &Example, key: &str) -> Result<Vec<i64>, String> {
    int_list_of(&Example::of(key.into(), value_of(example, key)?.flat()), key)
}

/// One example for each salient span of a sentence: the sentence with a prefix and a mask in place
/// of the span, and the span as targets. Spans are given in bytes. Source: `t5_cbqa`'s
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5_cbqa.preprocessors.mask_salient_spans")]
pub struct MaskSalientSpans {
    /// The prefix of the inputs, before a colon.
    #[gin(default = "nem".to_string())]
    pub prefix: String,
    /// The text that replaces the span.
    #[gin(default = "_X_".to_string())]
    pub mask: String,
}

impl Preprocess for MaskSalientSpans {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        Ok(vec![flat_map(move |example, _| spec.apply(&example))])
    }
}

impl MaskSalientSpans {
    fn apply(&self, example: &Example) -> Result<Vec<Example>, String> {
        let text = text_of(example, "text")?;
        let starts = int_list_of(example, "spans/start")?;
        let limits = int_list_of(example, "spans/limit")?;
        let place = |at: i64| usize::try_from(at).ok().filter(|at| text.is_char_boundary(*at));
        let one = |(start, limit): (i64, i64)| match (place(start), place(limit)) {
            (Some(from), Some(to)) if from <= to => Ok(Example::from_iter([
                (
                    "inputs".into(),
                    Value::Text(format!(
                        "{}: {}{}{}",
                        self.prefix,
                        &text[..from],
                        self.mask,
                        &text[to..]
                    )),
                ),
                ("targets".into(), Value::Text(text[from..to].to_string())),
            ])),
            _ => Err(format!(
                "the span from {start} to {limit} is not within the text, which has {} bytes",
                text.len()
            )),
        };
        starts.into_iter().zip(limits).map(one).collect()
    }
}
