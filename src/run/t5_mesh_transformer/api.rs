//! The flags of t5's API mode (`--use_model_api`), as statements after those of the user. Source: t5
//! `models/mesh_transformer_main.py` and `models/mtf_model.py`.

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};

use crate::gin::repr_str;
use crate::storage::Path;

/// A statement, and the flag that it stands for.
pub type Bound = (String, String);

/// Flags of the API mode.
#[derive(Args, Clone, Debug)]
pub struct ApiArgs {
    /// Take the run from the flags below, and only the model from gin files.
    #[arg(long = "use_model_api")]
    pub use_model_api: bool,
    /// The work of the API mode.
    #[arg(long = "mode", value_name = "MODE")]
    pub mode: Option<ApiMode>,
    /// Sequences of a batch.
    #[arg(long = "batch_size", value_name = "N", default_value_t = 1)]
    pub batch_size: u64,
    /// Tokens of the inputs.
    #[arg(long = "input_sequence_length", value_name = "N", default_value_t = 512)]
    pub input_sequence_length: u64,
    /// Tokens of the targets.
    #[arg(long = "target_sequence_length", value_name = "N", default_value_t = 512)]
    pub target_sequence_length: u64,
    /// No effect: a batch is given in sequences.
    #[arg(long = "tpu_topology", value_name = "TOPOLOGY")]
    pub tpu_topology: Option<String>,
    /// Devices that share the model, at most.
    #[arg(long = "model_parallelism", value_name = "N", default_value_t = 8)]
    pub model_parallelism: u64,
    /// Steps of the training; those of the pretrained model count for 'train' and not for 'finetune'.
    #[arg(long = "train_steps", value_name = "N", default_value_t = 1000)]
    pub train_steps: u64,
    /// Name of a task or mixture.
    #[arg(long = "mixture_or_task", value_name = "NAME", default_value = "wmt_t2t_ende_v003")]
    pub mixture_or_task: String,
    /// Folder of the model to fine-tune.
    #[arg(long = "pretrained_model_dir", value_name = "DIR", default_value = "")]
    pub pretrained_model_dir: String,
    /// The checkpoints: the newest, all, or those of --checkpoint_steps.
    #[arg(long = "checkpoint_mode", value_name = "MODE", default_value = "latest")]
    pub checkpoint_mode: CheckpointMode,
    /// Steps of checkpoints, for --checkpoint_mode=specific.
    #[arg(long = "checkpoint_steps", value_name = "STEP,...", value_delimiter = ',')]
    pub checkpoint_steps: Vec<u64>,
    /// Folder of the results of an evaluation.
    #[arg(long = "eval_summary_dir", value_name = "DIR", default_value = "")]
    pub eval_summary_dir: String,
    /// The split of an evaluation.
    #[arg(long = "eval_split", value_name = "SPLIT", default_value = "validation")]
    pub eval_split: String,
    /// File with an input in each line.
    #[arg(long = "input_file", value_name = "FILE", default_value = "")]
    pub input_file: String,
    /// File with a target in each line, for scores.
    #[arg(long = "target_file", value_name = "FILE", default_value = "")]
    pub target_file: String,
    /// Path of predictions before `-STEP`, and of scores before `.scores`.
    #[arg(long = "output_file", value_name = "FILE", default_value = "")]
    pub output_file: String,
    /// Folder of an exported model; `gimlet export` writes one.
    #[arg(long = "export_dir", value_name = "DIR", default_value = "")]
    pub export_dir: String,
    /// Beams of predictions; 1 takes the most probable token or a sample.
    #[arg(long = "beam_size", value_name = "N", default_value_t = 1)]
    pub beam_size: u64,
    /// Temperature of sampled predictions; 0 takes the most probable token.
    #[arg(long = "temperature", value_name = "T", default_value_t = 0.0)]
    pub temperature: f64,
    /// Most probable tokens that predictions are sampled from; -1 is all.
    #[arg(long = "keep_top_k", value_name = "K", default_value_t = -1, allow_negative_numbers = true)]
    pub keep_top_k: i64,
}

/// The work of the API mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ApiMode {
    /// Trains.
    Train,
    /// Trains from the checkpoint of another folder.
    Finetune,
    /// Decodes held-out examples.
    Eval,
    /// Predicts from the lines of a file.
    Predict,
    /// Scores the lines of a file of targets.
    Score,
    /// `gimlet export` does it.
    #[value(name = "export_predict")]
    ExportPredict,
    /// `gimlet export` does it.
    #[value(name = "export_score")]
    ExportScore,
}

/// The checkpoints of the API mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckpointMode {
    /// Each.
    All,
    /// The newest.
    Latest,
    /// Those of given steps.
    Specific,
}

impl ApiArgs {
    /// Returns the statements that the flags stand for, after those of the user.
    ///
    /// # Errors
    /// Flags that contradict themselves; a mode for which there is another command.
    pub fn statements(&self, model_dir: &str) -> anyhow::Result<Vec<Bound>> {
        if !self.use_model_api {
            return match self.mode {
                None => Ok(Vec::new()),
                Some(_) => Err(anyhow!("--mode needs --use_model_api; otherwise bind `run.mode`")),
            };
        }
        if self.checkpoint_mode != CheckpointMode::Specific && !self.checkpoint_steps.is_empty() {
            bail!("--checkpoint_steps needs --checkpoint_mode=specific");
        }
        let mut out = self.common();
        match self.mode {
            None => bail!("--use_model_api needs --mode: train, finetune, eval, predict or score"),
            Some(ApiMode::Train) => self.train(self.train_steps, &mut out),
            Some(ApiMode::Finetune) => self.finetune(&mut out)?,
            Some(ApiMode::Eval) => self.eval(model_dir, &mut out)?,
            Some(ApiMode::Predict) => self.predict(model_dir, &mut out)?,
            Some(ApiMode::Score) => self.score(model_dir, &mut out)?,
            Some(ApiMode::ExportPredict | ApiMode::ExportScore) => {
                bail!("`gimlet export` writes models for transformers")
            }
        }
        Ok(out)
    }

    /// The model's arguments, which win over gin files.
    fn common(&self) -> Vec<Bound> {
        let lengths = format!(
            "{{'inputs': {}, 'targets': {}}}",
            self.input_sequence_length, self.target_sequence_length
        );
        vec![
            bound("--use_model_api", "run.model_type = 'bitransformer'"),
            bound("--use_model_api", "run.variable_filter = None"),
            bound("--batch_size", format!("run.batch_size = {}", self.batch_size)),
            bound("--input_sequence_length", format!("run.sequence_length = {lengths}")),
            bound(
                "--model_parallelism",
                format!("utils.tpu_mesh_shape.model_parallelism = {}", self.model_parallelism),
            ),
        ]
    }

    fn train(&self, steps: u64, out: &mut Vec<Bound>) {
        let task = repr_str(&self.mixture_or_task);
        let schedule = "@learning_rate_schedules.learning_rate_schedule_noam";
        out.extend([
            bound("--mode", "run.mode = 'train'"),
            bound("--mode", "run.dataset_split = 'train'"),
            bound(
                "--mode",
                "run.train_dataset_fn = @t5.models.mesh_transformer.mesh_train_dataset_fn",
            ),
            bound("--mode", format!("run.learning_rate_schedule = {schedule}")),
            bound("--mode", "run.optimizer = @optimize.AdafactorOptimizer"),
            bound(
                "--mixture_or_task",
                format!("mesh_train_dataset_fn.mixture_or_task_name = {task}"),
            ),
            bound("--train_steps", format!("run.train_steps = {steps}")),
        ]);
    }

    /// Trains on from a checkpoint of another folder, whose configuration describes the model.
    fn finetune(&self, out: &mut Vec<Bound>) -> anyhow::Result<()> {
        let folder = self.pretrained_model_dir.trim_end_matches('/');
        if folder.is_empty() {
            bail!("--mode=finetune needs --pretrained_model_dir");
        }
        let step = match (self.checkpoint_mode, &self.checkpoint_steps[..]) {
            (CheckpointMode::Specific, [step]) => *step,
            (CheckpointMode::Latest, _) => latest(folder)?,
            _ => bail!("a fine-tuning starts from one checkpoint: give one in --checkpoint_steps"),
        };
        out.insert(0, include("--pretrained_model_dir", folder));
        self.train(step + self.train_steps, out);
        let path = repr_str(&format!("{folder}/model.ckpt-{step}"));
        out.push(bound("--pretrained_model_dir", format!("run.init_checkpoint = {path}")));
        let older = "tpu_estimator_model_fn.init_checkpoint = None";
        out.push(bound("--pretrained_model_dir", older));
        Ok(())
    }

    fn eval(&self, model_dir: &str, out: &mut Vec<Bound>) -> anyhow::Result<()> {
        let task = repr_str(&self.mixture_or_task);
        self.trained(model_dir, out)?;
        out.extend([
            bound("--mode", "run.mode = 'eval'"),
            bound(
                "--mode",
                "run.eval_dataset_fn = @t5.models.mesh_transformer.mesh_eval_dataset_fn",
            ),
            bound(
                "--mixture_or_task",
                format!("mesh_eval_dataset_fn.mixture_or_task_name = {task}"),
            ),
            bound("--eval_split", format!("run.dataset_split = {}", repr_str(&self.eval_split))),
            bound(
                "--eval_summary_dir",
                format!("run.eval_summary_dir = {}", repr_str(&self.eval_summary_dir)),
            ),
        ]);
        Ok(())
    }

    /// The trained model of a folder, and its checkpoints.
    fn trained(&self, model_dir: &str, out: &mut Vec<Bound>) -> anyhow::Result<()> {
        let steps = match self.checkpoint_mode {
            CheckpointMode::All => "'all'".to_string(),
            CheckpointMode::Latest => "-1".to_string(),
            CheckpointMode::Specific if self.checkpoint_steps.is_empty() => {
                bail!("--checkpoint_mode=specific needs --checkpoint_steps")
            }
            CheckpointMode::Specific => format!("{:?}", self.checkpoint_steps),
        };
        out.insert(0, include("--model_dir", model_dir.trim_end_matches('/')));
        out.push(bound("--checkpoint_steps", format!("run.eval_checkpoint_step = {steps}")));
        Ok(())
    }

    fn predict(&self, model_dir: &str, out: &mut Vec<Bound>) -> anyhow::Result<()> {
        self.trained(model_dir, out)?;
        let decode = "Bitransformer.decode";
        out.extend([
            bound("--mode", "run.mode = 'infer'"),
            bound("--mode", "infer_model.decode_fn = @decode_from_file"),
            file("--input_file", "decode_from_file.input_filename", &self.input_file)?,
            file("--output_file", "decode_from_file.output_filename", &self.output_file)?,
            bound("--beam_size", format!("{decode}.beam_size = {}", self.beam_size)),
            bound("--temperature", format!("{decode}.temperature = {:?}", self.temperature)),
            bound("--keep_top_k", format!("{decode}.sampling_keep_top_k = {}", self.keep_top_k)),
        ]);
        Ok(())
    }

    fn score(&self, model_dir: &str, out: &mut Vec<Bound>) -> anyhow::Result<()> {
        self.trained(model_dir, out)?;
        out.extend([
            bound("--mode", "run.mode = 'score_from_strings'"),
            bound("--mode", "score_from_strings.score_postprocess_fn = @save_scores"),
            file("--input_file", "score_from_strings.inputs", &self.input_file)?,
            file("--target_file", "score_from_strings.targets", &self.target_file)?,
            file("--output_file", "save_scores.scores_filename", &self.output_file)?,
        ]);
        Ok(())
    }
}

fn bound(flag: &str, statement: impl Into<String>) -> Bound {
    (flag.to_string(), statement.into())
}

/// Binds a parameter to the path of a flag, which must be given.
fn file(flag: &str, parameter: &str, path: &str) -> anyhow::Result<Bound> {
    if path.is_empty() {
        bail!("{flag} is not given, expected the path of a file");
    }
    Ok(bound(flag, format!("{parameter} = {}", repr_str(path))))
}

/// Reads the configuration that a training of a folder wrote.
fn include(flag: &str, folder: &str) -> Bound {
    bound(flag, format!("include {}", repr_str(&format!("{folder}/operative_config.gin"))))
}

/// Returns the step of the checkpoint that TensorFlow's file `checkpoint` names.
fn latest(folder: &str) -> anyhow::Result<u64> {
    let file = Path::parse(folder)?.join("checkpoint");
    let missing = || {
        anyhow!(
            "{file} names no checkpoint: give --checkpoint_mode=specific and --checkpoint_steps"
        )
    };
    let text = String::from_utf8(file.read()?).map_err(|_| missing())?;
    let line = text.lines().find(|line| line.starts_with("model_checkpoint_path"));
    let step = line.and_then(|line| line.trim_end_matches('"').rsplit('-').next()?.parse().ok());
    step.ok_or_else(missing)
}
