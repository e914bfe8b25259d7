//! Span corruption in readable form: the text with its gaps filled in.

use std::collections::BTreeMap;

/// The beginning of sentinels in T5's vocabularies.
const SENTINEL: &str = "<extra_id_";

/// Returns the input with the prediction for each of its sentinels, followed by the target span if
/// it differs: `an [old] man [runs != walks]`. `None` for an input without sentinels.
pub fn filled(input: &str, prediction: &str, target: &str) -> Option<String> {
    let (predicted, targets) = (spans(prediction), spans(target));
    let mut parts = pieces(input);
    let mut out = parts.next().expect("there is one at least").1.to_string();
    let mut is_filled = false;
    for (sentinel, rest) in parts {
        let found = predicted.get(sentinel).copied().unwrap_or_default();
        let span = match targets.get(sentinel) {
            Some(target) if *target != found => format!("[{found} != {target}]"),
            _ => format!("[{found}]"),
        };
        out.push_str(&span);
        out.push_str(rest);
        is_filled = true;
    }
    is_filled.then_some(out)
}

/// Returns the text after each sentinel, without the spaces around it.
fn spans(text: &str) -> BTreeMap<&str, &str> {
    pieces(text).skip(1).map(|(sentinel, span)| (sentinel, span.trim())).collect()
}

/// Returns the text before the first sentinel, then each sentinel's number with the text after it.
fn pieces(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(SENTINEL).enumerate().map(|(index, piece)| match piece.split_once('>') {
        Some(pair) if index > 0 => pair,
        _ => ("", piece),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_filled_in_where_their_sentinels_stand() {
        let input = "an <extra_id_0> man <extra_id_1> and <extra_id_2>.";
        let target = "<extra_id_0> old <extra_id_1> walks <extra_id_2> falls";
        for (prediction, expected) in [
            (target, "an [old] man [walks] and [falls]."),
            ("<extra_id_0> old<extra_id_1> runs", "an [old] man [runs != walks] and [ != falls]."),
            ("", "an [ != old] man [ != walks] and [ != falls]."),
        ] {
            assert_eq!(filled(input, prediction, target).as_deref(), Some(expected));
        }
        assert_eq!(filled("no gaps > here", "x", "y"), None);
    }
}
