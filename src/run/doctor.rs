//! `gimlet doctor`: what this build and machine support.

use crate::nn::bridge;

/// The report.
pub fn report() -> String {
    format!("libtorch  {}\n", bridge::torch_version())
}
