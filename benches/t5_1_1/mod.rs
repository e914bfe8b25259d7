//! What the benches of T5 1.1 share: its dimensions, `--name=value` options and time.

use gimlet::models::t5::T5Config;
use gimlet::nn::{Activation, Dtype, RematPolicy};

/// T5 1.1 of the size that `--size` names, by default small with its 76,961,152 parameters.
pub fn config(dtype: Dtype) -> T5Config {
    let (emb_dim, mlp_dim, num_heads, num_layers) = match text_option("size").as_deref() {
        None | Some("small") => (512, 1024, 6, 8),
        Some("base") => (768, 2048, 12, 12),
        Some("large") => (1024, 2816, 16, 24),
        Some("xl") => (2048, 5120, 32, 24),
        Some(other) => panic!("--size={other}, expected small, base, large or xl"),
    };
    T5Config {
        vocab_size: 32128,
        dtype,
        emb_dim,
        num_heads,
        num_encoder_layers: num_layers,
        num_decoder_layers: num_layers,
        head_dim: 64,
        mlp_dim,
        mlp_activations: vec![Activation::Gelu, Activation::Linear],
        dropout_rate: 0.0,
        logits_via_embedding: false,
        float32_attention_logits: false,
        scale_attn_logits: false,
        remat_policy: RematPolicy::None,
        fp8: None,
    }
}

/// `--dtype=bfloat16`, or float32.
pub fn dtype() -> Dtype {
    match text_option("dtype").as_deref() {
        Some("bfloat16") => Dtype::Bfloat16,
        _ => Dtype::Float32,
    }
}

/// `--name=value` as an integer, or a default.
pub fn option(name: &str, default: i64) -> i64 {
    text_option(name).map_or(default, |value| value.parse().expect("an integer"))
}

/// `--name=value`, where it was given.
pub fn text_option(name: &str) -> Option<String> {
    let prefix = format!("--{name}=");
    std::env::args().find_map(|arg| arg.strip_prefix(&prefix).map(str::to_string))
}

/// Time that all threads have computed, which a busy machine lengthens less than the clock's.
pub fn cpu_seconds() -> f64 {
    let usage = usage();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The most memory that the process has taken.
pub fn peak_rss_mb() -> f64 {
    usage().ru_maxrss as f64 / 1024.0
}

fn usage() -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `getrusage` fills in the struct that it is given.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}
