//! Joins each example with some of the training split. Source: SeqIO `experimental.py`.

use super::pull::{Pull, Stage, StageState};
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};

/// Yields `eval/...` features of one stage with lists `train/...` of `num_shots` examples of another.
pub(crate) struct FewShot {
    pub task: String,
    pub eval: Stage,
    /// The training examples, repeated forever; `None` for no shots.
    pub train: Option<Stage>,
    pub num_shots: usize,
    pub train_feature_keys: Vec<String>,
    /// `None` if each example gets training examples of its own. Otherwise all get the same ones: `Some(None)` until they are
    /// read, then they and the position at which they begin.
    pub fixed: Option<Option<(StageState, Vec<Example>)>>,
}

impl FewShot {
    fn pull_shots(&mut self) -> Result<Vec<Example>, DataError> {
        let Some(train) = &mut self.train else { return Ok(Vec::new()) };
        let begin = match &self.fixed {
            Some(Some((_, shots))) => return Ok(shots.clone()),
            Some(None) => Some(train.save()),
            None => None,
        };
        let mut shots = Vec::with_capacity(self.num_shots);
        while shots.len() < self.num_shots
            && let Some(example) = train.pull()?
        {
            shots.push(example);
        }
        if let Some(begin) = begin {
            self.fixed = Some(Some((begin, shots.clone())));
        }
        Ok(shots)
    }

    /// The values of a feature of all shots as a list.
    fn listed(&self, shots: &[Example], key: &str) -> Result<Value, DataError> {
        let unfit = |reason: String| {
            let place =
                shots[0].origin().map_or_else(|| "example 1".to_string(), |o| o.to_string());
            let step = "FewshotDataSource".to_string();
            DataError::Preprocess { task: self.task.clone(), step, place, reason }
        };
        let (mut texts, mut longs, mut floats) = (Vec::new(), Vec::new(), Vec::new());
        for shot in shots {
            match shot.get(key) {
                Some(Value::Text(text)) => texts.push(text.clone()),
                Some(Value::Int(long)) => longs.push(*long),
                Some(Value::Float(float)) => floats.push(*float),
                Some(other) => {
                    return Err(unfit(format!(
                        "the training feature '{key}' is {}, of which no list can be made; leave \
                         it out of `train_feature_keys`",
                        other.type_name()
                    )));
                }
                None => {
                    let names = shot.names();
                    return Err(unfit(format!("a training example lacks '{key}'; it has {names}")));
                }
            }
        }
        match (texts.len(), longs.len(), floats.len()) {
            (_, 0, 0) => Ok(Value::Texts(texts)),
            (0, _, 0) => Ok(Value::of_longs(longs)),
            (0, 0, _) => Ok(Value::Floats(floats)),
            _ => Err(unfit(format!("the training feature '{key}' is of several types"))),
        }
    }
}

impl Pull for FewShot {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        let Some(mut eval) = self.eval.pull()? else { return Ok(None) };
        let origin = eval.take_origin();
        let shots = self.pull_shots()?;
        let mut joined = Example::default();
        if !shots.is_empty() {
            for key in &self.train_feature_keys {
                joined.set(Key::from(format!("train/{key}")), self.listed(&shots, key)?);
            }
        }
        for (key, value) in eval.iter() {
            joined.set(Key::from(format!("eval/{key}")), value.clone());
        }
        Ok(Some(joined.read_at(origin)))
    }

    fn save(&self) -> StageState {
        let train = match (&self.fixed, &self.train) {
            (Some(Some((begin, _))), _) => Some(begin.clone()),
            (_, train) => train.as_ref().map(Stage::save),
        };
        let inputs = std::iter::once(self.eval.save()).chain(train);
        StageState::new("few_shot", &(), inputs)
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        state.read::<()>("few_shot", 1 + usize::from(self.train.is_some()))?;
        self.eval.restore(&state.inputs[0])?;
        match &mut self.train {
            Some(train) => train.restore(&state.inputs[1]),
            None => Ok(()),
        }
    }
}
