//! The output of a measurement: JSON, or lines of a name and a text.

use serde_json::{Value, json};

use crate::run::failure::Failure;
use crate::run::output::write;
use crate::telemetry::thousands;

/// The results, in both forms.
pub(super) struct Report {
    /// For programs.
    pub(super) json: Value,
    /// For people: a name and a text each.
    pub(super) lines: Vec<(&'static str, String)>,
}

impl Report {
    /// Creates the report of the measurement `bench`.
    pub(super) fn new(bench: &str) -> Self {
        Self { json: json!({ "bench": bench }), lines: Vec::new() }
    }

    /// Adds the entries of a JSON object.
    pub(super) fn set(&mut self, entries: Value) {
        let (Value::Object(all), Value::Object(more)) = (&mut self.json, entries) else {
            panic!("reports are made of objects")
        };
        all.extend(more);
    }

    /// Adds a line.
    pub(super) fn say(&mut self, name: &'static str, text: String) {
        self.lines.push((name, text));
    }

    /// Prints the report.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return write(&format!("{}\n", self.json));
        }
        let width = self.lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, text): &(&str, String)| format!("{name:width$}  {text}\n");
        write(&self.lines.iter().map(line).collect::<String>())
    }
}

/// Formats a time for people, in a suitable unit.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Formats a number for people, with a digit after the point if it is small.
pub(super) fn rate(number: f64) -> String {
    if number < 100.0 { format!("{number:.1}") } else { thousands(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_few_digits() {
        assert_eq!([2e-6, 0.0123, 2.5].map(seconds), ["2 µs", "12.3 ms", "2.50 s"]);
        assert_eq!([3.24, 12_345.6].map(rate), ["3.2", "12,346"]);
    }
}
