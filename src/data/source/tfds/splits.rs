//! The splits that a task takes from a data set, under its own names.

use gimlet_gin::{Evaluator, FromGin, Registry, Reported, Value, ValueKind};

use super::super::contract::unknown_split;
use crate::error::DataError;

/// The splits of a task, and their parts of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TfdsSplits(
    /// The task's name of a split, and its split or slice of the data set.
    pub Vec<(String, String)>,
);

impl FromGin for TfdsSplits {
    fn expected() -> String {
        "a str, a list of str, or a dict from str to str".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(name) => Ok(Self(vec![(name.clone(), name.clone())])),
            ValueKind::List(_) | ValueKind::Tuple(_) => {
                let names: Vec<String> = cx.read(value)?;
                Ok(Self(names.into_iter().map(|name| (name.clone(), name)).collect()))
            }
            ValueKind::Dict(_) => {
                let named: std::collections::BTreeMap<String, String> = cx.read(value)?;
                Ok(Self(named.into_iter().collect()))
            }
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(_: &mut Registry) {}
}

impl TfdsSplits {
    /// The part of the data set for a task's split.
    pub(in crate::source) fn of<'a>(
        splits: Option<&'a Self>,
        task: &str,
        split: &'a str,
    ) -> Result<&'a str, DataError> {
        let Some(Self(known)) = splits else { return Ok(split) };
        match known.iter().find(|(name, _)| name == split) {
            Some((_, what)) => Ok(what),
            None => Err(unknown_split(task, split, known.iter().map(|(name, _)| name.clone()))),
        }
    }

    /// The names of the splits in the task.
    pub(in crate::source) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}
