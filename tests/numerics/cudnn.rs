//! Asks cuDNN, on a machine without a GPU, for its engine of every attention of the published models on an H200: that a shape is
//! declined is found here. `cudnn/h200.json` describes the device in cuDNN's own form (9.19).

use std::path::Path;

use crate::cuda::make;

#[test]
#[ignore = "takes cuDNN, which `make cuda` fetches"]
fn cudnn_has_an_engine_for_every_attention() {
    let nvidia = concat!(env!("CARGO_MANIFEST_DIR"), "/.libtorch-cuda/nvidia");
    assert!(Path::new(nvidia).is_dir(), "run `make cuda` first");
    make("cudnn", &[format!("NVIDIA={nvidia}")]);
}
