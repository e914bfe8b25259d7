//! The description of a term of a loss that keeps learned rows near given ones.

use super::error::GivenRowsError;
use super::spec::GivenRows;

/// A term of a loss: the squared distance of a parameter from rows that do not change, divided by their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Anchor {
    /// The parameter.
    pub name: String,
    /// Its shape.
    pub shape: [usize; 2],
    /// The rows; those that are not given are 0.
    pub rows: Vec<GivenRows>,
    /// Weight of the term.
    pub weight: f64,
}

impl Anchor {
    /// Finds an array or a text that does not fit.
    ///
    /// # Errors
    /// See [`GivenRows::check`].
    pub fn check(&self) -> Result<(), GivenRowsError> {
        self.rows.iter().try_for_each(|rows| rows.check(self.shape))
    }

    /// Reads the rows, one after another.
    ///
    /// # Errors
    /// See [`GivenRows::check`].
    pub fn read(&self) -> Result<Vec<f32>, GivenRowsError> {
        let [count, width] = self.shape;
        let mut values = vec![0.0; count * width];
        for rows in &self.rows {
            let given = rows.read(self.shape, &|_| 0)?.values;
            values[..given.len()].copy_from_slice(&given);
        }
        Ok(values)
    }
}
