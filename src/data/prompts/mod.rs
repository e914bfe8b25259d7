//! T0's tasks: one for each template of a data set in promptsource (Sanh et al. 2022,
//! arXiv:2110.08207).
//!
//! Templates are read from the user's checkout of promptsource; none come with Gimlet. Two
//! functions provide them to task files: [`PromptRows`] returns the rows of a `seqio.TaskFamily`,
//! and [`PromptMixture`] the entries of a mixture. Source: T0 `seqio_tasks/tasks.py`.

mod datasets;
mod prompt;
mod templates;

use std::collections::BTreeMap;

use gimlet_gin::{Configurable, Function, Value, ValueKind};
use gimlet_storage::Path;

use datasets::{Eval, Train};
use prompt::{Prompt, prompts, task_name};

/// The checkout that is found by its name.
const HERE: &str = "promptsource";

/// The location of templates: a checkout of promptsource, or its folder `promptsource/templates`. A
/// run's own bindings reach it: `t0.PromptSource.dir = '/data/promptsource'`. T0's commands bind nothing, so a checkout
/// in the working directory is found without.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t0.PromptSource", open)]
pub struct PromptSource {
    /// The folder; None is `promptsource` in the working directory.
    #[gin(default = None)]
    pub dir: Option<String>,
}

impl PromptSource {
    fn prompts(&self) -> Result<Vec<Prompt>, String> {
        let here = || Path::parse(HERE).and_then(|here| here.is_dir());
        match &self.dir {
            Some(dir) => prompts(dir),
            None if here().map_err(|error| error.to_string())? => prompts(HERE),
            None => Err(format!(
                "T0's templates are not here, since there is no folder `{HERE}`: clone \
                 https://github.com/bigscience-workshop/promptsource, which makes one, or bind \
                 `t0.PromptSource.dir` to the folder of a checkout, or of the package in a Python"
            )),
        }
    }
}

/// The rows of a family of T0's tasks: `NAME`, `DATASET`, `SUBSET`, `SPLITS`, `TEMPLATE`,
/// `CHOICES`, and for an evaluation `LABELS`, `NUM_CLASSES`, `METRICS`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t0.prompt_rows")]
pub struct PromptRows {
    /// The templates.
    pub source: PromptSource,
    /// Whether these are the tasks that rank the answer choices, `NAME_score_eval`.
    #[gin(default = false)]
    pub ranked: bool,
}

impl Function for PromptRows {
    fn call(self) -> Result<ValueKind, String> {
        let prompts = self.source.prompts()?;
        let of_kind = prompts.iter().filter(|prompt| !self.ranked || prompt.has_choices());
        let row = |prompt: &Prompt| prompt.row(self.ranked).map(Value::unplaced);
        Ok(ValueKind::List(of_kind.map(row).collect::<Result<_, _>>()?))
    }
}

/// The name of a task of T0, of the data set and the template as T0's scripts for transformers name them.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t0.task_name")]
pub struct PromptTaskName {
    /// The data set on the hub.
    pub dataset_name: String,
    /// Its configuration; for `anli` the round, 'r1' or 'dev_r1'.
    #[gin(default = None)]
    pub dataset_config_name: Option<String>,
    /// The template in promptsource.
    pub template_name: String,
    /// Whether it is the task that ranks the answer choices.
    #[gin(default = false)]
    pub ranked: bool,
}

impl Function for PromptTaskName {
    fn call(self) -> Result<ValueKind, String> {
        let config = self.dataset_config_name.unwrap_or_default();
        let (subset, round) = match self.dataset_name.as_str() {
            "anli" => ("", format!("_{}", config.trim_start_matches("dev_"))),
            _ => (config.as_str(), String::new()),
        };
        let name = task_name(&self.dataset_name, subset, &self.template_name);
        let ending = if self.ranked { "_score_eval" } else { "" };
        Ok(ValueKind::Str(format!("{name}{round}{ending}")))
    }
}

/// The entries of one of T0's mixtures; training entries have rates: the number of training
/// examples, at most 500,000 for all templates of a data set.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t0.mixture_entries")]
pub struct PromptMixture {
    /// The templates.
    pub source: PromptSource,
    /// The mixture.
    pub mixture: T0Mixture,
}

/// T0's mixtures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum T0Mixture {
    /// T0's training.
    #[gin(name = "t0_train")]
    Train,
    /// T0+'s training.
    #[gin(name = "t0+_train")]
    TrainPlus,
    /// T0++'s training.
    #[gin(name = "t0++_train")]
    TrainPlusPlus,
    /// T0's training with the first template of each data set's original task.
    #[gin(name = "t0_train_one_og_prompt")]
    TrainOneOriginal,
    /// T0's training with the templates of original tasks.
    #[gin(name = "t0_train_all_og_prompts")]
    TrainAllOriginal,
    /// Held-out tasks with ranked answers.
    #[gin(name = "t0_eval_score_eval")]
    Eval,
    /// Training tasks with ranked answers.
    #[gin(name = "t0_train_score_eval")]
    TrainEval,
    /// Tasks about bias with ranked answers.
    #[gin(name = "bias_fairness_eval_score_eval")]
    BiasFairness,
}

impl Function for PromptMixture {
    fn call(self) -> Result<ValueKind, String> {
        let prompts = self.source.prompts()?;
        let mut first = BTreeMap::new();
        for prompt in prompts.iter().filter(|prompt| prompt.template.is_original_task) {
            first.entry(prompt.dataset_and_subset()).or_insert(prompt.name.clone());
        }
        let is_first =
            |prompt: &Prompt| first.get(&prompt.dataset_and_subset()) == Some(&prompt.name);
        let chosen = prompts.iter().filter(|prompt| self.mixture.has(prompt, is_first(prompt)));
        Ok(ValueKind::List(
            chosen.map(|prompt| Value::unplaced(self.mixture.entry(prompt))).collect(),
        ))
    }
}

impl T0Mixture {
    fn has(self, prompt: &Prompt, is_first_original: bool) -> bool {
        let is_original = prompt.template.is_original_task;
        let is_base = prompt.train == Train::Base;
        let kept = !prompt.is_blocked();
        match self {
            Self::Train => kept && is_base,
            Self::TrainPlus => kept && matches!(prompt.train, Train::Base | Train::GptEval),
            Self::TrainPlusPlus => kept && prompt.train != Train::No,
            Self::TrainOneOriginal => kept && is_base && is_first_original,
            Self::TrainAllOriginal => kept && is_base && is_original,
            Self::Eval => kept && prompt.has_choices() && prompt.eval == Eval::Base && is_original,
            Self::TrainEval => {
                let is_evaluated = prompt.has_choices() && !prompt.is_left_out_of_evaluation();
                kept && is_evaluated && is_base && is_original
            }
            Self::BiasFairness => prompt.has_choices() && prompt.eval == Eval::BiasFairness,
        }
    }

    fn entry(self, prompt: &Prompt) -> ValueKind {
        match self {
            Self::Eval | Self::TrainEval | Self::BiasFairness => {
                ValueKind::Str(format!("{}_score_eval", prompt.name))
            }
            _ => {
                let name = Value::unplaced(ValueKind::Str(prompt.name.clone()));
                let rate = Value::unplaced(ValueKind::Int(prompt.cap.into()));
                ValueKind::Tuple(vec![name, rate])
            }
        }
    }
}
