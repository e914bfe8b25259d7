//! Folders of Hugging Face's PEFT: `adapter_config.json` and the arrays of an adapter, LoRA or a soft prompt, without the base
//! model, which the file names. A folder is read as the base with the adapter's arrays beside the base's.
//!
//! Source: PEFT `utils/save_and_load.py`, `tuners/lora/{config,layer}.py`, `tuners/prompt_tuning/{config,model}.py`.

mod config;
mod keys;
mod merged;
mod read;
mod write;

pub use config::{Adapter, PeftConfig};
pub use merged::merged;
pub(super) use read::open_peft;
pub use write::{PeftOptions, export_peft};

/// The ends of the names of the factors beside a kernel, in T5X's names and in PEFT's.
const FACTORS: [(&str, &str); 2] = [("lora_a", "lora_A.weight"), ("lora_b", "lora_B.weight")];

/// The prefix of all names in PEFT's files of LoRA.
const PREFIX: &str = "base_model.model.";

/// The name of a soft prompt in PEFT's files, `[tokens, width]`, and in T5X's tree.
const PROMPT: (&str, &str) = ("prompt_embeddings", "encoder/prompt/prompt/prompt");

/// The file of arrays that is written.
pub const PEFT_WEIGHTS: &str = "adapter_model.safetensors";

/// The files of arrays that a folder may hold, the preferred one first.
const WEIGHTS: [&str; 2] = [PEFT_WEIGHTS, "adapter_model.bin"];
