//! One row of task features.

use crate::example::Example;
use crate::value::Value;

/// One row of task features, not padded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// In the order of the converter's fields.
    pub features: Vec<RowFeature>,
    /// The example that the converter passes on unchanged.
    pub passed: Option<Example>,
}

/// A feature of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowFeature {
    pub tokens: Vec<i32>,
    /// Positions within each example; only when packed.
    pub positions: Vec<i32>,
}

impl RowFeature {
    /// The number of each token's example, from 1; 0 if the token is 0.
    ///
    /// As in SeqIO, an example without the feature is not counted here.
    pub(super) fn segment_ids(&self) -> impl Iterator<Item = i32> {
        let mut segment = 0;
        self.tokens.iter().zip(&self.positions).map(move |(&token, &position)| {
            segment += i32::from(position == 0);
            if token == 0 { 0 } else { segment }
        })
    }

    /// The tokens of each example.
    pub(super) fn examples(&self) -> Vec<&[i32]> {
        let begins = |&place: &usize| place == 0 || self.positions.get(place) == Some(&0);
        let starts: Vec<usize> = (0..self.tokens.len()).filter(begins).collect();
        let ends = starts.iter().skip(1).copied().chain([self.tokens.len()]);
        starts.iter().zip(ends).map(|(&start, end)| &self.tokens[start..end]).collect()
    }
}

impl Row {
    pub(super) fn append(&mut self, next: Self) {
        for (feature, next) in self.features.iter_mut().zip(next.features) {
            feature.tokens.extend(next.tokens);
            feature.positions.extend(next.positions);
        }
    }

    pub(super) fn num_tokens(&self) -> usize {
        self.features.iter().map(|feature| feature.tokens.len()).sum()
    }

    pub(super) fn to_example(&self) -> Example {
        let lists = self.features.iter().flat_map(|feature| [&feature.tokens, &feature.positions]);
        let named =
            |(i, list): (usize, &Vec<i32>)| (i.to_string().into(), Value::Ints(list.clone()));
        lists.enumerate().map(named).collect()
    }

    pub(super) fn from_example(example: &Example) -> Self {
        let mut lists = example.iter().map(|(_, value)| match value {
            Value::Ints(list) => list.clone(),
            _ => Vec::new(),
        });
        let mut features = Vec::new();
        while let (Some(tokens), Some(positions)) = (lists.next(), lists.next()) {
            features.push(RowFeature { tokens, positions });
        }
        Self { features, passed: None }
    }
}
