//! Asks cuDNN, on a machine without a GPU, for its engine of every attention of the published models on an H200: that a shape is
//! declined is found here. `cudnn/h200.json` describes the device in cuDNN's own form (9.19).

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "takes cuDNN, which `make cuda` fetches"]
fn cudnn_has_an_engine_for_every_attention() {
    let nvidia = concat!(env!("CARGO_MANIFEST_DIR"), "/.libtorch-cuda/nvidia");
    assert!(Path::new(nvidia).is_dir(), "run `make cuda` first");
    let output = Command::new("make")
        .args(["--silent", "--jobs=2", "--directory=tests/numerics/cudnn"])
        .arg(format!("NVIDIA={nvidia}"))
        .arg(concat!("OUT=", env!("CARGO_TARGET_TMPDIR"), "/cudnn"))
        // The `make` that called the tests has its own jobs.
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make is there");
    let [printed, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("{printed}");
    assert!(output.status.success(), "{printed}{errors}");
}
