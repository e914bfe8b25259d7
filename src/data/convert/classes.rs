//! Models that name the class of a row.

use super::batch::BatchFeature;
use super::contract::{Convert, Field, Lengths, fields_of, take_ints};
use super::row::Row;
use crate::error::DataError;
use crate::example::Example;
use gimlet_gin::Configurable;

/// Converts 'inputs', and 'targets' of one token: the number of a class, from 1 on. A row holds one example.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(name = "gimlet.ClassFeatureConverter")]
pub struct ClassFeatureConverter {
    /// The names of the classes.
    pub classes: Vec<String>,
}

const FEATURES: [&str; 3] =
    ["encoder_input_tokens", "decoder_target_tokens", "decoder_loss_weights"];

impl Convert for ClassFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        fields_of("a model of classes", &["inputs", "targets"], lengths)
    }

    /// An example without targets is one to predict.
    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        let features: Vec<Vec<i32>> =
            fields.iter().map(|field| take_ints(example, &field.name)).collect::<Result<_, _>>()?;
        let is_class = |id: i32| usize::try_from(id).is_ok_and(|id| id <= self.classes.len());
        match features[1][..] {
            [] => Ok(features),
            [id] if is_class(id) => Ok(features),
            _ => Err(DataError::Config(format!(
                "'targets' has the ids {:?}, expected one from 1 to {}: a text that is one of the classes {}",
                features[1],
                self.classes.len(),
                self.classes.join(", ")
            ))),
        }
    }

    fn model_features(&self, fields: &[Field], _: bool) -> Vec<Field> {
        let lengths = [fields[0].length, fields[1].length, fields[1].length];
        FEATURES.into_iter().zip(lengths).map(|(name, length)| Field::new(name, length)).collect()
    }

    fn push(&self, row: &Row, _: i32, out: &mut [BatchFeature]) {
        let [inputs, targets] = &row.features[..] else { unreachable!("there are two fields") };
        let [input_tokens, target_tokens, weights] = out else {
            unreachable!("there are three features");
        };
        input_tokens.push(&inputs.tokens);
        let targets = target_tokens.push(&targets.tokens);
        weights.push_each(targets.iter().map(|&token| i32::from(token != 0)));
    }

    fn packs(&self) -> bool {
        false
    }
}
