//! Encodes lines of text with SentencePiece models of any kind, on one thread; prints a JSON line
//! for each model. `benches/peers/compare_encode.py` runs it beside Python's package and compares
//! the ids.
//!
//! ```text
//! cargo bench --no-default-features --bench encode -- --corpus=TEXT MODEL...
//! ```

use std::time::Instant;

use flate2::Crc;
use gimlet::vocab::{SentencePieceVocabulary, VocabularySpec};

fn main() {
    let corpus = std::env::args().find_map(|arg| arg.strip_prefix("--corpus=").map(str::to_string));
    // `cargo test --benches` runs this without arguments.
    let Some(corpus) = corpus else { return };
    let text = std::fs::read_to_string(corpus).expect("a text file");
    let lines: Vec<&str> = text.split('\n').collect();
    for model in std::env::args().skip(1).filter(|arg| !arg.starts_with("--")) {
        encode(&lines, &model);
    }
}

/// Encodes the lines. A checksum over the ids of all lines, each after its number of ids, lets the
/// driver compare the result with the peer's.
fn encode(lines: &[&str], model: &str) {
    let spec = VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: model.to_string(),
        extra_ids: 0,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    });
    let vocabulary = spec.build().expect("a model");
    let (mut ids, mut lengths) = (Vec::new(), Vec::new());
    let (start, cpu) = (Instant::now(), cpu_seconds());
    for line in lines {
        vocabulary.encode_into(line, &mut ids);
        lengths.push(ids.len());
    }
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let mut checksum = Crc::new();
    let mut begin = 0;
    for end in lengths {
        checksum.update(&((end - begin) as i32).to_le_bytes());
        ids[begin..end].iter().for_each(|id| checksum.update(&id.to_le_bytes()));
        begin = end;
    }
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let line = serde_json::json!({
        "model": model,
        "megabytes": bytes as f64 / 1e6,
        "tokens": ids.len(),
        "checksum": checksum.sum(),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    });
    println!("{line}");
}

/// Returns the CPU time of the process, which a busy machine increases less than the clock's.
fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `getrusage` fills in the struct that it is given.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
