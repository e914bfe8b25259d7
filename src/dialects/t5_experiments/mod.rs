//! t5-experiments' dialect, which has no gin files: its command lines and `models_configs/*.json` become statements.
//!
//! `flags` lists the flags with the part that each has, `arguments` reads words as argparse does, `model_config` reads
//! the network, `translate` makes the statements, and `traps` says what the program itself would have done wrong. Facts:
//! yurakuratov/t5-experiments `114dab5`, transformers 4.17.

mod arguments;
mod flags;
mod model_config;
mod translate;
mod traps;

use flags::{HALF_PRECISION, OF_LAUNCHER, OPTIMIZER, TRAINER, TRAINER_END};

pub use arguments::{Arguments, help};
pub use flags::Flag;
pub use translate::{
    EncoderFamily, Facts, Pretraining, SCROLLS_FOLDER, Translation, Tuning, check, encoder,
    scrolls_file, translate,
};
pub use traps::{shards_of, traps};

/// A program of t5-experiments.
#[derive(Debug)]
pub struct Program {
    /// Its name after `gimlet t5_experiments`.
    pub name: &'static str,
    /// Its file.
    pub script: &'static str,
    /// Its flags in the order of `config.json`.
    pub flags: &'static [&'static [Flag]],
}

/// Every program.
pub const PROGRAMS: &[Program] = &[
    program(
        "t5",
        "run_t5_pretraining.py",
        &[TRAINER, HALF_PRECISION, TRAINER_END, flags::T5, OPTIMIZER],
    ),
    program(
        "hyp",
        "run_finetuning_hyp.py",
        &[TRAINER, HALF_PRECISION, TRAINER_END, flags::HYP, OPTIMIZER],
    ),
    program(
        "scrolls",
        "run_finetuning_scrolls.py",
        &[TRAINER, HALF_PRECISION, TRAINER_END, flags::SCROLLS],
    ),
    program(
        "bert",
        "run_bert_pretraining.py",
        &[TRAINER, HALF_PRECISION, TRAINER_END, flags::BERT, OPTIMIZER],
    ),
    program(
        "bert_accel",
        "run_bert_pretraining_accel.py",
        &[TRAINER, TRAINER_END, flags::BERT, OPTIMIZER, OF_LAUNCHER],
    ),
];

const fn program(
    name: &'static str,
    script: &'static str,
    flags: &'static [&'static [Flag]],
) -> Program {
    Program { name, script, flags }
}
