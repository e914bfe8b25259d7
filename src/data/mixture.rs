//! Mixtures as gin declares them.

use super::rates::Rate;
use gimlet_gin::{Configurable, Evaluator, FromGin, Ref, Registry, Reported, Value, ValueKind};

/// Several tasks sampled at given rates. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.Mixture",
    alias = "seqio.dataset_providers.Mixture",
    ignored(source_info = "gin knows the file and the line")
)]
pub struct Mixture {
    /// The scope in which the mixture was declared.
    #[gin(scope)]
    pub scope: String,
    /// Name under which the mixture is known; the scope if not given.
    #[gin(default = None)]
    pub name: Option<String>,
    /// Names of tasks or mixtures, each alone or as `(name, rate)`; lists of them are joined. Of a rate by step, such as
    /// `{0: 3.0, 10000: 1.0}`, each number counts from its training step on.
    pub tasks: MixtureEntries,
    /// Rate of the entries without one.
    #[gin(default = None)]
    pub default_rate: Option<Rate>,
    /// Draws examples; None draws by rate until the first task ends. The `sample_fn` of a
    /// mixture within it is ignored.
    #[gin(default = None)]
    pub sample_fn: Option<Ref<SampleFromDatasets>>,
}

/// Draws by rate, as a bare reference: `@tf.data.Dataset.sample_from_datasets`. Its parameter
/// matters only where data end, as in an evaluation: training repeats the data. Source: TensorFlow
/// `dataset_ops.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "tf.data.Dataset.sample_from_datasets")]
pub struct SampleFromDatasets {
    /// Whether the mixture ends with its first task that ends; otherwise it ends with the last one,
    /// and the remaining tasks are drawn at their rates.
    #[gin(default = false)]
    pub stop_on_empty_dataset: bool,
}

impl Mixture {
    /// The name under which the mixture is known.
    pub fn mixture_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.scope)
    }
}

/// The tasks and mixtures of a mixture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixtureEntries(
    /// In the order written.
    pub Vec<MixtureEntry>,
);

/// A task or mixture within a mixture.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureEntry {
    /// Its name.
    pub name: String,
    /// Its rate relative to the others; the mixture's default if not given.
    pub rate: Option<Rate>,
}

impl FromGin for MixtureEntries {
    fn expected() -> String {
        format!("a list, each item {}", MixtureEntry::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let (ValueKind::List(items) | ValueKind::Tuple(items)) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let mut entries = Vec::new();
        let mut failed = None;
        for item in items {
            match cx.read::<Item>(item) {
                Ok(Item(more)) => entries.extend(more),
                Err(reported) => failed = Some(reported),
            }
        }
        failed.map_or(Ok(Self(entries)), Err)
    }

    fn register(registry: &mut Registry) {
        Rate::register(registry);
    }
}

/// An entry, or a list of entries that a macro contains.
struct Item(Vec<MixtureEntry>);

impl FromGin for Item {
    fn expected() -> String {
        MixtureEntry::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Tuple(items) | ValueKind::List(items) if !is_pair(items) => {
                cx.read::<MixtureEntries>(value).map(|entries| Self(entries.0))
            }
            _ => MixtureEntry::from_gin(value, cx).map(|entry| Self(vec![entry])),
        }
    }
}

/// Whether the items are a name and its rate, not two names.
fn is_pair(items: &[Value]) -> bool {
    // The call of a function gives a name: `@seqio.mixture_or_task_with_new_vocab()`.
    let is_call =
        |kind: &ValueKind| matches!(kind, ValueKind::Reference(reference) if reference.called);
    let is_name = |kind: &ValueKind| {
        is_call(kind) || matches!(kind, ValueKind::Str(_) | ValueKind::Computed(_))
    };
    let is_entries = |kind: &ValueKind| {
        is_call(kind)
            || matches!(kind, ValueKind::Str(_) | ValueKind::Tuple(_) | ValueKind::List(_))
    };
    match items {
        [name, rate] => is_name(&name.kind) && !is_entries(&rate.kind),
        _ => false,
    }
}

impl FromGin for MixtureEntry {
    fn expected() -> String {
        format!("a str, or a pair of a str and {}", Rate::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(name) => Ok(Self { name: name.clone(), rate: None }),
            ValueKind::Tuple(_) | ValueKind::List(_) => {
                let (name, rate) = cx.read::<(String, Rate)>(value)?;
                Ok(Self { name, rate: Some(rate) })
            }
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }
}
