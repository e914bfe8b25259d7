//! The losses of `pretrain_tiny.gin`, with dropout and seed 7, against committed numbers. Other tests
//! compare runs with each other, and would not notice that all runs draw other initial values,
//! data or dropout than before. `UPDATE_GOLDEN=1` rewrites the numbers.

use std::fs;
use std::path::Path;

use crate::command::sources;
use crate::events::read_scalars;

/// A relative tolerance. Kernels for other CPUs round differently, which changes these losses by up
/// to 1e-7 (`ATEN_CPU_CAPABILITY=default` against AVX-512; one thread against two changes none).
/// Another seed of the initial values, of the data or of dropout changes the first loss by 8e-3 or
/// more, and a dropout rate of 0.11 by 6e-4.
const TOLERANCE: f64 = 1e-4;

/// Checks the loss of every step of a run of 24 steps. Nothing is known for CPUs without MKL, which
/// draws dropout's masks.
pub fn assert_committed(model_dir: &Path) {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let losses = read_scalars(&model_dir.join("train")).remove("loss").expect("it is logged");
    let found: Vec<f64> = losses.into_values().collect();
    let file = sources("seeded.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = serde_json::to_string_pretty(&found).expect("numbers become JSON") + "\n";
        fs::write(&file, text).expect("the sources can be written");
    }
    let text = fs::read_to_string(&file).expect("it is committed");
    let expected: Vec<f64> = serde_json::from_str(&text).expect("it is a list of numbers");
    let is_close = |(found, expected): (&f64, &f64)| (found / expected - 1.0).abs() <= TOLERANCE;
    let are_close = found.iter().zip(&expected).all(is_close);
    let is_same = found.len() == expected.len() && are_close;
    assert!(is_same, "the losses are {found:?} instead of {expected:?} (UPDATE_GOLDEN=1 rewrites)");
}
