//! Comparing checkpoints array by array.

use gimlet::checkpoint::{Reader, Stored};
use gimlet::storage;
use std::path::Path;

/// Opens `model_dir/checkpoint_STEP`.
pub fn open(model_dir: &Path, step: u64) -> Reader {
    let path = model_dir.join(format!("checkpoint_{step}"));
    let path = storage::Path::try_from(&*path).expect("the path is text");
    Reader::open(&path).expect("the checkpoint is whole")
}

/// Asserts that both hold the same tree, each float array within `tolerance` of its norm.
pub fn assert_close(found: &dyn Stored, expected: &dyn Stored, tolerance: f64) {
    for (name, error) in errors(found, expected) {
        assert!(error <= tolerance, "{name} is off by {error:e} of its norm");
    }
}

/// Asserts that both hold the same tree, and returns the error of each float array over its norm.
pub fn errors(found: &dyn Stored, expected: &dyn Stored) -> Vec<(String, f64)> {
    assert_eq!(found.shapes(), expected.shapes());
    assert_eq!(found.others(), expected.others());
    let mut errors = Vec::new();
    for array in expected.leaves() {
        let [found, expected] = [found, expected]
            .map(|checkpoint| checkpoint.read(array.name).expect("the array is whole"));
        match (found.to_f32(), expected.to_f32()) {
            (Some(found), Some(expected)) => {
                errors.push((array.name.to_string(), relative_error(&found, &expected)));
            }
            _ => assert_eq!(found, expected, "{}", array.name),
        }
    }
    errors
}

/// Asserts that both hold the same arrays, bit for bit.
pub fn assert_same(found: &dyn Stored, expected: &dyn Stored) {
    assert_eq!(found.shapes(), expected.shapes());
    for array in expected.leaves() {
        let [found, expected] = [found, expected]
            .map(|checkpoint| checkpoint.read(array.name).expect("the array is whole"));
        assert!(found == expected, "{} differs", array.name);
    }
}

/// Norm of the difference over the norm of `expected`; the former alone where that is zero.
pub fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let pairs = found.iter().zip(expected);
    let difference = norm(&mut pairs.map(|(a, b)| f64::from(*a) - f64::from(*b)));
    match norm(&mut expected.iter().map(|x| f64::from(*x))) {
        0.0 => difference,
        norm => difference / norm,
    }
}
