//! Formats the differences between a checkpoint and a model for messages.

use std::cmp::Reverse;
use std::fmt;

use super::head::{LACKING, UNUSED, remark};
use super::t5x_tree::{PARAM_STATES, TARGET};
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

impl Mismatch {
    /// Whether the optimizer's arrays alone differ.
    fn is_of_optimizer(&self) -> bool {
        let changed = self.shapes.iter().map(|(name, ..)| name);
        let mut differing = self.missing.iter().chain(changed).peekable();
        differing.peek().is_some() && differing.all(|name| name.starts_with(PARAM_STATES))
    }

    /// The remedy if the optimizer's arrays alone differ.
    fn of_optimizer(&self) -> String {
        let restored = "utils.RestoreCheckpointConfig";
        let new = match self.shapes.is_empty() {
            true => format!("{restored}.strict = False and fallback_to_scratch = True"),
            // Arrays of the same name would still be read.
            false => format!(
                "{restored}.assignment_map = [('{PARAM_STATES}.*', None)] and fallback_to_scratch = True"
            ),
        };
        let or = match self.is_resumed {
            true => format!(
                "set MODEL_DIR to another folder, and begin there from `{}` with",
                self.path
            ),
            false => "begin with a new state of the optimizer: bind".to_string(),
        };
        format!("use the optimizer that wrote it, or {or} {new}")
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what =
            if self.is_of_optimizer() { "the state of another optimizer" } else { "another model" };
        write!(f, "checkpoint `{}` holds {what}:", self.path)?;
        let extra: Vec<&str> = self.extra.iter().map(String::as_str).collect();
        let missing = |name: &String| {
            let near = || Some(format!("nearest there: {}", nearest_array(name, &extra)?));
            row(name, remark(name, LACKING).or_else(near).unwrap_or_default())
        };
        let unused = |name: &String| row(name, remark(name, UNUSED).unwrap_or_default());
        let shapes = |(name, found, expected): &(String, Vec<usize>, Vec<usize>)| {
            row(name, format!("{found:?}, expected {expected:?}"))
        };
        table(f, "missing from the checkpoint", &sorted(&self.missing, |name| name), missing)?;
        table(f, "only in the checkpoint", &sorted(&self.extra, |name| name), unused)?;
        table(f, "of another shape", &sorted(&self.shapes, |(name, ..)| name), shapes)?;
        if self.missing.is_empty() && self.shapes.is_empty() {
            return write!(
                f,
                "\nuse the configuration that wrote it, or leave these out with \
                 RestoreCheckpointConfig.strict = False"
            );
        }
        if self.is_of_optimizer() {
            return write!(f, "\n{}", self.of_optimizer());
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

/// Returns parameters before other arrays, which follow from them.
fn sorted<T>(items: &[T], name: impl Fn(&T) -> &String) -> Vec<&T> {
    let mut items: Vec<&T> = items.iter().collect();
    items.sort_by_key(|item| (!name(item).starts_with(TARGET), name(item).clone()));
    items
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
    items: &[&T],
    row: impl Fn(&T) -> Row,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {} {title}:", items.len())?;
    let rows: Vec<Row> = items.iter().take(LISTED).map(|item| row(item)).collect();
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

    fn said(missing: &[&str], shapes: &[&str], is_resumed: bool) -> String {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let shape = |name: String| (name, vec![1], vec![2]);
        let (missing, shapes) = (names(missing), names(shapes).into_iter().map(shape).collect());
        let mismatch = Mismatch {
            path: "a/checkpoint_3".to_string(),
            missing,
            extra: Vec::new(),
            shapes,
            is_resumed,
        };
        mismatch.to_string()
    }

    #[test]
    fn parameters_stand_before_the_optimizer_s_arrays() {
        let names = ["state/param_states/b/v", "state/step", "target/a", "target/c"];
        let listed = "\n    target/a\n    target/c\n    state/param_states/b/v\n    state/step\n";
        let message = said(&names, &[], false);
        assert!(message.contains(listed) && message.contains("holds another model"), "{message}");
    }

    #[test]
    fn another_optimizer_is_told_with_its_remedy() {
        let slots = ["state/param_states/0/mu/a", "state/param_states/1/count"];
        for (missing, shapes, is_resumed, remedy) in [
            (&slots[..], &[][..], false, "strict = False and fallback_to_scratch = True"),
            (
                &[],
                &slots[..],
                false,
                "assignment_map = [('state/param_states/.*', None)] and fallback",
            ),
            (
                &slots[..],
                &[],
                true,
                "set MODEL_DIR to another folder, and begin there from `a/checkpoint_3`",
            ),
        ] {
            let message = said(missing, shapes, is_resumed);
            let what = "`a/checkpoint_3` holds the state of another optimizer:";
            assert!(message.contains(what) && message.contains(remedy), "{message}");
        }
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
