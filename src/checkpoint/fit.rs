//! Whether a checkpoint holds the arrays of the model at hand.

use std::collections::BTreeMap;
use std::fmt;

use super::error::CheckpointError;

/// Shapes of arrays by name: `target/encoder/encoder_norm/scale`.
pub type Shapes = BTreeMap<String, Vec<usize>>;

/// How many names of a kind a message lists.
const LISTED: usize = 8;

/// How the arrays of a checkpoint and those of a model differ.
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
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint `{}` holds another model:", self.path)?;
        list(f, "missing from the checkpoint", &self.missing)?;
        list(f, "only in the checkpoint", &self.extra)?;
        let shapes: Vec<String> = self
            .shapes
            .iter()
            .map(|(name, found, expected)| format!("{name} {found:?}, expected {expected:?}"))
            .collect();
        list(f, "of another shape", &shapes)?;
        write!(
            f,
            "\nuse the configuration that wrote it, set MODEL_DIR to another folder, or map the names \
             with RestoreCheckpointConfig.assignment_map"
        )
    }
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, names: &[String]) -> fmt::Result {
    if names.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {} {title}:", names.len())?;
    names.iter().take(LISTED).try_for_each(|name| write!(f, "\n    {name}"))?;
    match names.len() - names.len().min(LISTED) {
        0 => Ok(()),
        more => write!(f, "\n    and {more} more"),
    }
}

/// Checks that everything the model `needs` is `found` in the checkpoint of that path, and yields
/// the names that only the checkpoint has: T5X leaves them unread, and so may the caller, aloud.
///
/// # Errors
/// [`CheckpointError::OtherModel`] with every difference.
pub fn check_fit(
    path: &str,
    needs: &Shapes,
    found: &Shapes,
) -> Result<Vec<String>, CheckpointError> {
    let not_in = |these: &Shapes, those: &Shapes| -> Vec<String> {
        these.keys().filter(|name| !those.contains_key(*name)).cloned().collect()
    };
    let shapes: Vec<_> = needs
        .iter()
        .filter_map(|(name, expected)| {
            let found = found.get(name).filter(|found| *found != expected)?;
            Some((name.clone(), found.clone(), expected.clone()))
        })
        .collect();
    let (missing, extra) = (not_in(needs, found), not_in(found, needs));
    if missing.is_empty() && shapes.is_empty() {
        return Ok(extra);
    }
    Err(CheckpointError::OtherModel(Mismatch { path: path.to_string(), missing, extra, shapes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(entries: &[(&str, &[usize])]) -> Shapes {
        entries.iter().map(|(name, shape)| (name.to_string(), shape.to_vec())).collect()
    }

    #[test]
    fn every_difference_is_listed_with_the_remedy() {
        let needs = shapes(&[("target/a", &[2]), ("target/b", &[3]), ("target/c", &[1])]);
        let found = shapes(&[("target/a", &[4]), ("target/c", &[1]), ("target/d", &[1])]);
        let message = check_fit("dir/checkpoint_1", &needs, &found).unwrap_err().to_string();
        for part in [
            "`dir/checkpoint_1` holds another model",
            "1 missing from the checkpoint:\n    target/b",
            "1 only in the checkpoint:\n    target/d",
            "target/a [4], expected [2]",
            "set MODEL_DIR to another folder",
        ] {
            assert!(message.contains(part), "{part} not in {message}");
        }
    }

    #[test]
    fn arrays_that_only_the_checkpoint_has_are_no_error() {
        let needs = shapes(&[("target/a", &[2])]);
        let found = shapes(&[("target/a", &[2]), ("flax_mutables/x", &[1])]);
        assert_eq!(check_fit("x", &needs, &found).unwrap(), ["flax_mutables/x"]);
    }
}
