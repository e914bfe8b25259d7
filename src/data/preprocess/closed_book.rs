//! Questions that are answered without a text (Roberts et al. 2020, arXiv:2002.08910).

use super::{Context, Preprocess, Step, missing, text_of};
use crate::data::error::DataError;
use crate::data::example::{Example, Value};
use crate::gin::Configurable;

/// A question behind a prefix becomes the inputs, its first answer the targets; all answers stay. Stands
/// for `natural_questions_open`, `trivia_qa_open` and `web_questions_open` of Google's
/// `t5_cbqa/preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.question_answers")]
pub struct QuestionAnswers {
    /// What inputs begin with.
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
