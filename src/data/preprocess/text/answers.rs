//! Long texts cut before they are tokenized, and all answers to a question collected.

use std::collections::HashMap;

use super::{Context, Preprocess, Step, missing, text_of};
use crate::error::DataError;
use crate::example::Example;
use crate::preprocess::BatchStep;
use crate::random::StageSeed;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Cuts a text, so that tokenizing does not spend time on tokens that are cut later.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.cut_text")]
pub struct CutText {
    /// The feature that holds the text.
    pub key: String,
    /// The number of characters to keep, from the beginning.
    pub num_characters: usize,
}

impl Preprocess for CutText {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (key, count) = (Key::from(self.key.as_str()), self.num_characters);
        Ok(vec![Step::map(move |mut example| {
            let text = text_of(&example, &key)?;
            if let Some((end, _)) = text.char_indices().nth(count) {
                let cut = text[..end].to_string();
                example.set(key.clone(), Value::Text(cut));
            }
            Ok(example)
        })])
    }
}

/// Collects the answers of all examples with the same id as a list in the first of them, and drops the others. The list of an
/// id is complete at the end of the data only, so that they stay in memory: for held-out examples, never for training, which has
/// no end. Source: tau-nlp/scrolls `baselines/src/utils/duplicates.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.collect_answers")]
pub struct CollectAnswers {
    /// The feature that identifies a question; None makes a list of each example's own answer.
    #[gin(default = None)]
    pub id_key: Option<String>,
    /// The feature that holds an answer.
    pub answer_key: String,
    /// The feature that gets the list.
    #[gin(default = "answers".to_string())]
    pub output_key: String,
}

impl Preprocess for CollectAnswers {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let spec = self.clone();
        Ok(vec![match self.id_key {
            Some(_) => Step::Batch { num_examples: usize::MAX, step: Box::new(spec) },
            None => Step::map(move |mut example| {
                let answer = text_of(&example, &spec.answer_key)?.to_string();
                example.set(Key::from(spec.output_key.as_str()), Value::Texts(vec![answer]));
                Ok(example)
            }),
        }])
    }
}

impl BatchStep for CollectAnswers {
    fn apply(
        &self,
        examples: Vec<Example>,
        _: &StageSeed,
        _: u64,
    ) -> Result<Vec<Example>, (Option<usize>, String)> {
        let id_key = self.id_key.as_deref().unwrap_or_default();
        let mut places = HashMap::new();
        let mut kept: Vec<(Example, Vec<String>)> = Vec::new();
        for (number, example) in examples.into_iter().enumerate() {
            let wrong = |message| (Some(number), message);
            let answer = text_of(&example, &self.answer_key).map_err(wrong)?.to_string();
            let id = example.get(id_key).ok_or_else(|| wrong(missing(&example, id_key)))?;
            let place = *places.entry(format!("{id:?}")).or_insert(kept.len());
            match kept.get_mut(place) {
                Some((_, answers)) => answers.push(answer),
                None => kept.push((example, vec![answer])),
            }
        }
        let output_key = Key::from(self.output_key.as_str());
        let collected = |(mut example, answers): (Example, Vec<String>)| {
            example.set(output_key.clone(), Value::Texts(answers));
            example
        };
        Ok(kept.into_iter().map(collected).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::testing::{example, preprocessors, run};

    /// Compares the examples that preprocessors make, or the message.
    fn check(gin: &str, examples: &[Json], expected: Result<&[Json], &str>) {
        let found = run(&preprocessors(gin), examples.iter().map(example).collect());
        match expected {
            Ok(expected) => {
                assert_eq!(found.unwrap(), expected.iter().map(example).collect::<Vec<_>>())
            }
            Err(message) => assert_eq!(found.unwrap_err(), message),
        }
    }

    #[test]
    fn a_text_is_cut_after_characters_and_not_after_bytes() {
        let gin = "steps.preprocessors = [@gimlet.preprocessors.cut_text()]\n\
                   gimlet.preprocessors.cut_text.key = 'x'\ngimlet.preprocessors.cut_text.num_characters = 3\n";
        let texts = |texts: [&str; 3]| texts.map(|text| json!({"x": text}));
        check(gin, &texts(["știe", "abc", ""]), Ok(&texts(["ști", "abc", ""])));
        check(gin, &[json!({"x": 3})], Err("'x' is an int, expected text"));
    }

    #[test]
    fn answers_of_an_id_are_collected_in_its_first_example() {
        let gin = "steps.preprocessors = [@gimlet.preprocessors.collect_answers()]\n\
                   gimlet.preprocessors.collect_answers.answer_key = 'a'\n";
        let by_id = format!("{gin}gimlet.preprocessors.collect_answers.id_key = 'id'\n");
        let rows = [
            json!({"id": "1", "a": "x"}),
            json!({"id": "2", "a": "y"}),
            json!({"id": "1", "a": "z"}),
        ];
        let first = json!({"id": "1", "a": "x", "answers": ["x", "z"]});
        let second = json!({"id": "2", "a": "y", "answers": ["y"]});
        check(&by_id, &rows, Ok(&[first, second]));
        let alone = json!({"id": "1", "a": "z", "answers": ["z"]});
        check(gin, &rows[2..], Ok(&[alone]));
        check(&by_id, &[json!({"a": "x"})], Err("the example lacks 'id'; it has 'a'"));
    }
}
