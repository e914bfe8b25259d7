//! Measures products with packed kernels where they are packed, a JSON line each: with the rows of steps of decoding, in
//! turn with libtorch's, in GB/s of the kernel. Medians.
//!
//! `cargo bench --bench products -- --threads=1 --rounds=9`

use std::time::Instant;

use gimlet::nn::team::Team;
use gimlet::nn::{PackedKernel, cpu};
use tch::{Device, Kind, Tensor};

/// Rows of a step of decoding: hypotheses of a batch.
const ROWS_OF_STEPS: [i64; 6] = [1, 4, 8, 16, 24, 32];
/// A kernel that exceeds every cache: 256 MiB in float32.
const LARGE: [i64; 2] = [512, 131_072];

fn main() {
    cpu::prepare();
    let (threads, rounds) = (option("threads", 2), option("rounds", 9));
    tch::set_num_threads(threads as i32);
    tch::no_grad(|| {
        if PackedKernel::packs(Device::Cpu, 1) {
            [Kind::Float, Kind::BFloat16].into_iter().for_each(|kind| few_rows(kind, rounds));
        }
    });
}

/// Measures packed and plain products with each number of rows.
fn few_rows(kind: Kind, rounds: i64) {
    let kernel = random(LARGE, kind);
    let bytes = (kernel.numel() * kind.elt_size_in_bytes()) as f64;
    let packed = PackedKernel::new(&kernel, 1);
    for rows in ROWS_OF_STEPS {
        let given = random([rows, LARGE[0]], kind);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            theirs.push(seconds(|| given.matmul(&kernel)));
            let _team = Team::assemble();
            ours.push(seconds(|| packed.apply(&given)));
        }
        let [ours, theirs] = [ours, theirs].map(|times| bytes / median(times) / 1e9);
        let line = serde_json::json!({
            "kind": format!("{kind:?}"),
            "kernel": LARGE,
            "rows": rows,
            "gigabytes_per_second": ours,
            "libtorch_gigabytes_per_second": theirs,
        });
        println!("{line}");
    }
}

fn random(size: [i64; 2], kind: Kind) -> Tensor {
    Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind)
}

fn seconds(run: impl Fn() -> Tensor) -> f64 {
    let start = Instant::now();
    drop(run());
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `--name=value` as an integer, or a default.
fn option(name: &str, default: i64) -> i64 {
    let prefix = format!("--{name}=");
    let given = std::env::args().find_map(|arg| arg.strip_prefix(&prefix).map(str::to_string));
    given.map_or(default, |value| value.parse().expect("an integer"))
}
