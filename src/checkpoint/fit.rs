//! Checks whether a checkpoint holds the arrays of the model.

use super::array::Shapes;
use super::error::CheckpointError;
use super::mismatch::Mismatch;

/// Checks that everything the model `needs` is `found` in the checkpoint at `path`, and returns the
/// names that only the checkpoint has: T5X does not read them, and the caller may skip them with a
/// notice.
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
    let (path, is_resumed) = (path.to_string(), false);
    Err(CheckpointError::OtherModel(Mismatch { path, missing, extra, shapes, is_resumed }))
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
            "1 missing from the checkpoint:\n    target/b  nearest there: target/d\n",
            "1 only in the checkpoint:\n    target/d",
            "target/a  [4], expected [2]",
            "or map the names with RestoreCheckpointConfig.assignment_map",
        ] {
            assert!(message.contains(part), "{part} not in {message}");
        }
    }

    #[test]
    fn another_vocabulary_is_named_as_such() {
        let needs =
            shapes(&[("target/token_embedder/embedding", &[250_112, 512]), ("target/b", &[3])]);
        let found =
            shapes(&[("target/token_embedder/embedding", &[32_128, 512]), ("target/b", &[3])]);
        let message = check_fit("dir/checkpoint_1", &needs, &found).unwrap_err().to_string();
        assert!(
            message.contains("its vocabulary has 32128 ids, and the model's 250112"),
            "{message}"
        );
        assert!(!message.contains("assignment_map"), "{message}");
        let found =
            shapes(&[("target/token_embedder/embedding", &[250_112, 512]), ("target/b", &[4])]);
        let message = check_fit("dir/checkpoint_1", &needs, &found).unwrap_err().to_string();
        assert!(message.ends_with("use the configuration that wrote it"), "{message}");
    }

    #[test]
    fn arrays_that_only_the_checkpoint_has_are_no_error() {
        let needs = shapes(&[("target/a", &[2])]);
        let found = shapes(&[("target/a", &[2]), ("flax_mutables/x", &[1])]);
        assert_eq!(check_fit("x", &needs, &found).unwrap(), ["flax_mutables/x"]);
    }
}
