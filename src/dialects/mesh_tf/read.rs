//! Evaluates the configurables that a run of Mesh TensorFlow calls.

use gimlet_gin::{
    Bound, Config, Configurable, Diagnostic, Evaluator, Loaded, Missing, Registry, Reported,
    Running, Schema, Span, ValueKind,
};

use num_traits::ToPrimitive;

use super::spec::{
    Decode, GetVariableDtype, InferModel, LanguageModel, MakeBitransformer, ModelType, PackDataset,
    Run, SampleAutoregressive, ScoreFromDataset, ScoreFromStrings, SerializeNumMicrobatches,
    TpuEstimatorModelFn, UnitScalingConvention, VarianceScalingInitializer,
};

/// The prefix of names that only this dialect has.
const PACKAGES: [&str; 2] = ["mesh_tensorflow.", "t5.models.mesh_transformer."];

/// The vocabulary that files of 2019 bind, which the task's own replaces.
const VOCABULARY: [&str; 3] = [
    "seqio.SentencePieceVocabulary",
    "t5.models.mesh_transformer.get_sentencepiece_model_path",
    "t5.models.mesh_transformer.get_vocabulary",
];

/// The specs of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    /// The root.
    pub run: Run,
    /// The model.
    pub model: ModelSpecs,
    /// Types of numbers.
    pub dtype: GetVariableDtype,
    /// Microbatches.
    pub microbatches: SerializeNumMicrobatches,
    /// The checkpoint to start from, in older files.
    pub estimator: TpuEstimatorModelFn,
    /// Packing.
    pub packing: PackDataset,
    /// Decoding of an encoder-decoder.
    pub decode: Decode,
    /// Decoding of a decoder alone.
    pub sample: SampleAutoregressive,
    /// Predictions; other modes have none.
    pub infer: Option<InferModel>,
    /// Scores of texts; other modes have none.
    pub score: Option<ScoreFromStrings>,
}

/// The model of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSpecs {
    /// An encoder and a decoder.
    Bitransformer(Box<MakeBitransformer>),
    /// A decoder alone.
    LanguageModel(Box<LanguageModel>),
}

/// Whether a configuration that was loaded with the dialect's names binds or refers to any of them.
pub fn is_mesh_tf(config: &Config) -> bool {
    let is_own = |name: &&str| PACKAGES.iter().any(|package| name.starts_with(package));
    config.mentioned.iter().any(is_own)
}

/// A number of sentinels that files bind, and its place.
pub type Sentinels = (u64, Span);

/// Removes the vocabulary, which is that of the task, as t5 itself replaces it. Returns the number of sentinels that the
/// files bind.
pub fn without_effect(loaded: &mut Loaded) -> Option<Sentinels> {
    let bindings = &mut loaded.config.bindings;
    let bound = bindings.get(&(String::new(), VOCABULARY[0])).and_then(|of| of.get("extra_ids"));
    let sentinels = bound.and_then(|bound| match &bound.value.kind {
        ValueKind::Int(number) => Some((number.to_u64()?, bound.key)),
        _ => None,
    });
    for ((scope, name), arguments) in &mut *bindings {
        if scope.is_empty() && *name == Run::schema().name {
            arguments.remove("vocabulary");
        }
    }
    let is_replaced = |scope: &str, name: &str| scope.is_empty() && VOCABULARY.contains(&name);
    let is_of_run = |(scope, name, argument): &(String, &str, String)| {
        scope.is_empty() && *name == Run::schema().name && argument == "vocabulary"
    };
    bindings.retain(|(scope, name), _| !is_replaced(scope, name));
    loaded.diagnostics.retain(|diagnostic| {
        let mut wrong_for = diagnostic.wrong_for.iter();
        diagnostic.wrong_for.is_empty()
            || !wrong_for.all(|key| is_replaced(&key.0, key.1) || is_of_run(key))
    });
    sentinels
}

/// Adds to reports of missing macros how a user of t5 gives them.
pub fn explain(diagnostics: &mut [Diagnostic]) {
    let values =
        [("tpu_topology", "'v3-8'"), ("init_checkpoint", "'MODEL_DIR/model.ckpt-1000000'")];
    for diagnostic in diagnostics.iter_mut().filter(|one| one.missing == Some(Missing::Macro)) {
        let is_it = |name: &&(&str, &str)| diagnostic.message.contains(&format!("`{}`", name.0));
        if let Some((name, value)) = values.iter().find(is_it) {
            let none =
                if *name == "init_checkpoint" { ", or None to start from scratch" } else { "" };
            let help = format!(
                "published files leave it to the command line: --gin_param=\"{name} = {value}\"{none}"
            );
            diagnostic.help.push(help);
        }
    }
}

/// Returns the configurables that a run calls by itself, each in its scope.
pub fn running(config: &Config) -> Vec<Running> {
    let root = |schema: &'static Schema| (String::new(), schema);
    let model = match bound_str(config, "model_type").unwrap_or("bitransformer") {
        "bitransformer" => MakeBitransformer::schema(),
        _ => LanguageModel::schema(),
    };
    let mut out = vec![
        root(Run::schema()),
        root(model),
        root(GetVariableDtype::schema()),
        root(TpuEstimatorModelFn::schema()),
    ];
    out.extend(match bound_str(config, "mode").unwrap_or("train") {
        "train" => vec![root(SerializeNumMicrobatches::schema()), root(PackDataset::schema())],
        "infer" => vec![
            root(Decode::schema()),
            root(SampleAutoregressive::schema()),
            root(InferModel::schema()),
        ],
        "score_from_dataset" => vec![root(ScoreFromDataset::schema())],
        "score_from_strings" => vec![root(ScoreFromStrings::schema())],
        _ => vec![root(Decode::schema()), root(SampleAutoregressive::schema())],
    });
    out
}

/// The text that a parameter of `run` is bound to.
fn bound_str<'a>(config: &'a Config, parameter: &str) -> Option<&'a str> {
    let value = config.bound(&[], Run::schema().name, parameter)?;
    match &value.kind {
        ValueKind::Str(text) => Some(text),
        ValueKind::Macro(used) => match &config.macros.get(&used.path())?.value.kind {
            ValueKind::Str(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Evaluates a run.
///
/// # Errors
/// Every mistake.
pub fn read(loaded: &Loaded, registry: &Registry) -> Result<Meaning, Vec<Diagnostic>> {
    let mut cx = Evaluator::new(&loaded.config, registry);
    let meaning = evaluated(&mut cx);
    let mistakes = cx.into_diagnostics();
    match meaning {
        Ok(meaning) if mistakes.is_empty() => Ok(meaning),
        _ => Err(mistakes),
    }
}

fn evaluated(cx: &mut Evaluator<'_>) -> Result<Meaning, Reported> {
    let run = cx.evaluate_in::<Run>("");
    let model_type = run.as_ref().map_or(ModelType::Bitransformer, |run| run.model_type);
    let model = match model_type {
        ModelType::Bitransformer => cx.evaluate_in("").map(Box::new).map(ModelSpecs::Bitransformer),
        _ => cx.evaluate_in("").map(Box::new).map(ModelSpecs::LanguageModel),
    };
    let dtype = cx.evaluate_in("");
    let microbatches = cx.evaluate_in("");
    let estimator = cx.evaluate_in("");
    let packing = cx.evaluate_in("");
    let decode = cx.evaluate_in("");
    let sample = cx.evaluate_in("");
    // They have only T5's values, so that nothing is translated.
    let initializer = cx.evaluate_in::<VarianceScalingInitializer>("");
    let scaling = cx.evaluate_in::<UnitScalingConvention>("");
    let run = run?;
    let infer = (run.mode == "infer").then(|| cx.evaluate_in("")).transpose();
    let score = (run.mode == "score_from_strings").then(|| cx.evaluate_in("")).transpose();
    initializer?;
    scaling?;
    Ok(Meaning {
        run,
        model: model?,
        dtype: dtype?,
        microbatches: microbatches?,
        estimator: estimator?,
        packing: packing?,
        decode: decode?,
        sample: sample?,
        infer: infer?,
        score: score?,
    })
}

/// Places of bindings, for messages about what is translated.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    loaded: &'a Loaded,
}

impl<'a> Places<'a> {
    /// Creates the places of a loaded configuration.
    pub fn new(loaded: &'a Loaded) -> Self {
        Self { loaded }
    }

    /// Returns the innermost binding of a parameter in a scope.
    pub fn bound<T: Configurable>(&self, scope: &str, parameter: &str) -> Option<&'a Bound> {
        self.bound_to(T::schema(), scope, parameter)
    }

    /// Returns the innermost binding of a configurable's parameter in a scope.
    pub fn bound_to(&self, schema: &Schema, scope: &str, parameter: &str) -> Option<&'a Bound> {
        let parts: Vec<&str> = scope.split('/').filter(|part| !part.is_empty()).collect();
        (0..=parts.len()).rev().find_map(|depth| {
            let key = (parts[..depth].join("/"), schema.name);
            self.loaded.config.bindings.get(&key)?.get(parameter)
        })
    }

    /// Returns the place of a binding, as `file:line`; `None` for a default.
    pub fn of<T: Configurable>(&self, scope: &str, parameter: &str) -> Option<String> {
        Some(self.loaded.sources.place(self.bound::<T>(scope, parameter)?.key))
    }

    /// Makes a mistake at the place of a binding in the root scope.
    pub fn mistake_of(
        &self,
        configurable: &'static str,
        parameter: &str,
        message: impl Into<String>,
    ) -> Diagnostic {
        let bindings = self.loaded.config.bindings.get(&(String::new(), configurable));
        match bindings.and_then(|bound| bound.get(parameter)) {
            Some(bound) => Diagnostic::error(self.written(bound), message),
            None => Diagnostic::nowhere(message),
        }
    }

    /// Returns the place of a value; where a macro stands for it, that of the macro's value.
    fn written(&self, bound: &Bound) -> Span {
        let ValueKind::Macro(used) = &bound.value.kind else { return place(bound) };
        let defined = self.loaded.config.macros.get(&used.path());
        defined.map_or_else(|| place(bound), |defined| self.written(defined))
    }

    /// Makes a mistake at the place of a binding.
    pub fn mistake<T: Configurable>(
        &self,
        scope: &str,
        parameter: &str,
        message: impl Into<String>,
    ) -> Diagnostic {
        match self.bound::<T>(scope, parameter) {
            Some(bound) => Diagnostic::error(self.written(bound), message),
            None => Diagnostic::nowhere(message),
        }
    }

    /// Returns `file:line` of a place.
    pub fn text(&self, span: Span) -> String {
        self.loaded.sources.place(span)
    }

    /// The bindings and macros.
    pub fn config(&self) -> &'a Config {
        &self.loaded.config
    }
}

/// The place of a bound value, or that of its key.
pub fn place(bound: &Bound) -> Span {
    match bound.value.span == Span::NOWHERE {
        true => bound.key,
        false => bound.value.span,
    }
}
