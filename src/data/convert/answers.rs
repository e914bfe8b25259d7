//! Models that rank the answers of an example.

use super::batch::BatchFeature;
use super::contract::{Convert, Field, Lengths, fields_of, take_ints};
use super::row::Row;
use super::shift::shifted;
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Converts examples with all their answers, of which some are right: 'inputs' and 'targets' are lists of one text for each answer,
/// and 'is_correct' is 1 for right ones. The length of 'is_correct' in `task_feature_lengths` is the number of answers, the same for all
/// examples. A row holds one example, its answers one after another. Source: prompt-tuning
/// `extended/perceptron/train/feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.perceptron.train.feature_converters.ValidLabelOnlyEncDecFeatureConverter"
)]
pub struct ValidLabelOnlyEncDecFeatureConverter {}

const FEATURES: [&str; 5] = [
    "encoder_input_tokens",
    "decoder_target_tokens",
    "decoder_input_tokens",
    "decoder_loss_weights",
    "is_correct",
];

const IS_CORRECT: &str = "is_correct";

const REMEDY: &str = "rank_classification with mode = 'fewshot_eval' makes such examples";

impl Convert for ValidLabelOnlyEncDecFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        let names = ["inputs", "targets", IS_CORRECT];
        let mut fields = fields_of("a model that ranks answers", &names, lengths)?;
        let count = fields[2].length;
        fields[..2].iter_mut().for_each(|field| field.length *= count);
        Ok(fields)
    }

    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        let place = example.origin().map_or_else(|| "an example".to_string(), ToString::to_string);
        let count = fields[2].length;
        let is_correct = take_ints(example, IS_CORRECT)?;
        let texts: Vec<Vec<Vec<i32>>> = fields[..2]
            .iter()
            .map(|field| take_rows(example, &field.name, &place))
            .collect::<Result<_, _>>()?;
        let counts = [texts[0].len(), texts[1].len(), is_correct.len()];
        if counts.iter().any(|found| *found != count) {
            let [inputs, targets, correct] = counts;
            return Err(DataError::Config(format!(
                "{place}: there are {inputs} 'inputs', {targets} 'targets' and {correct} 'is_correct', expected {count} of each, as \
                 TASK_FEATURE_LENGTHS['is_correct'] says: all examples of a run have equally many answers"
            )));
        }
        if let Some(number) = texts[1].iter().position(Vec::is_empty) {
            return Err(DataError::Config(format!(
                "{place}: answer {} of 'targets' has no tokens, expected one at least: seqio.Feature.add_eos gives it one",
                number + 1
            )));
        }
        if is_correct.iter().all(|truth| *truth == 0) {
            return Err(DataError::Config(format!(
                "{place}: none of the {count} answers is right, expected 1 for one of 'is_correct': correct the answers, or leave such \
                 examples out with @gimlet.preprocessors.filter()"
            )));
        }
        let joined = |(rows, field): (Vec<Vec<i32>>, &Field)| {
            let length = field.length / count;
            let padded = |mut row: Vec<i32>| {
                row.resize(length, 0);
                row
            };
            rows.into_iter().flat_map(padded).collect()
        };
        Ok(texts.into_iter().zip(fields).map(joined).chain([is_correct]).collect())
    }

    fn model_features(&self, fields: &[Field], _: bool) -> Vec<Field> {
        let [inputs, targets, count] = [0, 1, 2].map(|index| fields[index].length);
        let lengths = [inputs, targets, targets, targets, count];
        FEATURES.into_iter().zip(lengths).map(|(name, length)| Field::new(name, length)).collect()
    }

    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]) {
        let [inputs, targets, correct] = &row.features[..] else {
            unreachable!("there are three fields");
        };
        let [encoder_inputs, decoder_targets, decoder_inputs, weights, is_correct] = out else {
            unreachable!("there are five features");
        };
        encoder_inputs.push(&inputs.tokens);
        is_correct.push(&correct.tokens);
        let length = decoder_targets.length / is_correct.length;
        let targets = decoder_targets.push(&targets.tokens);
        weights.push_each(targets.iter().map(|&token| i32::from(token != 0)));
        let answers = targets.chunks(length);
        decoder_inputs.push_each(answers.flat_map(|answer| shifted(answer, None, bos_id)));
    }

    fn packs(&self) -> bool {
        false
    }

    fn joins(&self, _: &[Field]) -> bool {
        true
    }
}

/// Takes the token ids of each answer out of an example.
fn take_rows(example: &mut Example, key: &str, place: &str) -> Result<Vec<Vec<i32>>, DataError> {
    match example.take(key) {
        Some(Value::IntRows(rows)) => Ok(rows),
        Some(other) if other.len() == Some(0) => Ok(Vec::new()),
        Some(other) => Err(DataError::Config(format!(
            "{place}: '{key}' is {}, expected a list of token ids for each answer: {REMEDY}, and their features have \
             seqio.Feature.rank = 2",
            other.type_name()
        ))),
        None => Err(DataError::Config(format!(
            "{place}: the model needs the feature '{key}', found {}: {REMEDY}",
            example.names()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{ConverterClass, FeatureConverter, Packing};

    fn converter() -> FeatureConverter {
        let lengths = [("inputs", 3), ("targets", 2), (IS_CORRECT, 2)];
        let lengths = lengths.map(|(name, length)| (name.to_string(), length)).into();
        let class = ConverterClass::from(ValidLabelOnlyEncDecFeatureConverter {});
        FeatureConverter::new(&class, &lengths, Packing::None, 0).expect("the lengths fit")
    }

    fn example(targets: &[&[i32]], is_correct: &[i32]) -> Example {
        let rows = |rows: &[&[i32]]| Value::IntRows(rows.iter().map(|row| row.to_vec()).collect());
        Example::from_iter([
            ("inputs".into(), rows(&vec![&[7, 8, 9, 1][..]; targets.len()])),
            ("targets".into(), rows(targets)),
            (IS_CORRECT.into(), Value::Ints(is_correct.to_vec())),
        ])
    }

    #[test]
    fn answers_follow_each_other_in_a_row() {
        let batch = converter().batch(&[example(&[&[5, 1], &[1]], &[0, 1])], 2);
        let batch = batch.expect("the example fits");
        assert_eq!(batch.ints("encoder_input_tokens"), [7, 8, 9, 7, 8, 9, 0, 0, 0, 0, 0, 0]);
        assert_eq!(batch.ints("decoder_target_tokens"), [5, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(batch.ints("decoder_input_tokens"), [0, 5, 0, 1, 0, 0, 0, 0]);
        assert_eq!(batch.ints("decoder_loss_weights"), [1, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(batch.ints(IS_CORRECT), [0, 1, 0, 0]);
    }

    #[test]
    fn examples_that_cannot_be_ranked_are_refused() {
        let check = |example: Example, expected: &str| {
            let error = converter().batch(&[example], 1).expect_err("it is refused").to_string();
            assert!(error.contains(expected), "`{expected}` is not in {error}");
        };
        check(example(&[&[5, 1], &[1]], &[0, 0]), "none of the 2 answers is right");
        check(
            example(&[&[5], &[6], &[7]], &[1, 0, 0]),
            "3 'inputs', 3 'targets' and 3 'is_correct', expected 2 of each",
        );
        check(example(&[&[5], &[]], &[1, 0]), "answer 2 of 'targets' has no tokens");
        let mut flat = example(&[&[5], &[6]], &[1, 0]);
        flat.set("targets".into(), Value::Ints(vec![5, 1]));
        check(flat, "'targets' is a list of ints, expected a list of token ids for each answer");
    }
}
