//! The arrays of a checkpoint that a tool looks at, and their sizes in words.

use anyhow::anyhow;
use fancy_regex::Regex;

use super::super::failure::Failure;
use crate::checkpoint::{ArrayInfo, Stored};

/// A filter for arrays by name.
pub(super) struct Filter(Option<Regex>);

impl Filter {
    /// The filter of `--filter`.
    pub(super) fn new(pattern: Option<&str>) -> Result<Self, Failure> {
        let compiled = pattern.map(Regex::new).transpose();
        compiled.map(Self).map_err(|error| Failure::usage(anyhow!("--filter: {error}")))
    }

    /// The arrays whose names match, or all.
    pub(super) fn arrays<'a>(&self, stored: &'a dyn Stored) -> Vec<ArrayInfo<'a>> {
        let matches = |array: &ArrayInfo<'_>| {
            self.0.as_ref().is_none_or(|regex| regex.is_match(array.name).unwrap_or(false))
        };
        stored.leaves().into_iter().filter(matches).collect()
    }

    /// Does the same as [`Filter::arrays`], but refuses a pattern that matches no name.
    pub(super) fn some_arrays<'a>(
        &self,
        stored: &'a dyn Stored,
    ) -> Result<Vec<ArrayInfo<'a>>, Failure> {
        let found = self.arrays(stored);
        match &self.0 {
            Some(regex) if found.is_empty() => Err(Failure::usage(anyhow!(
                "--filter: no array's name contains `{}`, of {} in `{}`",
                regex.as_str(),
                stored.leaves().len(),
                stored.path()
            ))),
            _ => Ok(found),
        }
    }
}

/// Bytes that an array takes in memory.
pub(super) fn array_bytes(array: &ArrayInfo<'_>) -> u64 {
    (num_values(array) as usize * array.dtype.size()) as u64
}

/// Number of values of an array.
pub(super) fn num_values(array: &ArrayInfo<'_>) -> u64 {
    array.shape.iter().product::<usize>() as u64
}

/// Formats bytes as `1.5 MB`, with three significant digits.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let digits = match (unit, value) {
        ("B", _) | (_, 99.95..) => 0,
        (_, 9.995..) => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Formats a shape as gin and Python write it: `[512, 64]`.
pub(super) fn shape(array: &ArrayInfo<'_>) -> String {
    format!("{:?}", array.shape)
}

/// A finite number as JSON; others, for which JSON has no name, as null.
pub(super) fn json_number(value: f64) -> serde_json::Value {
    serde_json::Number::from_f64(value).map_or(serde_json::Value::Null, Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_that_count() {
        let found = [0, 999, 1_000, 12_345, 999_400, 999_600, 3_070_000_000].map(size);
        let expected = ["0 B", "999 B", "1.00 kB", "12.3 kB", "999 kB", "1.00 MB", "3.07 GB"];
        assert_eq!(found, expected);
    }
}
