//! The pieces for the masks of many lines.

use std::fmt::Write as _;
use std::io::Write;

use serde_json::json;

use crate::interactive::file::{Format, LineWork, LinesError, in_windows};
use crate::interactive::lines::{BadLine, Text};

use super::filler::{Filler, Piece};

/// The work on lines with masks.
pub struct FillProgress<'a> {
    /// The model.
    pub filler: &'a Filler<'a>,
    /// Greatest number of pieces for each mask.
    pub topk: usize,
    /// The form of answers: JSON, or one for readers.
    pub format: Format,
    /// The place of the text with this number, from 1, in messages.
    pub place: &'a dyn Fn(u64) -> String,
    /// A flag that requests the end.
    pub stop: &'a std::sync::atomic::AtomicBool,
}

/// Finds the likeliest pieces for the masks of each text, in order.
///
/// # Errors
/// See [`LinesError`]; the answers to the lines before are written.
pub fn fill_lines(
    progress: &FillProgress<'_>,
    texts: impl Iterator<Item = Result<Text, BadLine>> + Send + 'static,
    out: &mut dyn Write,
) -> Result<(), LinesError> {
    let FillProgress { filler, topk, format, place, stop } = *progress;
    let encode = |text: &Text, number| {
        let unfit = |reason| BadLine::Unfit { place: place(number), reason };
        filler.encoder().encode(&text.inputs).map_err(unfit)
    };
    let work = LineWork { batch_size: filler.spec().batch_size, encode: &encode, stop };
    in_windows(
        &work,
        texts,
        out,
        |batch| filler.fill(batch, topk),
        |text, masks| shown(text, masks, format),
    )
}

/// Returns the lines of a text's masks.
fn shown(text: &Text, masks: &[Vec<Piece>], format: Format) -> String {
    if format == Format::Json {
        return format!("{}\n", json!({"inputs": text.inputs, "masks": masks}));
    }
    let mut out = format!("{}\n", text.inputs);
    for (number, pieces) in (1..).zip(masks) {
        if masks.len() > 1 {
            let _ = writeln!(out, "  [MASK] {number}");
        }
        for Piece { token, probability } in pieces {
            let _ = writeln!(out, "  {probability:.6}  {token}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_listed_for_each_mask() {
        let text = Text { inputs: "a [MASK].".to_string(), targets: None };
        let piece = |token: &str, probability| Piece { token: token.to_string(), probability };
        let mask = vec![piece("cat", 0.75), piece("##s", 0.125)];
        let one = [mask.clone()];
        assert_eq!(
            shown(&text, &one, Format::Lines),
            "a [MASK].\n  0.750000  cat\n  0.125000  ##s\n"
        );
        let json = r####"{"inputs":"a [MASK].","masks":[[{"token":"cat","probability":0.75},{"token":"##s","probability":0.125}]]}"####;
        assert_eq!(shown(&text, &one, Format::Json), format!("{json}\n"));
        let two = [mask[..1].to_vec(), mask[1..].to_vec()];
        let both = "a [MASK].\n  [MASK] 1\n  0.750000  cat\n  [MASK] 2\n  0.125000  ##s\n";
        assert_eq!(shown(&text, &two, Format::Plain), both);
    }
}
