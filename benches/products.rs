//! Measures products with packed kernels where they are packed, a JSON line each: with the rows of a batch of an encoder of
//! T5 1.1 small in turn with libtorch's, in GFLOP/s, and with the rows of steps of decoding, in the layouts for few rows and
//! for many, in GB/s of the kernel. Medians.
//!
//! `cargo bench --bench products -- --threads=1 --rounds=9`

use std::time::Instant;

use gimlet::nn::team::Team;
use gimlet::nn::{PackedKernel, cpu};
use tch::{Device, Kind, Tensor};

/// Rows of a batch of eight sequences of 512.
const ROWS: i64 = 4096;
/// Extents of the encoder's kernels: query, key and value; out; gate and linear; wo.
const KERNELS: [[i64; 2]; 4] = [[512, 1152], [384, 512], [512, 2048], [1024, 512]];
/// Rows of a step of decoding: hypotheses of a batch.
const ROWS_OF_STEPS: [i64; 6] = [1, 4, 8, 16, 24, 32];
/// A kernel that exceeds every cache: 256 MiB in float32.
const LARGE: [i64; 2] = [512, 131_072];

fn main() {
    cpu::prepare();
    let (threads, rounds) = (option("threads", 2), option("rounds", 9));
    tch::set_num_threads(threads as i32);
    tch::no_grad(|| {
        for kind in [Kind::Float, Kind::BFloat16] {
            if PackedKernel::packs(kind, Device::Cpu, PackedKernel::MANY_ROWS) {
                KERNELS.iter().for_each(|size| many_rows(kind, *size, rounds));
                few_rows(kind, rounds);
            }
        }
    });
}

fn many_rows(kind: Kind, [inputs, out]: [i64; 2], rounds: i64) {
    let (given, kernel) = (random([ROWS, inputs], kind), random([inputs, out], kind));
    let packed = PackedKernel::new(&kernel, PackedKernel::MANY_ROWS);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(seconds(|| given.matmul(&kernel)));
        let _team = Team::assemble();
        ours.push(seconds(|| packed.apply(&given)));
    }
    let giga = (2 * ROWS * inputs * out) as f64 / 1e9;
    let line = serde_json::json!({
        "kind": format!("{kind:?}"),
        "kernel": [inputs, out],
        "gflops": giga / median(ours),
        "libtorch_gflops": giga / median(theirs),
    });
    println!("{line}");
}

/// Measures both layouts of a kernel with each number of rows.
fn few_rows(kind: Kind, rounds: i64) {
    let kernel = random(LARGE, kind);
    let bytes = (kernel.numel() * kind.elt_size_in_bytes()) as f64;
    let layouts = [1, PackedKernel::MANY_ROWS].map(|rows| PackedKernel::new(&kernel, rows));
    for rows in ROWS_OF_STEPS {
        let given = random([rows, LARGE[0]], kind);
        let _team = Team::assemble();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (packed, times) in layouts.iter().zip(&mut times) {
                times.push(seconds(|| packed.apply(&given)));
            }
        }
        let [few, many] = times.map(|times| bytes / median(times) / 1e9);
        let line = serde_json::json!({
            "kind": format!("{kind:?}"),
            "kernel": LARGE,
            "rows": rows,
            "gigabytes_per_second": few,
            "gigabytes_per_second_as_for_many_rows": many,
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
