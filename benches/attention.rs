//! Measures attention by a layout of blocks in turn with attention to all positions, forward and backward, a JSON line for each
//! length: milliseconds, and the ratio of both. Medians. The layout is BigBird's with blocks of 64: three random ones, three
//! neighbours and two that all read; 12 heads of 64.
//!
//! `cargo bench --bench attention -- --threads=1 --rounds=5 --longest=8192`

use std::time::Instant;

use gimlet::nn::{
    AttentionBias, AttentionDims, BigBirdSparsityConfig, Dropout, Heads, Joined, LayoutBias,
    LayoutDirection, LayoutHeads, LayoutTiles, PythonRandom, SparsityConfig, attention, cpu,
    layout_attention,
};
use tch::{Device, Kind, Tensor};

/// The heads of BERT's base size.
const DIMS: AttentionDims = AttentionDims { num_heads: 12, head_dim: 64, float32_logits: false };
const LENGTHS: [i64; 4] = [1024, 2048, 4096, 8192];

fn main() {
    cpu::prepare();
    let (threads, rounds) = (option("threads", 2), option("rounds", 3));
    tch::set_num_threads(threads as i32);
    let longest = option("longest", 8192);
    for kind in [Kind::Float, Kind::BFloat16] {
        for length in LENGTHS.into_iter().filter(|&length| length <= longest) {
            measure(kind, length, rounds);
        }
    }
}

fn measure(kind: Kind, length: i64, rounds: i64) {
    let config = BigBirdSparsityConfig {
        heads: LayoutHeads { num_heads: 12, block: 64, different_layout_per_head: true },
        num_random_blocks: 3,
        num_sliding_window_blocks: 3,
        num_global_blocks: 2,
        attention: LayoutDirection::Bidirectional,
    };
    let mut random = PythonRandom::new(0);
    let layout = SparsityConfig::BigBird(config).layout(length as usize, &mut random);
    let layout = layout.expect("it is correct");
    let mean_keys = layout.mean_keys(length as usize);
    let tiles = LayoutTiles::new(layout);
    let all = |size: &[i64]| Tensor::ones(size, (Kind::Bool, Device::Cpu));
    let bias = LayoutBias { keys: all(&[1, length]), segments: None, by_distance: None };
    let dense_bias = AttentionBias::new(None, &all(&[1, 1, length, length]));
    let qkv = Tensor::randn([1, length, 3 * DIMS.num_heads * DIMS.head_dim], (kind, Device::Cpu));
    let qkv = qkv.set_requires_grad(true);
    let heads =
        || Heads { joined: Joined::new(vec![qkv.shallow_clone()], 3), count: DIMS.num_heads };
    let (mut ours, mut dense) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(seconds(|| layout_attention(&heads(), &tiles, &bias, &DIMS, Dropout::off())));
        dense.push(seconds(|| attention(&heads(), &dense_bias, &DIMS, Dropout::off())));
    }
    let (ours, dense) = (median(ours), median(dense));
    let line = serde_json::json!({
        "kind": format!("{kind:?}"),
        "length": length,
        "mean_keys": mean_keys,
        "ms_by_blocks": 1e3 * ours,
        "ms_of_all": 1e3 * dense,
        "speedup": dense / ours,
    });
    println!("{line}");
}

/// The time of a forward and a backward pass.
fn seconds(attend: impl Fn() -> Tensor) -> f64 {
    let start = Instant::now();
    attend().sum(Kind::Float).backward();
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
