//! Prompts of several tasks, whose examples begin with a token that names the task. Source: prompt-tuning
//! `extended/multitask_prompts.py` and `extended/train/multitask_prompts.py`.

use super::combine::PrefixPrompt;
use super::initial::PromptInit;
use crate::gin::{Configurable, Parameters, Ref};
use crate::models::flaxformer::components::InitFn;
use crate::models::flaxformer::values::only_axes;
use crate::models::parts::{
    LearnedRows, RowsKind, RowsPlace, StreamDims, TaskNaming, TaskRows, TaskUnion,
};
use crate::nn::Dtype;

/// The prompt of an example's task instead of the token that names the task. Source: prompt-tuning
/// `extended/train/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.multitask_prompts.MultiTaskPrompt")]
pub struct TrainMultiTaskPrompt {
    /// The prompts.
    pub prompt: MultiTaskPrompt,
    /// Only @prefix_prompt is supported: masks take the first positions for those of the prompt.
    #[gin(default = Ref(PrefixPrompt {}))]
    pub combine: Ref<PrefixPrompt>,
}

/// Any prompts of several tasks.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum MultiTaskPrompt {
    /// Sums.
    Add(AddMultiTaskPrompt),
    /// Rows after rows.
    Concat(ConcatMultiTaskPrompt),
    /// Numbers after numbers in each row.
    ConcatFeatures(ConcatFeaturesMultiTaskPrompt),
    /// Maps.
    Project(ProjectMultiTaskPrompt),
}

/// Parameters of all prompts of several tasks: rows that tasks share, the parameter `encoder/prompt/prompt/shared_prompt`, and
/// numbers of each, `encoder/prompt/prompt/task_prompts/embedding`. Source: prompt-tuning `extended/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct MultiTaskParameters {
    /// Number of shared rows.
    pub length: usize,
    /// Number of tasks.
    pub num_tasks: usize,
    /// The task that the first token of an example names.
    #[gin(default = Ref(ToTaskIdx::Identity(Identity {})))]
    pub to_task_idx: Ref<ToTaskIdx>,
    /// Initial values of shared rows.
    #[gin(default = PromptInit::uniform())]
    pub shared_init: PromptInit,
    /// Initial values of the numbers of tasks.
    #[gin(default = InitFn::uniform())]
    pub tasks_init: InitFn,
    /// Only ('prompt', 'embed') is supported.
    #[gin(default = SharedAxes)]
    pub shared_prompt_axis_names: SharedAxes,
    /// Only ('tasks', 'prompt+embed') is supported, with which every process has all tasks.
    #[gin(default = TaskAxes)]
    pub individual_prompt_axis_names: TaskAxes,
    /// Format of the shared rows: that of activations, or float32.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
}

/// The task that a token names.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum ToTaskIdx {
    /// Its id.
    Identity(Identity),
    /// The number of a sentinel.
    Sentinel(SentinelToTask),
}

/// The id of a token, as it is. Source: prompt-tuning `extended/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.multitask_prompts.identity",
    ignored(x = "the network gives it")
)]
pub struct Identity {}

/// The number in a sentinel such as <extra_id_3>; the vocabulary ends with the sentinels, downwards. Source: prompt-tuning
/// `extended/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.multitask_prompts.sentinel_to_task",
    ignored(x = "the network gives it")
)]
pub struct SentinelToTask {
    /// Number of ids of the vocabulary, without padding of the embedding.
    pub vocab_size: usize,
}

/// Prompts that are sums of the shared rows and those of the task. Source: prompt-tuning `extended/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.multitask_prompts.AddMultiTaskPrompt",
    ignored(get_shared_features = "the class decides"),
    ignored(get_task_size = "the class decides"),
    ignored(combine_shared_and_tasks = "the class decides")
)]
pub struct AddMultiTaskPrompt {
    /// Parameters of all prompts of several tasks.
    #[gin(flatten)]
    pub shared: MultiTaskParameters,
}

/// Prompts of the shared rows, and rows of the task after them. Source: prompt-tuning `extended/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.multitask_prompts.ConcatMultiTaskPrompt",
    ignored(get_shared_features = "the class decides"),
    ignored(get_task_size = "the class decides"),
    ignored(combine_shared_and_tasks = "the class decides")
)]
pub struct ConcatMultiTaskPrompt {
    /// Parameters of all prompts of several tasks.
    #[gin(flatten)]
    pub shared: MultiTaskParameters,
    /// Number of rows of a task; None is as many as are shared. Masks have the sum of both as their `prompt_length`.
    #[gin(default = None)]
    pub task_length: Option<usize>,
}

/// Prompts whose rows begin with shared numbers and end with those of the task. Source: prompt-tuning
/// `extended/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.multitask_prompts.ConcatFeaturesMultiTaskPrompt",
    ignored(get_shared_features = "the class decides"),
    ignored(get_task_size = "the class decides"),
    ignored(combine_shared_and_tasks = "the class decides")
)]
pub struct ConcatFeaturesMultiTaskPrompt {
    /// Parameters of all prompts of several tasks.
    #[gin(flatten)]
    pub shared: MultiTaskParameters,
    /// Numbers of the task in a row.
    pub task_features: usize,
    /// Shared numbers in a row. The sum of both is the width of the model.
    pub shared_features: usize,
}

/// Prompts that are maps of the shared rows, a kernel and an addend of each task. Source: prompt-tuning
/// `extended/multitask_prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.multitask_prompts.ProjectMultiTaskPrompt",
    ignored(get_shared_features = "the class decides"),
    ignored(get_task_size = "the class decides"),
    ignored(combine_shared_and_tasks = "the class decides")
)]
pub struct ProjectMultiTaskPrompt {
    /// Parameters of all prompts of several tasks.
    #[gin(flatten)]
    pub shared: MultiTaskParameters,
    /// Width of mapped rows: that of the model; None is that of shared rows.
    #[gin(default = None)]
    pub task_features: Option<usize>,
    /// Width of shared rows; None is that of the model.
    #[gin(default = None)]
    pub shared_features: Option<usize>,
}

only_axes! {
    /// The logical axes of shared rows.
    SharedAxes = ["prompt", "embed"], "axes have prompt-tuning's names";
    /// The logical axes of the numbers of tasks.
    TaskAxes = ["tasks", "prompt+embed"], "axes have prompt-tuning's names";
}

impl TrainMultiTaskPrompt {
    /// The prompts as a part of a network.
    pub(super) fn rows(&self, stream: StreamDims) -> LearnedRows {
        let (_, own) = self.prompt.named();
        LearnedRows {
            kind: RowsKind::Prompt,
            count: own.length,
            stream,
            place: RowsPlace::Before,
            is_causal: true,
            initializer: own.shared_init.drawn(),
            given: own.shared_init.given(),
            tasks: Some(TaskRows {
                count: own.num_tasks,
                shared_width: self.prompt.shared_width(stream.emb_dim),
                union: self.prompt.union(),
                naming: match &own.to_task_idx.0 {
                    ToTaskIdx::Identity(_) => TaskNaming::Numbers,
                    ToTaskIdx::Sentinel(it) => TaskNaming::Sentinels(it.vocab_size),
                },
                initializer: own.tasks_init.initializer(),
            }),
        }
    }

    /// The number of rows of an example's prompt, with the parameter that sets it.
    pub(super) fn length(&self) -> (String, usize) {
        let (name, own) = self.prompt.named();
        match &self.prompt {
            MultiTaskPrompt::Concat(concat) => {
                let of_task = concat.task_length.unwrap_or(own.length);
                (format!("{name}.length + task_length"), own.length + of_task)
            }
            _ => (format!("{name}.length"), own.length),
        }
    }

    /// The format of the shared rows, with its parameter.
    pub(super) fn dtype(&self) -> (String, Dtype) {
        let (name, own) = self.prompt.named();
        (format!("{name}.dtype"), own.dtype)
    }

    /// Finds numbers of tasks, ids of a vocabulary of `num_ids` or widths that contradict each other.
    pub(super) fn check(&self, [emb_dim, num_ids]: [usize; 2]) -> Result<(), String> {
        let (name, own) = self.prompt.named();
        if own.num_tasks == 0 {
            return Err(format!("{name}.num_tasks is 0, expected at least 1: set NUM_TASKS"));
        }
        if let ToTaskIdx::Sentinel(SentinelToTask { vocab_size }) = own.to_task_idx.0 {
            let name = "multitask_prompts.sentinel_to_task.vocab_size";
            if !(own.num_tasks..=num_ids).contains(&vocab_size) {
                return Err(format!(
                    "{name} is {vocab_size}, expected the number of the vocabulary's ids: at least {}, one for each task, and at \
                     most {num_ids}, the rows of the embedding (NUM_EMBEDDINGS)",
                    own.num_tasks
                ));
            }
        }
        self.prompt.check_width(emb_dim)
    }
}

impl MultiTaskPrompt {
    /// The parameters that all have, and the name of the class.
    fn named(&self) -> (&'static str, &MultiTaskParameters) {
        match self {
            Self::Add(it) => ("multitask_prompts.AddMultiTaskPrompt", &it.shared),
            Self::Concat(it) => ("multitask_prompts.ConcatMultiTaskPrompt", &it.shared),
            Self::ConcatFeatures(it) => {
                ("multitask_prompts.ConcatFeaturesMultiTaskPrompt", &it.shared)
            }
            Self::Project(it) => ("multitask_prompts.ProjectMultiTaskPrompt", &it.shared),
        }
    }

    fn shared_width(&self, emb_dim: usize) -> usize {
        match self {
            Self::Add(_) | Self::Concat(_) => emb_dim,
            Self::ConcatFeatures(it) => it.shared_features,
            Self::Project(it) => it.shared_features.unwrap_or(emb_dim),
        }
    }

    fn union(&self) -> TaskUnion {
        match self {
            Self::Add(_) => TaskUnion::Sum,
            Self::Concat(it) => TaskUnion::Rows(it.task_length.unwrap_or(it.shared.length)),
            Self::ConcatFeatures(_) => TaskUnion::Columns,
            Self::Project(_) => TaskUnion::Map,
        }
    }

    /// Finds rows of another width than the model's.
    fn check_width(&self, emb_dim: usize) -> Result<(), String> {
        let (parameters, width) = match self {
            Self::Add(_) | Self::Concat(_) => return Ok(()),
            Self::ConcatFeatures(it) => {
                ("shared_features + task_features", it.shared_features + it.task_features)
            }
            Self::Project(it) => {
                let shared = it.shared_features.unwrap_or(emb_dim);
                ("task_features", it.task_features.unwrap_or(shared))
            }
        };
        match (width == emb_dim, self.shared_width(emb_dim)) {
            (true, 1..) => Ok(()),
            (true, 0) => {
                Err(format!("{}.shared_features is 0, expected at least 1", self.named().0))
            }
            (false, _) => Err(format!(
                "{}.{parameters} is {width}, expected {emb_dim}, the width of the model (EMBED_DIM)",
                self.named().0
            )),
        }
    }
}
