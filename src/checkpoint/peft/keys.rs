//! The fates of the keys of an `adapter_config.json`. Source: PEFT `config.py`, `tuners/{lora,prompt_tuning}/config.py`.

use crate::hugging_face_keys::{KeyFate, KeyTable};

const fn refused(harmless: &'static [&'static str], reason: &'static str) -> KeyFate {
    KeyFate::Refused { harmless, reason }
}

const NONE: &[&str] = &["null", "[]", "{}", "false"];

/// Why an adapter with arrays of another kind is refused.
const OTHER_ARRAYS: &str = "only arrays `lora_A` and `lora_B` of projections are read";

/// Why an adapter whose base changes is refused.
pub(super) const OTHER_BASE: &str = "it changes the base model's kernels; save it in PEFT with `path_initial_model_for_weight_conversion`";

/// The keys of every adapter.
const EVERY: KeyTable = &[
    ("peft_type", KeyFate::Honoured),
    ("base_model_name_or_path", KeyFate::Honoured),
    ("task_type", KeyFate::NoEffect),
    ("inference_mode", KeyFate::NoEffect),
    ("peft_version", KeyFate::NoEffect),
    ("auto_mapping", KeyFate::NoEffect),
    (
        "revision",
        refused(&["null", "\"main\""], "put that revision of the base model into a folder"),
    ),
    (
        "modules_to_save",
        refused(NONE, "the base model's own parameters cannot be part of an adapter"),
    ),
];

/// Those of LoRA. Which kernels it changes is seen from its arrays.
pub(super) const LORA: &[KeyTable] = &[
    EVERY,
    &[
        ("r", KeyFate::Honoured),
        ("lora_alpha", KeyFate::Honoured),
        ("lora_dropout", KeyFate::Honoured),
        ("use_rslora", KeyFate::Honoured),
        ("init_lora_weights", KeyFate::Honoured),
        ("target_modules", KeyFate::NoEffect),
        ("exclude_modules", KeyFate::NoEffect),
        ("layers_to_transform", KeyFate::NoEffect),
        ("layers_pattern", KeyFate::NoEffect),
        ("megatron_config", KeyFate::NoEffect),
        ("megatron_core", KeyFate::NoEffect),
        ("runtime_config", KeyFate::NoEffect),
        ("ensure_weight_tying", KeyFate::NoEffect),
        ("qalora_group_size", KeyFate::NoEffect),
        ("eva_config", KeyFate::NoEffect),
        ("lora_ga_config", KeyFate::NoEffect),
        ("velora_config", KeyFate::NoEffect),
        ("bias", refused(&["\"none\""], "biases of the base model cannot be part of an adapter")),
        ("fan_in_fan_out", refused(NONE, "kernels of transformers' T5 and BERT are `[out, in]`")),
        ("rank_pattern", refused(NONE, "all additions have one rank")),
        ("alpha_pattern", refused(NONE, "all additions have one alpha")),
        ("use_dora", refused(NONE, "DoRA's magnitudes are not read")),
        ("use_qalora", refused(NONE, OTHER_ARRAYS)),
        ("use_bdlora", refused(NONE, OTHER_ARRAYS)),
        ("lora_bias", refused(NONE, OTHER_ARRAYS)),
        ("trainable_token_indices", refused(NONE, OTHER_ARRAYS)),
        ("target_parameters", refused(NONE, OTHER_ARRAYS)),
        ("layer_replication", refused(NONE, OTHER_ARRAYS)),
        ("arrow_config", refused(NONE, OTHER_ARRAYS)),
        ("monteclora_config", refused(NONE, OTHER_ARRAYS)),
        ("kasa_config", refused(NONE, OTHER_ARRAYS)),
        ("alora_invocation_tokens", refused(NONE, "additions apply to all tokens")),
        ("loftq_config", refused(NONE, OTHER_BASE)),
        ("corda_config", refused(NONE, OTHER_BASE)),
    ],
];

/// Values of `init_lora_weights` that change the base model's kernels too.
pub(super) const CHANGES_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "mica"];

/// Those of a soft prompt.
pub(super) const PROMPT_TUNING: &[KeyTable] = &[
    EVERY,
    &[
        ("num_virtual_tokens", KeyFate::Honoured),
        ("token_dim", KeyFate::NoEffect),
        ("num_transformer_submodules", KeyFate::NoEffect),
        ("num_attention_heads", KeyFate::NoEffect),
        ("num_layers", KeyFate::NoEffect),
        ("prompt_tuning_init", KeyFate::NoEffect),
        ("prompt_tuning_init_text", KeyFate::NoEffect),
        ("tokenizer_name_or_path", KeyFate::NoEffect),
        ("tokenizer_kwargs", KeyFate::NoEffect),
    ],
];
