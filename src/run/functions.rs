//! Functions that gin files call for a value: T5X's (`t5x/gin_utils.py`), from the time before gin
//! had derived values, t5's lengths of corrupted spans, tasks made of others or of files, and the vocabularies of a
//! model.

use num_traits::Zero;

use crate::data::{
    CreateTaskFromTfexampleFile, PromptMixture, PromptRows, PromptTaskName, RandomSpansHelper,
    RandomSpansTargetsLength, RandomSpansTokensLength, WithMissingTaskSplitsRemoved, WithNewVocab,
    WithTruncatedData,
};
use crate::gin::{Configurable, Expression, Function, Operator, Registry, Value, ValueKind};
use crate::models::flaxformer::MultiQueryAttention;
use crate::models::t5::{EncodeString, Length};
use crate::models::{GetInputVocabulary, GetOutputVocabulary};
use crate::optim::MatchAny;
use crate::partition::{ComputeNumModelPartitions, MultiTaskAxisRules, PromptAxisRules};

/// Adds all functions to the registry.
pub fn with_functions(registry: Registry) -> Registry {
    with_task_functions(registry)
        .with_function::<SumFn>()
        .with_function::<BoolFn>()
        .with_function::<StringSplitFn>()
        .with_function::<GetInputVocabulary>()
        .with_function::<GetOutputVocabulary>()
        .with_function::<ComputeNumModelPartitions>()
        .with_function::<PromptAxisRules>()
        .with_function::<MultiTaskAxisRules>()
        .with_function::<MatchAny>()
        .with_function::<EncodeString>()
        .with_function::<Length>()
        .with::<MultiQueryAttention>()
}

/// Adds the functions that tasks may call.
pub fn with_task_functions(registry: Registry) -> Registry {
    registry
        .with_function::<RandomSpansHelper>()
        .with_function::<RandomSpansTokensLength>()
        .with_function::<RandomSpansTargetsLength>()
        .with_function::<PromptRows>()
        .with_function::<PromptMixture>()
        .with_function::<PromptTaskName>()
        .with_function::<WithNewVocab>()
        .with_function::<WithTruncatedData>()
        .with_function::<WithMissingTaskSplitsRemoved>()
        .with_function::<CreateTaskFromTfexampleFile>()
}

/// The sum of two numbers, or two texts or lists joined.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.gin_utils.sum_fn")]
pub struct SumFn {
    /// The first.
    pub var1: Value,
    /// The second.
    pub var2: Value,
}

impl Function for SumFn {
    fn call(self) -> Result<ValueKind, String> {
        use ValueKind::{List, Str, Tuple};
        match (self.var1.kind.clone(), self.var2.kind.clone()) {
            (Str(first), Str(second)) => Ok(Str(first + &second)),
            (List(first), List(second)) => Ok(List([first, second].concat())),
            (Tuple(first), Tuple(second)) => Ok(Tuple([first, second].concat())),
            _ => {
                let operand = |value| Box::new(Expression::Value(Box::new(value)));
                let (first, second) = (operand(self.var1), operand(self.var2));
                let sum = Expression::Operation(first, Operator::Add, second);
                sum.compute(&mut |value| Ok(value.kind.clone()))
            }
        }
    }
}

/// Whether Python takes a value for true: not zero, not empty, not None.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.gin_utils.bool_fn")]
pub struct BoolFn {
    /// The value.
    pub var1: Value,
}

impl Function for BoolFn {
    fn call(self) -> Result<ValueKind, String> {
        Ok(ValueKind::Bool(match self.var1.kind {
            ValueKind::None => false,
            ValueKind::Bool(value) => value,
            ValueKind::Int(value) => !value.is_zero(),
            ValueKind::Float(value) => value != 0.0,
            ValueKind::Str(text) => !text.is_empty(),
            ValueKind::Bytes(bytes) => !bytes.is_empty(),
            ValueKind::List(items) | ValueKind::Tuple(items) => !items.is_empty(),
            ValueKind::Dict(entries) => !entries.is_empty(),
            _ => true,
        }))
    }
}

/// The parts of a text between separators, or one of them.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.gin_utils.string_split_fn")]
pub struct StringSplitFn {
    /// The text.
    pub text: String,
    /// The separator.
    pub separator: String,
    /// Number of separators that count, from the left; all if negative.
    #[gin(default = -1)]
    pub maxsplit: i64,
    /// Index of the part to take, from the end if negative; all parts if None.
    #[gin(default = None)]
    pub index: Option<i64>,
}

impl Function for StringSplitFn {
    fn call(self) -> Result<ValueKind, String> {
        if self.separator.is_empty() {
            return Err("the separator is empty".to_string());
        }
        let parts: Vec<&str> = match usize::try_from(self.maxsplit) {
            Ok(count) => self.text.splitn(count + 1, &self.separator).collect(),
            Err(_) => self.text.split(&self.separator).collect(),
        };
        let Some(index) = self.index else {
            let item = |part: &&str| Value::unplaced(ValueKind::Str(part.to_string()));
            return Ok(ValueKind::List(parts.iter().map(item).collect()));
        };
        let from_start = if index < 0 { index + parts.len() as i64 } else { index };
        let part = usize::try_from(from_start).ok().and_then(|index| parts.get(index));
        part.map(|part| ValueKind::Str(part.to_string()))
            .ok_or_else(|| format!("there is no part {index}: '{}' has {}", self.text, parts.len()))
    }
}
