//! Calls that specs declare (`#[gin(call(...))]`), on a miniature of Mesh TensorFlow: a function
//! enters a scope, calls another there, and that calls each of a list of layers. The goldens were
//! made by gin-config (calls/mesh.py).

use std::fs;

use gimlet::gin::{
    Configurable, Evaluator, Loaded, Ref, Registry, Request, Suppliable, config_str, load,
    operative_config_str, reach,
};
use gimlet::run::Library;
use serde_json::{Value as Json, json};

use crate::golden::folder;

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.transformer_layers.SelfAttention")]
struct SelfAttention {
    name: Suppliable<String>,
    #[gin(default = 16)]
    num_heads: i64,
    #[gin(default = 128)]
    key_value_size: i64,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.transformer_layers.EncDecAttention")]
struct EncDecAttention {
    name: Suppliable<String>,
    #[gin(default = 16)]
    num_heads: i64,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.transformer_layers.DenseReluDense")]
struct DenseReluDense {
    name: Suppliable<String>,
    #[gin(default = 4096)]
    hidden_size: i64,
    #[gin(default = 0.0)]
    dropout_rate: f64,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
enum Layer {
    SelfAttention(SelfAttention),
    EncDecAttention(EncDecAttention),
    DenseReluDense(DenseReluDense),
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.losses.z_loss")]
struct ZLoss {
    step: Suppliable<i64>,
    #[gin(default = 1e-4)]
    weight: f64,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.transformer.make_layer_stack")]
struct MakeLayerStack {
    name: Suppliable<String>,
    #[gin(call(inherits, supplies = ["name"]))]
    layers: Vec<Ref<Layer>>,
    #[gin(default = 6)]
    num_layers: i64,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.transformer.Unitransformer")]
struct Unitransformer {
    layer_stack: Suppliable<MakeLayerStack>,
    #[gin(default = 1024)]
    d_model: i64,
    #[gin(default = None, call(scope = "loss", supplies = ["step"]))]
    loss_fn: Option<Ref<ZLoss>>,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.transformer.make_bitransformer")]
struct MakeBitransformer {
    vocab_size: Suppliable<i64>,
    #[gin(default = true)]
    shared_embedding: bool,
    #[gin(method, call(scope = "encoder", supplies = ["name"]))]
    encoder_layers: MakeLayerStack,
    #[gin(method, call(scope = "encoder", supplies = ["layer_stack"]))]
    encoder: Unitransformer,
    #[gin(method, call(scope = "decoder", supplies = ["name"]))]
    decoder_layers: MakeLayerStack,
    #[gin(method, call(scope = "decoder", supplies = ["layer_stack"]))]
    decoder: Unitransformer,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.utils.run")]
struct Run {
    steps: i64,
    #[gin(method, call(supplies = ["vocab_size"]))]
    model: MakeBitransformer,
}

impl Layer {
    fn to_json(&self) -> Json {
        match self {
            Self::SelfAttention(layer) => json!({
                "layer": "SelfAttention",
                "num_heads": layer.num_heads,
                "key_value_size": layer.key_value_size,
            }),
            Self::EncDecAttention(layer) => {
                json!({"layer": "EncDecAttention", "num_heads": layer.num_heads})
            }
            Self::DenseReluDense(layer) => json!({
                "layer": "DenseReluDense",
                "hidden_size": layer.hidden_size,
                "dropout_rate": layer.dropout_rate,
            }),
        }
    }
}

impl Run {
    fn to_json(&self) -> Json {
        let side = |stack: &MakeLayerStack, side: &Unitransformer| {
            let layers: Vec<Json> = stack.layers.iter().map(|layer| layer.to_json()).collect();
            json!({
                "layer_stack": {"layers": layers, "num_layers": stack.num_layers},
                "d_model": side.d_model,
                "loss_fn": side.loss_fn.as_ref().map(|loss| json!({"weight": loss.weight})),
            })
        };
        let model = &self.model;
        json!({"steps": self.steps, "model": {
            "shared_embedding": model.shared_embedding,
            "encoder": side(&model.encoder_layers, &model.encoder),
            "decoder": side(&model.decoder_layers, &model.decoder),
        }})
    }
}

/// The miniature's file with more statements.
fn loaded(more: &str) -> (Loaded, Registry) {
    let registry = Registry::default().with::<Run>();
    let request = Request {
        files: vec![folder("calls").join("mesh.gin").display().to_string()],
        bindings: vec![("more".to_string(), more.to_string())],
        ..Request::default()
    };
    match load(&request, &Library, &registry) {
        Ok(loaded) => (loaded, registry),
        Err(diagnostics) => panic!("{}", diagnostics.render(false)),
    }
}

fn expected(ending: &str) -> String {
    fs::read_to_string(folder("calls").join(format!("mesh.{ending}"))).expect("made by mesh.py")
}

fn reference() -> Json {
    serde_json::from_str(&expected("json")).expect("it is JSON")
}

/// Evaluates the run, or returns the first mistake.
fn evaluated(more: &str) -> Result<Run, String> {
    let (loaded, registry) = loaded(more);
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let run = evaluator.evaluate_in::<Run>("");
    match evaluator.into_diagnostics().first() {
        None => Ok(run.expect("a failure has a diagnostic")),
        Some(mistake) => Err(mistake.message.clone()),
    }
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.misspelled.call")]
struct MisspelledCall {
    #[gin(call(supplies = ["nmae"]))]
    layer: Ref<Layer>,
}

#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh.misspelled.method")]
struct MisspelledMethod {
    // A parameter of another configurable.
    #[gin(method, call(supplies = ["step"]))]
    layers: MakeLayerStack,
}

#[test]
#[should_panic = "`mesh.misspelled.call.layer` supplies `nmae`"]
fn a_misspelled_argument_of_a_call_is_found_at_registration() {
    let _ = Registry::default().with::<MisspelledCall>();
}

#[test]
#[should_panic = "`mesh.misspelled.method` supplies `step` to `mesh.transformer.make_layer_stack`"]
fn an_argument_that_the_called_configurable_lacks_is_found_at_registration() {
    let _ = Registry::default().with::<MisspelledMethod>();
}

#[test]
fn declared_calls_give_what_gin_config_gives() {
    let run = evaluated("").expect("the callers supply what is not bound");
    assert_eq!(run.to_json(), reference()["run"]);
}

#[test]
fn supplied_arguments_hide_bindings() {
    let run =
        evaluated("Unitransformer.layer_stack = @unused/make_layer_stack()").expect("it runs");
    let model = run.model;
    assert_eq!(model.encoder.layer_stack, Suppliable(None));
    assert_eq!(model.decoder_layers.name, Suppliable(None));
    let Layer::SelfAttention(layer) = &*model.encoder_layers.layers[0] else { panic!("{model:?}") };
    assert_eq!(layer.name, Suppliable(None));
}

#[test]
fn an_argument_that_this_caller_does_not_supply_is_required() {
    let (loaded, registry) = loaded("");
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    assert!(evaluator.evaluate_in::<EncDecAttention>("decoder").is_err());
    let mistakes = evaluator.into_diagnostics();
    assert_eq!(mistakes[0].message, "`decoder/EncDecAttention.name` is required and has no value");
}

#[test]
fn declared_calls_are_followed_as_gin_config_makes_them() {
    let (mut loaded, registry) = loaded("");
    assert_eq!(config_str(&loaded.config, &registry), expected("config.golden"));
    let reached = reach(&loaded.config, &registry, [(Vec::new(), Run::schema())]);
    assert!(reached.missing.is_empty(), "{:?}", reached.missing);
    let operative = operative_config_str(&loaded.config, &reached, &registry);
    assert_eq!(operative, expected("golden"));

    let keys = loaded.config.bindings.iter().flat_map(|((scope, name), arguments)| {
        arguments.keys().map(move |argument| (scope.clone(), *name, argument.clone()))
    });
    let unread = keys.filter(|key| !reached.used.contains(key));
    let mut unread: Vec<_> =
        unread.map(|(scope, name, arg)| format!("{scope}/{name}.{arg}")).collect();
    unread.sort();
    assert_eq!(json!(unread), reference()["unread"]);
    let warnings = loaded.settle(&[(String::new(), Run::schema())], &registry);
    assert_eq!(warnings.len(), unread.len(), "each of them is a warning");
}
