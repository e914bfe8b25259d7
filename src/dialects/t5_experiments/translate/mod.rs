//! The flags of `run_t5_pretraining.py` as statements after `gin/gimlet/t5_experiments/pretrain.gin`, and those of the programs
//! that fine-tune after other files there.

mod bert;
mod check;
mod check_tuning;
mod encoder;
mod optimizer;
mod precision;
mod statements;
mod tuning;

pub use bert::Pretraining;
pub use check::check;
pub use encoder::{EncoderFamily, encoder};
pub use tuning::{SCROLLS_FOLDER, Tuning, scrolls_file};

use gimlet_gin::{Diagnostic, repr_str};

use statements::Statements;

use super::arguments::Arguments;
use super::flags::Effect;
use super::model_config::{CLASSES, ModelClass, network};
use crate::Statement;

/// The file that comes before the statements.
const FILE: &str = "gimlet/t5_experiments/pretrain.gin";

const BEST: &str = "gimlet.BestModel";
const PLATEAU: &str = "gimlet.ReduceLROnPlateau";

/// The parameters of torch's rule, each with a flag `--lr_drop_NAME`.
const PLATEAU_PARAMETERS: [&str; 7] =
    ["factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"];

/// The folder of the results of `--validate_only`, in that of the run.
const VALIDATION: &str = "validation";

/// Flags of a training.
const UNUSED_BY_VALIDATION: [&str; 18] = [
    "iters",
    "lr",
    "optimizer",
    "weight_decay",
    "lr_scheduler",
    "num_warmup_steps",
    "num_training_steps",
    "clip_grad_norm",
    "clip_grad_value",
    "use_lr_drop",
    "log_interval",
    "valid_interval",
    "save_interval",
    "save_best",
    "early_stopping_patience",
    "optimize_metric",
    "reset_lr",
    "reset_optimizer",
];

/// The facts of a run that its flags do not say.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The processes that share the work.
    pub num_processes: usize,
    /// The file of the network, and its text; `None` if a folder of transformers has it.
    pub model_config: Option<(String, String)>,
    /// Names of the files of `--data_path`, sorted; none in fine-tuning.
    pub shards: Vec<String>,
    /// The number of updates that `--init_checkpoint` is the result of; 0 without that flag.
    pub init_step: u64,
    /// The facts of a fine-tuning.
    pub tuning: Option<Tuning>,
    /// The facts of a BERT that `--model_cfg` describes.
    pub bert: Option<Pretraining>,
}

impl Facts {
    /// Whether the data are files of which each process reads its own.
    pub fn reads_shards(&self) -> bool {
        self.tuning.is_none() && self.bert.is_none()
    }
}

/// The command that a command line stands for.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The gin files that come first.
    pub files: Vec<String>,
    /// The statements that follow them.
    pub statements: Vec<Statement>,
    /// Sentences about flags and keys without effect.
    pub notices: Vec<String>,
}

/// Translates flags that [`check`] has found no mistakes in.
///
/// # Errors
/// Mistakes in the file of the network, and too few shards.
pub fn translate(arguments: &Arguments, facts: &Facts) -> Result<Translation, Vec<Diagnostic>> {
    let mut out = Statements { arguments, list: Vec::new() };
    let mut mistakes = Vec::new();
    let mut notices = notices(arguments);
    let files = match (&facts.tuning, &facts.bert) {
        (Some(tuning), bert) => {
            notices.extend(bert.as_ref().and_then(bert::ignored));
            tuning::translate(&mut out, tuning, bert.as_ref())
        }
        (None, Some(pretraining)) => {
            notices.extend(bert::ignored(pretraining));
            bert::translate(&mut out, pretraining)
        }
        (None, None) => {
            out.folders();
            vec![FILE.to_string()]
        }
    };
    let config = facts.model_config.as_ref();
    match config.map(|(file, text)| (file, network(file, text, model_class(arguments)))) {
        Some((file, Ok(network))) => {
            out.list.extend(network.statements);
            notices.extend(ignored_keys(file, &network.without_effect));
        }
        Some((_, Err(list))) => mistakes.extend(list),
        None => {}
    }
    precision::translate(&mut out);
    out.batches(facts);
    if !arguments.is("validate_only") {
        out.trainer();
        out.beginning();
        optimizer::translate(&mut out, facts);
    }
    if facts.reads_shards() && facts.shards.len() < facts.num_processes {
        let message = format!(
            "`--data_path` has {} files `*.jsonl`, expected at least one for each of {} processes",
            facts.shards.len(),
            facts.num_processes
        );
        mistakes
            .push(Diagnostic::nowhere(message).help("start fewer processes, or split the files"));
    }
    let statements = out.list;
    match mistakes.is_empty() {
        true => Ok(Translation { files, statements, notices }),
        false => Err(mistakes),
    }
}

/// Mentions the given flags that have no effect.
fn notices(arguments: &Arguments) -> Vec<String> {
    let is_given = |name: &str| arguments.changed().any(|flag| flag.name == name);
    let without = arguments.changed().filter_map(|flag| match flag.effect {
        Effect::Nothing(reason) => Some(format!("--{} has no effect: {reason}", flag.name)),
        Effect::InTuning(reason) if !arguments.is_tuning() => {
            Some(format!("--{} has no effect: {reason}", flag.name))
        }
        Effect::With(other) if arguments.has(other) && !is_given(other) => {
            Some(format!("--{} has no effect without --{other}", flag.name))
        }
        _ => None,
    });
    let unused = UNUSED_BY_VALIDATION.into_iter();
    let unused = unused.filter(|flag| arguments.is("validate_only") && is_given(flag));
    let unused = unused.map(|flag| format!("--{flag} has no effect with --validate_only"));
    let of_texts = is_given("source_prefix") && encoder(arguments).is_some();
    let of_texts = of_texts.then(|| "--source_prefix has no effect on an encoder".to_string());
    let replaced = ["model_cfg", "tokenizer"].into_iter();
    let replaced = replaced.filter(|flag| is_given("from_pretrained") && is_given(flag));
    let replaced =
        replaced.map(|flag| format!("--{flag} has no effect: --from_pretrained names the model"));
    without.chain(unused).chain(of_texts).chain(replaced).collect()
}

fn ignored_keys(file: &str, keys: &[String]) -> Option<String> {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    (!keys.is_empty()).then(|| format!("{file}: no effect have {}", keys.join(", ")))
}

fn model_class(arguments: &Arguments) -> ModelClass {
    if let Some(EncoderFamily::T5(class)) = encoder(arguments) {
        return class;
    }
    let name = arguments.text("model_cls").unwrap_or_default();
    let known = CLASSES.iter().find(|(class, _)| *class == name);
    known.expect("`check` refuses other classes").1
}

impl Statements<'_> {
    /// Translates files and folders.
    fn folders(&mut self) {
        let path = |flag: &str| repr_str(&self.arguments.path(flag).unwrap_or_default());
        let files = |(split, flag): (&str, &str)| {
            let folder = self.arguments.path(flag)?;
            Some(format!("'{split}': {}", repr_str(&format!("{folder}/*.jsonl"))))
        };
        let splits = [("train", "data_path"), ("validation", "valid_data_path")];
        let splits = splits.into_iter().filter_map(files).collect::<Vec<_>>().join(", ");
        let task = self.arguments.text("task").unwrap_or_default();
        let rows = [
            ("model_path", "MODEL_DIR", path("model_path")),
            ("data_path", "FILES", format!("{{{splits}}}")),
            ("vocab", "VOCABULARY_FILE", path("vocab")),
            ("task", "PREPROCESSOR", format!("@t5.data.preprocessors.{task}()")),
        ];
        for (flag, key, value) in rows {
            self.bind(flag, key, value);
        }
    }

    fn lengths(&mut self) {
        let inputs = self.count("input_seq_len");
        let targets = match encoder(self.arguments) {
            Some(_) => 1,
            None => self.count("target_seq_len"),
        };
        let lengths = format!("{{'inputs': {inputs}, 'targets': {targets}}}");
        self.bind("input_seq_len", "TASK_FEATURE_LENGTHS", lengths);
    }

    /// Translates the checkpoint of an evaluation without training, and the folder of its results.
    fn evaluation(&mut self, flag: &str, checkpoint: &str) {
        let run = self.arguments.path("model_path").unwrap_or_default();
        let folder = format!("{run}/{VALIDATION}");
        self.bind("model_path", "EVAL_OUTPUT_DIR", repr_str(&folder));
        self.bind(flag, "CHECKPOINT_PATH", repr_str(checkpoint));
    }

    /// Translates lengths, rows and micro-batches.
    fn batches(&mut self, facts: &Facts) {
        match self.arguments.is_bert() {
            true => bert::lengths(self),
            false => self.lengths(),
        }
        let (rows, parts) = (self.count("batch_size"), self.count("gradient_accumulation_steps"));
        let is_validation = self.arguments.is("validate_only");
        let of_process = rows * parts;
        let of_all = of_process * facts.num_processes as i128;
        self.bind("batch_size", "BATCH_SIZE", if is_validation { of_process } else { of_all });
        // Each process evaluates batches of its own.
        let evaluations = match facts.tuning {
            _ if is_validation || facts.num_processes == 1 => &[][..],
            None if self.arguments.valid_interval().is_none() => &[],
            None if bert::validates_at_end(self.arguments) => &["train_eval", "after_training"],
            None => &["train_eval"],
            Some(_) => &["train_eval", "infer_eval", "after_training"],
        };
        for scope in evaluations {
            self.bind(
                "batch_size",
                &format!("{scope}/t5x.utils.DatasetConfig.batch_size"),
                of_process,
            );
        }
        self.bind("batch_size", "gimlet.losses.mean_of_microbatches.rows", rows);
        if !is_validation {
            let microbatches = "t5x.trainer.Trainer.num_microbatches";
            self.bind("gradient_accumulation_steps", microbatches, parts);
        }
        if facts.num_processes > 1 && facts.reads_shards() {
            let key = "train/t5x.utils.DatasetConfig.file_parts";
            self.bind("data_path", key, facts.num_processes);
        }
    }

    /// Translates steps and intervals.
    fn trainer(&mut self) {
        self.bind("iters", "TRAIN_STEPS", self.count("iters"));
        if let Some(interval) = self.arguments.int("log_interval").filter(|steps| *steps > 0) {
            self.bind("log_interval", "t5x.train.train.stats_period", interval);
        }
        let interval = self.arguments.int("save_interval").filter(|steps| *steps > 0);
        self.bind("save_interval", "t5x.utils.SaveCheckpointConfig.period", or_none(interval));
        let Some(interval) = self.arguments.valid_interval() else {
            self.bind("valid_data_path", "t5x.train.train.train_eval_dataset_cfg", "None");
            return self.bind("valid_data_path", "t5x.train.train.eval_period", "None");
        };
        self.bind("valid_interval", "t5x.train.train.eval_period", interval);
        self.rules_of_the_metric();
    }

    /// Translates the checkpoint with which the run begins. Arrays that model and checkpoint do not share are left, as there.
    fn beginning(&mut self) {
        let Some(path) = self.arguments.path("init_checkpoint") else { return };
        let key = |parameter: &str| format!("t5x.utils.RestoreCheckpointConfig.{parameter}");
        for (parameter, value) in [("path", &repr_str(&path)[..]), ("mode", "'specific'")] {
            self.bind("init_checkpoint", &key(parameter), value);
        }
        self.leaves_arrays("init_checkpoint");
        let is = |flag: &str| self.arguments.is(flag);
        let rules =
            [("reset_optimizer", "state/param_states/.*"), ("reset_iteration", "state/step")];
        let rules = rules.into_iter().filter(|(flag, _)| is(flag));
        let rules: Vec<String> = rules.map(|(_, name)| format!("('{name}', None)")).collect();
        let skips = is("skip_used_data") && !is("reset_iteration");
        if !rules.is_empty() {
            let map = format!("[{}]", rules.join(", "));
            self.bind("reset_optimizer", &key("assignment_map"), map);
        }
        if skips {
            self.bind("skip_used_data", &key("restore_dataset"), "True");
        }
    }

    /// Translates what depends on the metric of validations: the best model, the end of the run, and the learning rate.
    fn rules_of_the_metric(&mut self) {
        let saves = self.arguments.is("save_best");
        if saves || self.arguments.int("early_stopping_patience").is_some() {
            let flag = if saves { "save_best" } else { "early_stopping_patience" };
            self.bind(flag, "t5x.train.train.best", format!("@{BEST}()"));
            self.metric(BEST);
            for (flag, parameter) in
                [("save_best", "save"), ("early_stopping_patience", "patience")]
            {
                let value = self.arguments.gin(flag);
                self.bind(flag, &format!("{BEST}.{parameter}"), value);
            }
        }
        if self.arguments.is("use_lr_drop") {
            self.bind("use_lr_drop", "t5x.train.train.reduce_on_plateau", format!("@{PLATEAU}()"));
            self.metric(PLATEAU);
            for parameter in PLATEAU_PARAMETERS {
                let flag = format!("lr_drop_{parameter}");
                let value = self.arguments.gin(&flag);
                self.bind(&flag, &format!("{PLATEAU}.{parameter}"), value);
            }
        }
    }

    fn metric(&mut self, rule: &str) {
        for (flag, parameter) in [("optimize_metric", "metric"), ("optimize_mode", "mode")] {
            let value = self.arguments.gin(flag);
            self.bind(flag, &format!("{rule}.{parameter}"), value);
        }
    }
}

fn or_none(number: Option<i128>) -> String {
    number.map_or("None".to_string(), |number| number.to_string())
}
