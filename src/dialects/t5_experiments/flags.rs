//! The flags of t5-experiments' programs, in the order in which `config.json` lists them, with what becomes of each.
//! Source: t5-experiments `lm_experiments_tools/trainer.py`, `run_t5_pretraining.py`, `run_bert_pretraining.py`,
//! `run_finetuning_hyp.py` and `run_finetuning_scrolls.py`.

use Effect::{InTuning, Nothing, Translated, With};
use Kind::{Bool, Float, Int, Switch, Text};

/// The form of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// `--flag`, `--flag True` or `--flag False`.
    Bool,
    /// `--flag` alone.
    Switch,
}

/// The part that a flag has in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The flag becomes statements.
    Translated,
    /// The flag becomes statements if this other one is given too, and has no effect otherwise.
    With(&'static str),
    /// The flag becomes statements in fine-tuning, and has no effect in pretraining for this reason.
    InTuning(&'static str),
    /// The flag is accepted, and has no effect for this reason.
    Nothing(&'static str),
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name, without dashes.
    pub name: &'static str,
    /// The form of its value.
    pub kind: Kind,
    /// The default as Python writes it.
    pub default: &'static str,
    /// Its part in the run.
    pub effect: Effect,
}

const fn flag(name: &'static str, kind: Kind, default: &'static str, effect: Effect) -> Flag {
    Flag { name, kind, default, effect }
}

/// The first flags of the Trainer.
pub const TRAINER: &[Flag] = &[
    flag("model_path", Text, "None", Translated),
    flag("log_interval", Int, "None", Translated),
    flag("valid_interval", Int, "None", With("valid_data_path")),
    flag("save_interval", Int, "None", Translated),
    flag("save_best", Bool, "False", With("valid_data_path")),
    flag(
        "use_generate_on_valid",
        Bool,
        "False",
        InTuning("pretraining has no metric of generated texts"),
    ),
    flag("init_checkpoint", Text, "None", Translated),
    flag("skip_used_data", Bool, "False", With("init_checkpoint")),
    flag("reset_lr", Bool, "False", With("init_checkpoint")),
    flag("reset_iteration", Bool, "False", With("init_checkpoint")),
    flag("reset_optimizer", Bool, "False", With("init_checkpoint")),
    flag("lr", Float, "None", Translated),
    flag("batch_size", Int, "1", Translated),
    flag("iters", Int, "1", Translated),
    flag("gradient_accumulation_steps", Int, "1", Translated),
];

/// The flags of half precision, which the Trainer for Accelerate leaves to its launcher.
pub const HALF_PRECISION: &[Flag] = &[
    flag("fp16", Bool, "False", Translated),
    flag("fp16_allreduce", Bool, "False", Nothing("gradients are summed in float32")),
    flag("apex_opt_lvl", Text, "None", With("fp16")),
    flag("min_loss_scale", Float, "None", With("apex_opt_lvl")),
    flag("max_loss_scale", Float, "16777216", With("apex_opt_lvl")),
];

/// The flags of Accelerate's launcher, which passes them on.
pub const OF_LAUNCHER: &[Flag] =
    &[flag("mixed_precision", Text, "no", Translated), flag("zero_stage", Int, "0", Translated)];

/// The last flags of the Trainer.
pub const TRAINER_END: &[Flag] = &[
    flag("clip_grad_norm", Float, "None", Translated),
    flag("clip_grad_value", Float, "None", Translated),
    flag("early_stopping_patience", Int, "None", With("valid_data_path")),
    flag("lr_scheduler", Text, "None", Translated),
    flag("num_warmup_steps", Int, "None", With("lr_scheduler")),
    flag("num_training_steps", Int, "None", With("lr_scheduler")),
    flag("use_lr_drop", Bool, "False", Translated),
    flag("lr_drop_factor", Float, "0.1", With("use_lr_drop")),
    flag("lr_drop_patience", Int, "10", With("use_lr_drop")),
    flag("lr_drop_threshold", Float, "0.0001", With("use_lr_drop")),
    flag("lr_drop_threshold_mode", Text, "rel", With("use_lr_drop")),
    flag("lr_drop_cooldown", Int, "0", With("use_lr_drop")),
    flag("lr_drop_min_lr", Float, "0.0", With("use_lr_drop")),
    flag("lr_drop_eps", Float, "1e-08", With("use_lr_drop")),
    flag("optimize_metric", Text, "loss", Translated),
    flag("optimize_mode", Text, "min", Translated),
];

/// The flags of the optimizer, which stand last in every program but `run_finetuning_scrolls.py`, which lacks the last three.
pub const OPTIMIZER: &[Flag] = &[
    flag("optimizer", Text, "AdamW", Translated),
    flag("weight_decay", Float, "0.0", Translated),
    flag("scale_parameter", Switch, "False", Translated),
    flag("relative_step", Switch, "False", Translated),
    flag("warmup_init", Switch, "False", Translated),
];

/// The flags of `run_t5_pretraining.py` beside the Trainer's and the optimizer's.
pub const T5: &[Flag] = &[
    flag("data_path", Text, "None", Translated),
    flag("valid_data_path", Text, "None", Translated),
    flag("working_dir", Text, ".", Translated),
    flag("base_model", Text, "t5-base", Translated),
    flag("model_cfg", Text, "None", Translated),
    flag("model_cls", Text, "transformers:T5ForConditionalGeneration", Translated),
    flag("input_seq_len", Int, "128", Translated),
    flag("target_seq_len", Int, "128", Translated),
    flag("vocab", Text, "./vocabs/sentencepiece.model", Translated),
    flag("task", Text, "span_corruption", Translated),
];

const WORKERS: Effect = Nothing("threads that prepare data follow the number of cores");

/// The flags of `run_bert_pretraining.py` beside the Trainer's and the optimizer's.
pub const BERT: &[Flag] = &[
    flag("data_path", Text, "None", Translated),
    flag("valid_data_path", Text, "None", Translated),
    flag("validate_only", Bool, "False", Translated),
    flag("working_dir", Text, ".", Translated),
    flag("seed", Int, "42", Translated),
    flag("data_impl", Text, "mmap", Nothing("the file says in which of the forms it is")),
    flag("data_name", Text, "", Translated),
    flag("data_n_epochs", Int, "None", Translated),
    flag("data_n_samples", Int, "None", Translated),
    flag("data_skip_warmup", Bool, "False", Nothing("files are not read before they are used")),
    flag("input_seq_len", Int, "128", Translated),
    flag("mlm_prob", Float, "0.15", Translated),
    flag("short_seq_prob", Float, "0.1", Translated),
    flag("use_nsp", Int, "1", Translated),
    flag("data_n_workers", Int, "2", WORKERS),
    flag("model_cfg", Text, "None", Translated),
    flag("model_cls", Text, "transformers:BertForPreTraining", Translated),
    flag("tokenizer", Text, "None", Translated),
];

/// The flags of `run_finetuning_hyp.py` beside the Trainer's and the optimizer's.
pub const HYP: &[Flag] = &[
    flag("data_path", Text, "None", Translated),
    flag("valid_data_path", Text, "None", Translated),
    flag("test_data_path", Text, "None", Translated),
    flag("validate_only", Switch, "False", Translated),
    flag("working_dir", Text, ".", Translated),
    flag("seed", Int, "42", Translated),
    flag("show_valid_examples", Int, "0", With("use_generate_on_valid")),
    flag("input_seq_len", Int, "128", Translated),
    flag("target_seq_len", Int, "16", Translated),
    flag("data_n_workers", Int, "2", WORKERS),
    flag("source_prefix", Text, "", Translated),
    flag("from_pretrained", Text, "None", Translated),
    flag("model_cfg", Text, "None", Translated),
    flag("model_cls", Text, "transformers:BertForPreTraining", Translated),
    flag("model_type", Text, "encoder", Translated),
    flag("tokenizer", Text, "None", Translated),
];

/// The flags of `run_finetuning_scrolls.py` beside the Trainer's.
pub const SCROLLS: &[Flag] = &[
    flag("task_name", Text, "None", Translated),
    flag("validate_only", Switch, "False", Translated),
    flag("working_dir", Text, ".", Translated),
    flag("seed", Int, "42", Translated),
    flag("show_valid_examples", Int, "0", With("use_generate_on_valid")),
    flag("input_seq_len", Int, "128", Translated),
    flag("target_seq_len", Int, "16", Translated),
    flag("data_n_workers", Int, "2", WORKERS),
    flag("input_prefix", Text, "", Translated),
    flag("from_pretrained", Text, "None", Translated),
    flag("model_cfg", Text, "None", Translated),
    flag("model_cls", Text, "transformers:BertForPreTraining", Translated),
    flag("model_type", Text, "encoder-decoder", Translated),
    flag("tokenizer", Text, "None", Translated),
    flag("optimizer", Text, "AdamW", Translated),
    flag("weight_decay", Float, "0.0", Translated),
];

/// Gimlet's own flags, which every program takes too.
pub const OWN: &[Flag] = &[
    flag("print_gin", Switch, "False", Translated),
    flag("dry_run", Switch, "False", Translated),
    flag("take_over", Switch, "False", Translated),
    flag("strict", Switch, "False", Translated),
    flag("path_map", Text, "None", Translated),
];
