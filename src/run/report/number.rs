//! Numbers for people.

/// The sign of an absent value.
pub const NOTHING: &str = "–";

/// Formats a number with five digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value != 0.0 && !(1e-3..1e7).contains(&size) {
        return format!("{value:.4e}");
    }
    let before = if size < 1.0 { 0 } else { size.log10() as usize + 1 };
    let text = format!("{value:.digits$}", digits = 5usize.saturating_sub(before));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits_that_count() {
        let found =
            [0.0, 0.5, 5.28712, 123.456, 21_504.0, 1_234_567.8, 0.00004, -3.0e9].map(number);
        let expected =
            ["0", "0.5", "5.2871", "123.46", "21504", "1234568", "4.0000e-5", "-3.0000e9"];
        assert_eq!(found, expected);
    }
}
