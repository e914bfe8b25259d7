//! Runs the CUDA kernels of `bridge/kernels/` on the CPU, against their formulas in float64, in float32 and
//! bfloat16, under sanitizers. `cuda/include/` stands in for CUDA; a block runs forward, backward and shuffled.
//!
//! A sum in another order is wrong by 1e-5 at most in float32; a result in bfloat16 is rounded twice.

use std::process::Command;
use std::thread::available_parallelism;

/// Makes and runs the check in a folder of `tests/numerics`, with further variables.
pub fn make(folder: &str, variables: &[String]) {
    let jobs = available_parallelism().map_or(1, usize::from);
    let output = Command::new("make")
        .args([
            "--silent",
            &format!("--jobs={jobs}"),
            &format!("--directory=tests/numerics/{folder}"),
        ])
        .arg(format!("OUT={}/{folder}", env!("CARGO_TARGET_TMPDIR")))
        .args(variables)
        // The `make` that called the tests has its own jobs.
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make is there");
    let [printed, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("{printed}");
    assert!(output.status.success(), "{errors}");
}

#[test]
fn kernels_for_cuda_do_what_their_formulas_say_in_any_order_of_threads() {
    make("cuda", &[]);
}
