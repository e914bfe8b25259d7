//! Values that gin files of Mesh TensorFlow write in forms of their own: those of which one alone has a
//! meaning here, and those that may have several types.

use gimlet_gin::{Evaluator, FromGin, Ref, Registry, Reported, Slot, Value, ValueKind};
use num_traits::ToPrimitive;

use super::spec::{AutoTrainSteps, Schedule, TpuMeshShape};

/// The path of a file, or those of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filenames(pub Vec<String>);

impl FromGin for Filenames {
    fn expected() -> String {
        "a str or a list of str".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(filename) => Ok(Self(vec![filename.clone()])),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(_: &mut Registry) {}
}

gimlet_gin::only! {
    /// One model.
    NoEnsemble = ValueKind::None, "Gimlet trains one model; train the models of an ensemble one by one";
    /// Attention without further options.
    NoAttentionOptions = ValueKind::None, "attention is T5's, without options";
    /// Attention as T5 computes it.
    NoAttentionFunction = ValueKind::None, "attention is T5's, without variants";
    /// Predictions of the run's mode.
    NoPredictFn = ValueKind::None, "predictions are those of `run.mode`";
    /// The cross-entropy of the softmax.
    NoLossFn = ValueKind::None, "the loss is the cross-entropy of the softmax, with z_loss";
    /// Names of variables with the number of their block.
    BlockScope = ValueKind::Bool(true), "variables are named by their block";
    /// One embedding for inputs and targets.
    SharedEmbedding = ValueKind::Bool(true), "inputs and targets have one embedding, as T5's";
    /// Projections of all heads in one matrix.
    CombineDims = ValueKind::Bool(true), "each projection is one matrix, as T5's";
    /// Projections of all heads in one matrix.
    NoQueryHeadsDims = ValueKind::Bool(false), "each projection is one matrix, as T5's";
    /// Attention whose scale is in the query's initializer.
    FoldScaling = ValueKind::Bool(true), "the scale of attention is in the query's initializer, as T5's";
    /// Keys and values with a projection each.
    NoSharedKv = ValueKind::Bool(false), "keys and values have a projection each, as T5's";
    /// Attention without learned keys and values.
    NoMemoryHeads = ValueKind::from(0), "attention has no learned keys and values";
    /// Projections without bias.
    NoBias = ValueKind::Bool(false), "projections have no bias, as T5's";
    /// Embeddings in T5's scale.
    NoClassifierScale = ValueKind::Bool(false), "embeddings have T5's scale";
    /// Parameters in T5's scale.
    NoUnitScaling = ValueKind::Bool(false), "parameters have T5's scale";
    /// First values of unit variance.
    UnitVariance = ValueKind::Float(1.0), "parameters begin with T5's variance";
    /// First values by a kernel's inputs.
    FanIn = ValueKind::Str("fan_in".to_string()), "parameters begin with T5's variance";
    /// First values of a Gaussian.
    Normal = ValueKind::Str("normal".to_string()), "parameters begin with T5's distribution";
    /// Buckets of relative positions.
    Buckets = ValueKind::from(32), "relative positions have T5's 32 buckets";
    /// Labels as they are.
    NoSmoothing = ValueKind::Float(0.0), "Mesh TensorFlow's smoothing counts the padded rows of the vocabulary; train without";
    /// No dropout of whole tokens.
    NoTokenDropout = ValueKind::Float(0.0), "whole tokens are not dropped";
    /// T5's constant in norms.
    NormEpsilon = ValueKind::Float(1e-6), "norms add T5's 1e-06";
    /// No sinusoids.
    NoSinusoids = ValueKind::Bool(false), "positions are relative, as T5's";
    /// Checkpoints restored as a whole.
    NoVariableFilter = ValueKind::Str(String::new()), "a checkpoint is restored as a whole; `gimlet checkpoint convert` selects arrays";
    /// One sum over all shards of a batch.
    OneOuterBatch = ValueKind::from(1), "a batch has one dimension";
}

/// A number of steps, which old files write as a float: `10000.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeSteps(pub u64);

impl FromGin for WholeSteps {
    fn expected() -> String {
        "an int of 0 or more".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match value.kind {
            ValueKind::Float(steps) if steps.fract() == 0.0 => {
                steps.to_u64().map(Self).ok_or_else(|| cx.mismatch(value, &Self::expected()))
            }
            _ => u64::from_gin(value, cx).map(Self),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.0.to_gin()
    }
}

/// Declares how a type with several forms reads one of them.
macro_rules! forms {
    ($name:ident, $expected:expr, $value:ident, $cx:ident, $read:block, $to_gin:expr) => {
        impl FromGin for $name {
            fn expected() -> String {
                $expected
            }

            fn from_gin($value: &Value, $cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
                $read
            }

            fn to_gin(&self) -> Option<ValueKind> {
                let to_gin: fn(&Self) -> Option<ValueKind> = $to_gin;
                to_gin(self)
            }

            fn register(registry: &mut Registry) {
                Schedule::register_slot(registry);
                AutoTrainSteps::register_slot(registry);
                TpuMeshShape::register_slot(registry);
            }
        }
    };
}

/// The size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// Sequences in the whole batch.
    SequencesPerBatch(u64),
    /// Tokens of the whole batch, by the longest feature.
    TokensPerBatch(u64),
    /// Sequences for each data-parallel replica.
    SequencesPerReplica(u64),
    /// Tokens for each data-parallel replica, by the longest feature.
    TokensPerReplica(u64),
}

impl BatchSize {
    const METHODS: [&'static str; 4] =
        ["sequences_per_batch", "tokens_per_batch", "sequences_per_replica", "tokens_per_replica"];
}

forms!(
    BatchSize,
    "an int of sequences, or a pair of a method and an int".to_string(),
    value,
    cx,
    {
        if let ValueKind::Int(_) = value.kind {
            return cx.read(value).map(Self::SequencesPerBatch);
        }
        let (ValueKind::Tuple(pair) | ValueKind::List(pair)) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let [method, number] = &pair[..] else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let name: String = cx.read(method)?;
        let number = cx.read(number)?;
        match Self::METHODS.iter().position(|known| *known == name) {
            Some(0) => Ok(Self::SequencesPerBatch(number)),
            Some(1) => Ok(Self::TokensPerBatch(number)),
            Some(2) => Ok(Self::SequencesPerReplica(number)),
            Some(3) => Ok(Self::TokensPerReplica(number)),
            _ => Err(cx.unfit(method, &gimlet_gin::one_of(&Self::METHODS), &format!("'{name}'"))),
        }
    },
    |size| {
        let (method, number) = match size {
            BatchSize::SequencesPerBatch(number) => (0, number),
            BatchSize::TokensPerBatch(number) => (1, number),
            BatchSize::SequencesPerReplica(number) => (2, number),
            BatchSize::TokensPerReplica(number) => (3, number),
        };
        (BatchSize::METHODS[method].to_string(), *number).to_gin()
    }
);

/// The last step of a training.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainSteps {
    /// A number.
    Given(u64),
    /// As many as the tokens to train on need.
    Auto(Ref<AutoTrainSteps>),
}

forms!(
    TrainSteps,
    "an int of 0 or more, or @auto_train_steps".to_string(),
    value,
    cx,
    {
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(Self::Auto),
            _ => cx.read(value).map(Self::Given),
        }
    },
    |steps| match steps {
        TrainSteps::Given(steps) => steps.to_gin(),
        TrainSteps::Auto(function) => function.to_gin(),
    }
);

/// The learning rate of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum LearningRate {
    /// Adafactor's own: one over the square root of the step, at most 0.01.
    Adafactors,
    /// The product of functions and numbers.
    Product(Vec<Factor>),
}

/// A factor of a learning rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// A number.
    Number(f64),
    /// A function of the step.
    Function(Ref<Schedule>),
}

forms!(
    Factor,
    "a float or a reference to a learning rate schedule".to_string(),
    value,
    cx,
    {
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(Self::Function),
            ValueKind::Float(_) | ValueKind::Int(_) => cx.read(value).map(Self::Number),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    },
    |_| None
);

forms!(
    LearningRate,
    "None, a float, a reference to a learning rate schedule, or a list of these".to_string(),
    value,
    cx,
    {
        match &value.kind {
            ValueKind::None => Ok(Self::Adafactors),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self::Product),
            _ => cx.read(value).map(|factor| Self::Product(vec![factor])),
        }
    },
    |rate| match rate {
        LearningRate::Adafactors => Some(ValueKind::None),
        LearningRate::Product(_) => None,
    }
);

/// The shape of a mesh of devices.
#[derive(Clone, Debug, PartialEq)]
pub enum MeshShape {
    /// Of a TPU.
    Tpu(TpuMeshShape),
    /// The sizes of dimensions by name.
    Dimensions(Vec<(String, u64)>),
}

forms!(
    MeshShape,
    "@tpu_mesh_shape(), or a str such as 'batch:8,model:2'".to_string(),
    value,
    cx,
    {
        let dimension = |(name, size): (&str, &str)| {
            size.trim().parse().ok().map(|size| (name.trim().to_string(), size))
        };
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(Self::Tpu),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self::Dimensions),
            ValueKind::Str(text) => {
                let parts = text.split([',', ';', ' ']).filter(|part| !part.is_empty());
                let read: Option<Vec<_>> =
                    parts.map(|part| part.split_once(':').and_then(dimension)).collect();
                read.map(Self::Dimensions)
                    .ok_or_else(|| cx.unfit(value, &Self::expected(), &format!("'{text}'")))
            }
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    },
    |_| None
);

/// The checkpoints of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointStep {
    /// Each new one, as a training writes it.
    New,
    /// All, in ascending order.
    All,
    /// The newest.
    Newest,
    /// Those nearest to these steps.
    Nearest(Vec<u64>),
}

forms!(
    CheckpointStep,
    "None, 'all', an int or a list of ints".to_string(),
    value,
    cx,
    {
        match &value.kind {
            ValueKind::None => Ok(Self::New),
            ValueKind::Str(text) if text == "all" => Ok(Self::All),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self::Nearest),
            ValueKind::Int(number) if number.to_i64() == Some(-1) => Ok(Self::Newest),
            ValueKind::Int(_) => cx.read(value).map(|step| Self::Nearest(vec![step])),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    },
    |step| match step {
        CheckpointStep::New => Some(ValueKind::None),
        CheckpointStep::All => "all".to_string().to_gin(),
        CheckpointStep::Newest => Some(ValueKind::from(-1)),
        CheckpointStep::Nearest(steps) => steps.to_gin(),
    }
);

/// One activation of a feed-forward layer, or several whose results are multiplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activations(pub Vec<String>);

forms!(
    Activations,
    "a str or a list of them".to_string(),
    value,
    cx,
    {
        match &value.kind {
            ValueKind::Str(_) => cx.read(value).map(|name| Self(vec![name])),
            _ => cx.read(value).map(Self),
        }
    },
    |activations| match &activations.0[..] {
        [one] => one.to_gin(),
        several => several.to_vec().to_gin(),
    }
);

/// A layer of each block: its class, with the name of its variables if it has one of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedLayer<T> {
    /// The name.
    pub name: Option<String>,
    /// The class.
    pub class: Ref<T>,
}

impl<T: Slot> FromGin for NamedLayer<T> {
    fn expected() -> String {
        format!("{} or a pair of a name and one of them", Ref::<T>::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let (ValueKind::Tuple(parts) | ValueKind::List(parts)) = &value.kind else {
            return cx.read(value).map(|class| Self { name: None, class });
        };
        let of_kind = |is: fn(&ValueKind) -> bool| parts.iter().find(|part| is(&part.kind));
        if let Some(arguments) = of_kind(|kind| matches!(kind, ValueKind::Dict(_))) {
            let reason = "layers of one stack have the same dimensions";
            return Err(cx.unfit_because(
                arguments,
                "a layer without arguments of its own",
                reason,
            ));
        }
        let class = of_kind(|kind| matches!(kind, ValueKind::Reference(_)));
        let class = class.ok_or_else(|| cx.mismatch(value, &Self::expected()))?;
        let name = of_kind(|kind| matches!(kind, ValueKind::Str(_) | ValueKind::Macro(_)));
        let name = name.map(|name| cx.read(name)).transpose()?;
        Ok(Self { name, class: cx.read(class)? })
    }

    fn register(registry: &mut Registry) {
        T::register_slot(registry);
    }
}
