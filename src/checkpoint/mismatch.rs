//! Formats the differences between a checkpoint and a model for messages.

use std::cmp::Reverse;
use std::fmt;

use super::head::{LACKING, UNUSED, remark};
use gimlet_gin::nearest;

/// Maximum number of names of a kind in a message.
const LISTED: usize = 8;

/// The differences between the arrays of a checkpoint and those of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The checkpoint.
    pub path: String,
    /// Arrays that the model needs and the checkpoint lacks.
    pub missing: Vec<String>,
    /// Arrays of the checkpoint that the model does not have.
    pub extra: Vec<String>,
    /// Name, shape in the checkpoint, shape in the model.
    pub shapes: Vec<(String, Vec<usize>, Vec<usize>)>,
    /// Whether a run resumes from the checkpoint in its MODEL_DIR, where names are not mapped.
    pub is_resumed: bool,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint `{}` holds another model:", self.path)?;
        let extra: Vec<&str> = self.extra.iter().map(String::as_str).collect();
        let missing = |name: &String| {
            let near = || Some(format!("nearest there: {}", nearest_array(name, &extra)?));
            row(name, remark(name, LACKING).or_else(near).unwrap_or_default())
        };
        let unused = |name: &String| row(name, remark(name, UNUSED).unwrap_or_default());
        let shapes = |(name, found, expected): &(String, Vec<usize>, Vec<usize>)| {
            row(name, format!("{found:?}, expected {expected:?}"))
        };
        table(f, "missing from the checkpoint", &self.missing, missing)?;
        table(f, "only in the checkpoint", &self.extra, unused)?;
        table(f, "of another shape", &self.shapes, shapes)?;
        if self.missing.is_empty() && self.shapes.is_empty() {
            return write!(
                f,
                "\nuse the configuration that wrote it, or leave these out with \
                 RestoreCheckpointConfig.strict = False"
            );
        }
        if let Some((found, expected)) = self.vocab_sizes() {
            write!(
                f,
                "\nits vocabulary has {found} ids, and the model's {expected}: set vocab_size = {found} (NUM_EMBEDDINGS \
                 of flaxformer's models) and VOCABULARY to the one that it was trained with"
            )?;
            return match self.is_resumed {
                true => write!(f, ", or MODEL_DIR to another folder"),
                false => Ok(()),
            };
        }
        write!(f, "\nuse the configuration that wrote it")?;
        match self.is_resumed {
            true => write!(f, ", or set MODEL_DIR to another folder"),
            // Other names do not change shapes.
            false if self.missing.is_empty() => Ok(()),
            false => write!(f, ", or map the names with RestoreCheckpointConfig.assignment_map"),
        }
    }
}

impl Mismatch {
    /// Returns the numbers of ids of the checkpoint and the model if nothing but these differs.
    fn vocab_sizes(&self) -> Option<(usize, usize)> {
        let is_embedding = |name: &str| name.ends_with("token_embedder/embedding");
        let (_, found, expected) = self.shapes.iter().find(|(name, ..)| is_embedding(name))?;
        let (&[found, _], &[expected, _]) = (&found[..], &expected[..]) else { return None };
        let differs_there = |(_, of_file, of_model): &(String, Vec<usize>, Vec<usize>)| {
            let sizes = of_file.iter().zip(of_model).filter(|(a, b)| a != b);
            sizes.clone().all(|(a, b)| (*a, *b) == (found, expected))
        };
        (found != expected && self.missing.is_empty() && self.shapes.iter().all(differs_there))
            .then_some((found, expected))
    }
}

/// A name and a remark.
type Row = [String; 2];

fn row(name: &str, remark: String) -> Row {
    [name.to_string(), remark]
}

/// Writes a title with the number of items, and the first items in two columns.
fn table<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    items: &[T],
    row: impl Fn(&T) -> Row,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {} {title}:", items.len())?;
    let rows: Vec<Row> = items.iter().take(LISTED).map(row).collect();
    let width = rows.iter().map(|[name, _]| name.len()).max().unwrap_or(0);
    for [name, remark] in &rows {
        match remark.is_empty() {
            true => write!(f, "\n    {name}")?,
            false => write!(f, "\n    {name:width$}  {remark}")?,
        }
    }
    match items.len() - rows.len() {
        0 => Ok(()),
        more => write!(f, "\n    and {more} more"),
    }
}

/// Returns the array that the checkpoint may have instead: one with a similar name, otherwise one
/// with the same last parts, such as `attention/query/kernel`.
fn nearest_array<'a>(name: &str, offered: &[&'a str]) -> Option<&'a str> {
    let alike = |other: &str| {
        let pairs = name.rsplit('/').zip(other.rsplit('/'));
        pairs.take_while(|(ours, theirs)| ours == theirs).count()
    };
    let same_end = || {
        let best = offered.iter().copied().max_by_key(|other| (alike(other), Reverse(*other)));
        best.filter(|other| alike(other) >= 2)
    };
    nearest(name, offered).or_else(same_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::HEAD;

    #[test]
    fn a_head_is_told_with_its_meaning() {
        let mismatch = |missing: &[&str], extra: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
            let (missing, extra) = (names(missing), names(extra));
            let path = "x".to_string();
            Mismatch { path, missing, extra, shapes: Vec::new(), is_resumed: false }.to_string()
        };
        assert!(mismatch(&[HEAD], &[]).contains("models with logits_via_embedding = True use"));
        assert!(mismatch(&[], &[HEAD]).contains("logits come from the embedding"));
    }

    #[test]
    fn a_missing_array_is_told_with_the_nearest_there() {
        let offered = [
            "target/decoder/layers_0/self_attention/query/kernel",
            "target/encoder/layers_0/attention/query/kernel",
            "target/shared",
        ];
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(nearest_array(name, &offered), expected, "{name}");
        };
        check("target/encoder/layer_0/attention/query/kernel", Some(offered[1]));
        // The array moved to a completely different path; only the end of the name matches.
        check("target/transformer/stack_a/block_000/layer_000/query/kernel", Some(offered[0]));
        check("target/token_embedder/embedding", None);
    }
}
