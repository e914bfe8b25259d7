//! The shares of a mixture's tasks among its examples, in words.

use crate::data::{DataError, MixtureStage, TaskProvider, mixture_stages};

/// Describes how often each task of a mixture is drawn: `a 75%, b 25%`, and in another text each for later training steps,
/// `from step 1000 a 50%, b 50%`.
///
/// # Errors
/// A mistake in the mixture, or rates that cannot be computed.
pub fn shares(name: &str, tasks: &dyn TaskProvider) -> Result<Vec<String>, DataError> {
    Ok(mixture_stages(name, tasks)?.iter().map(of_stage).collect())
}

fn of_stage(stage: &MixtureStage) -> String {
    let total: f64 = stage.rates.iter().map(|(_, rate)| rate).sum();
    let share = |(task, rate): &(String, f64)| format!("{task} {}%", percent(rate / total));
    let shares = stage.rates.iter().map(share).collect::<Vec<_>>().join(", ");
    match stage.step {
        0 => shares,
        step => format!("from step {step} {shares}"),
    }
}

/// Formats three significant digits: 75, 2.5, 0.0123.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = 2 - percent.abs().log10().floor().clamp(-6.0, 2.0) as i32;
    let text = format!("{percent:.0$}", digits.max(0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_three_digits_that_count() {
        let found = [0.75, 0.025, 0.000123, 1.0, 1.0 / 3.0].map(percent);
        assert_eq!(found, ["75", "2.5", "0.0123", "100", "33.3"]);
    }
}
