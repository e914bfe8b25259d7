//! The input of a model: rows of named features.

use crate::value::Key;

/// Rows of model features.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    /// The features, in their converter's order.
    pub features: Vec<BatchFeature>,
}

/// One model feature of all rows, `[rows, length]` in row-major order, padded with 0.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchFeature {
    /// Its name, such as `decoder_target_tokens`.
    pub name: Key,
    /// Values of a row.
    pub length: usize,
    /// The values.
    pub values: BatchValues,
}

/// The values of a model feature.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchValues {
    /// Token ids, masks, positions.
    Ints(Vec<i32>),
    /// Real numbers.
    Floats(Vec<f32>),
}

impl Batch {
    /// A feature, if the batch has it.
    pub fn feature(&self, name: &str) -> Option<&BatchFeature> {
        self.features.iter().find(|feature| &*feature.name == name)
    }

    /// The integers of a feature.
    ///
    /// # Panics
    /// The batch has no such feature of integers: another converter made it.
    pub fn ints(&self, name: &str) -> &[i32] {
        match self.feature(name).map(|feature| &feature.values) {
            Some(BatchValues::Ints(values)) => values,
            _ => panic!("the batch has no integers `{name}`"),
        }
    }

    /// The rows of a feature of integers. Panics as [`Batch::ints`] does.
    pub fn rows_of(&self, name: &str) -> impl Iterator<Item = &[i32]> {
        let length = self.feature(name).map_or(1, |feature| feature.length.max(1));
        self.ints(name).chunks(length)
    }
}

impl BatchFeature {
    /// A feature with room for `rows`.
    pub(super) fn new(name: Key, length: usize, rows: usize) -> Self {
        Self { name, length, values: BatchValues::Ints(Vec::with_capacity(rows * length)) }
    }

    /// Appends a row of padding.
    pub(super) fn push_padding(&mut self) {
        let length = self.length;
        match &mut self.values {
            BatchValues::Ints(values) => values.resize(values.len() + length, 0),
            BatchValues::Floats(values) => values.resize(values.len() + length, 0.0),
        }
    }

    /// Changes the row pushed last, by position and value.
    pub(super) fn change_last(&mut self, change: impl Fn(usize, i32) -> i32) {
        let length = self.length;
        let out = self.ints_mut();
        let start = out.len() - length;
        for (i, value) in out[start..].iter_mut().enumerate() {
            *value = change(i, *value);
        }
    }

    /// Appends a row of floats, padded, to a feature that has held only floats or padding.
    pub(super) fn push_floats(&mut self, values: &[f64]) {
        if let BatchValues::Ints(ints) = &self.values {
            let zeros = ints.iter().map(|&value| value as f32).collect();
            self.values = BatchValues::Floats(zeros);
        }
        let BatchValues::Floats(out) = &mut self.values else { unreachable!("just made so") };
        let start = out.len();
        out.extend(values.iter().take(self.length).map(|&value| value as f32));
        out.resize(start + self.length, 0.0);
    }

    fn ints_mut(&mut self) -> &mut Vec<i32> {
        match &mut self.values {
            BatchValues::Ints(values) => values,
            BatchValues::Floats(_) => panic!("`{}` holds floats", self.name),
        }
    }

    /// Appends a row, padded, and gives it back.
    pub(super) fn push(&mut self, values: &[i32]) -> &[i32] {
        self.push_each(values.iter().copied())
    }

    /// Appends a row, padded, and gives it back.
    pub(super) fn push_each(&mut self, values: impl Iterator<Item = i32>) -> &[i32] {
        let length = self.length;
        let out = self.ints_mut();
        let start = out.len();
        out.extend(values.take(length));
        out.resize(start + length, 0);
        &out[start..]
    }
}
