//! Estimates of memory beside the peaks of processes that `benches/foretold.py` measured.

use super::published::read_words;
use crate::partition::Process;
use crate::train::step_estimate;

/// Dimensions of T5X's configurables, of their stacks, and of flaxformer's macros.
const T5X: [&str; 7] = [
    "emb_dim=64",
    "num_heads=2",
    "head_dim=32",
    "mlp_dim=128",
    "vocab_size=384",
    "num_encoder_layers=2",
    "num_decoder_layers=2",
];
const FLAXFORMER: [&str; 7] = [
    "EMBED_DIM=64",
    "NUM_HEADS=2",
    "HEAD_DIM=32",
    "MLP_DIM=128",
    "NUM_EMBEDDINGS=384",
    "NUM_ENCODER_LAYERS=2",
    "NUM_DECODER_LAYERS=2",
];

/// Megabytes of processes with libtorch on an AMD EPYC without AMX, two threads, November 27, 2026: family, dtype, remat policy, inputs.
const PEAKS: [(&str, &str, &str, usize, f64); 31] = [
    ("flaxformer", "float32", "none", 4_096, 810.0),
    ("flaxformer", "float32", "none", 64, 205.0),
    ("decoder", "float32", "none", 4_096, 942.0),
    ("decoder", "float32", "none", 64, 201.0),
    ("global", "bfloat16", "none", 4_096, 299.0),
    ("global", "float32", "none", 16_384, 610.0),
    ("global", "float32", "none", 4_096, 378.0),
    ("global", "float32", "none", 64, 214.0),
    ("local", "bfloat16", "none", 4_096, 263.0),
    ("local", "float32", "none", 16_384, 517.0),
    ("local", "float32", "none", 4_096, 315.0),
    ("local", "float32", "none", 64, 211.0),
    ("moe", "bfloat16", "none", 4_096, 865.0),
    ("moe", "float32", "none", 4_096, 824.0),
    ("moe", "float32", "none", 64, 214.0),
    ("one-layer", "float32", "none", 4_096, 728.0),
    ("one-layer", "float32", "none", 64, 203.0),
    ("scalable", "float32", "full", 4_096, 710.0),
    ("scalable", "float32", "minimal", 4_096, 730.0),
    ("scalable", "float32", "none", 4_096, 814.0),
    ("scalable", "float32", "none", 64, 205.0),
    ("t5", "bfloat16", "none", 4_096, 858.0),
    ("t5", "float32", "full", 4_096, 796.0),
    ("t5", "float32", "minimal", 4_096, 803.0),
    ("t5", "float32", "none", 1_024, 254.0),
    ("t5", "float32", "none", 4_096, 811.0),
    ("t5", "float32", "none", 64, 205.0),
    ("t5", "float32", "none", 8_192, 2525.0),
    ("umt5", "float32", "full", 4_096, 710.0),
    ("umt5", "float32", "none", 4_096, 811.0),
    ("umt5", "float32", "none", 64, 205.0),
];

/// The flags of a family's run.
fn words(family: &str, dtype: &str, policy: &str) -> Vec<String> {
    let (model, run) = match family {
        "t5" | "umt5" | "one-layer" => ("t5x/examples/t5/t5_1_1/small", "t5_1_1"),
        "scalable" => ("t5x/examples/scalable_t5/t5_1_1/small", "t5_1_1"),
        "decoder" => ("t5x/examples/decoder_only/models/base", "t5_1_1"),
        "flaxformer" => ("flaxformer/t5x/configs/t5/models/t5_1_1_base", "t5_1_1"),
        "local" => ("flaxformer/t5x/configs/longt5/models/longt5_1_1_base", "t5_1_1"),
        "global" => {
            ("flaxformer/t5x/configs/longt5/models/longt5_1_1_transient_global_base", "t5_1_1")
        }
        "moe" => ("flaxformer/t5x/configs/moe/models/tokens_choose_small", "moe"),
        _ => panic!("`{family}` is not a family"),
    };
    let mut words =
        vec![format!("--gin_file={model}.gin"), format!("--gin_file=benches/{run}.gin")];
    if family == "decoder" {
        let bindings = T5X[..5].iter().chain(&["num_layers=2", "dtype='float32'"]);
        words.extend(bindings.map(|binding| format!("--gin.network.TransformerConfig.{binding}")));
    } else if !model.starts_with("t5x") {
        words.extend(FLAXFORMER.map(|binding| format!("--gin.{binding}")));
        words.push(format!("--gin.ACTIVATION_DTYPE='{dtype}'"));
    } else {
        words.extend(T5X.map(|binding| format!("--gin.network.T5Config.{binding}")));
        words.push(format!("--gin.network.T5Config.dtype='{dtype}'"));
        words.push(format!("--gin.network.T5Config.remat_policy='{policy}'"));
    }
    let more: &[&str] = match family {
        "umt5" => &["network.T5Config.relpos_bias_per_layer=True"],
        "one-layer" => {
            &["network.T5Config.num_encoder_layers=1", "network.T5Config.num_decoder_layers=1"]
        }
        "moe" => &["NUM_EXPERTS=4", "NUM_ENCODER_SPARSE_LAYERS=1", "NUM_DECODER_SPARSE_LAYERS=1"],
        _ => &[],
    };
    words.extend(more.iter().map(|binding| format!("--gin.{binding}")));
    if family == "moe" {
        words.push(format!("--gin.MOE_TRUNCATED_DTYPE='{dtype}'"));
    }
    words
}

#[test]
fn the_memory_of_rows_of_any_length_is_foretold() {
    let mut misses = Vec::new();
    for (family, dtype, policy, inputs, measured) in PEAKS {
        let mut words = words(family, dtype, policy);
        words.extend(["--gin.BATCH_SIZE=1", "--cpus=1", "--gflops=100"].map(str::to_string));
        words.push(match family {
            // A decoder reads one sequence.
            "decoder" => format!("--gin.TASK_FEATURE_LENGTHS={{'targets': {inputs}}}"),
            _ => format!("--gin.TASK_FEATURE_LENGTHS={{'inputs': {inputs}, 'targets': 64}}"),
        });
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (train, machine) = read_words(&words);
        let mesh = train.mesh(Process::ALONE, machine.local_device()).expect("one process fits");
        let foretold =
            step_estimate(&train, &mesh).expect("lengths are bound").total() as f64 / 1e6;
        let error = foretold / measured - 1.0;
        let line = format!(
            "{family} {dtype} {policy} {inputs}: {foretold:.0} MB foretold, {measured} measured, {:+.1}%",
            100.0 * error
        );
        println!("{line}");
        if error.abs() > 0.15 {
            misses.push(line);
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}
