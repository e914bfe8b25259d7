//! Compares T5s with soft prompts with google-research/prompt-tuning's, whose numbers prompt_tuning.py writes: float32, each array
//! within 1e-5 of its norm. The models are those of the library's gin files.

use gimlet::checkpoint::{Array, npy_bytes};
use gimlet::gin::{Configurable, Evaluator, Request, load};
use gimlet::metrics::sum;
use gimlet::models::given_rows::Anchored;
use gimlet::models::t5::T5;
use gimlet::models::{
    BaseModel, Batch, CrossEntropyEncoderDecoderModel, EncoderDecoderModel, Network,
    PerceptronLossEncoderDecoderModel, PredictingNetwork, WaywardPromptEncoderDecoderModel,
    feature,
};
use gimlet::nn::{Dropout, ParamSpec, Params};
use gimlet::optim::{Gradient, Optimizer, ParamShape};
use gimlet::run::{Library, registry};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::adafactor::noise;
use crate::fixture;

/// The tiny network, as prompt_tuning.py has it.
const DIMENSIONS: [&str; 13] = [
    "NUM_ENCODER_LAYERS = 2",
    "NUM_DECODER_LAYERS = 2",
    "NUM_HEADS = 2",
    "HEAD_DIM = 8",
    "EMBED_DIM = 16",
    "MLP_DIM = 32",
    "NUM_EMBEDDINGS = 64",
    "ACTIVATION_DTYPE = 'float32'",
    "DROPOUT_RATE = 0.0",
    "PROMPT_LENGTH = 5",
    "VOCABULARY = @seqio.PassThroughVocabulary()",
    "seqio.PassThroughVocabulary.size = 64",
    "seqio.PassThroughVocabulary.eos_id = 1",
];

const IA3: &str = "prompt_tuning/configs/extended/models/ia3_t5_1_1.gin";
const PROMPTED: &str = "prompt_tuning/configs/models/t5_1_1_prompt.gin";
const PER_LAYER: &str = "prompt_tuning/configs/extended/models/t5_1_1_per_layer_prompt.gin";
const WAYWARD: &str = "prompt_tuning/configs/extended/models/wayward_t5_1_1_prompt.gin";
const MULTITASK: &str = "prompt_tuning/configs/extended/models/multi_task_t5_1_1_prompt.gin";
const PERCEPTRON: &str = "prompt_tuning/extended/perceptron/configs/models";

/// The tasks of the reference.
const OF_TASKS: [&str; 2] = ["NUM_TASKS = 3", "multitask_prompts.sentinel_to_task.vocab_size = 64"];

/// A model of a library file with other bindings.
fn model<M: BaseModel + Configurable>(file: &str, differences: &[&str]) -> M {
    let registry = registry();
    let bindings = DIMENSIONS.iter().chain(differences);
    let bindings = bindings.map(|text| ("flag".to_string(), text.to_string())).collect();
    let request = Request { files: vec![file.to_string()], bindings, ..Request::default() };
    let loaded = load(&request, &Library, &registry);
    let loaded = loaded.unwrap_or_else(|list| panic!("{}", list.render(false)));
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let model = evaluator.evaluate_in::<M>("");
    let model = model.unwrap_or_else(|_| panic!("{:?}", evaluator.into_diagnostics()));
    model.check().expect("its values agree");
    model
}

fn expected() -> Value {
    serde_json::from_str(include_str!("prompt_tuning.json")).expect("it is JSON")
}

fn numbers(value: &Value) -> Tensor {
    let numbers = value.as_array().expect("an array").iter();
    let numbers: Vec<f32> = numbers.map(|x| x.as_f64().expect("a number") as f32).collect();
    Tensor::from_slice(&numbers)
}

fn norm(tensor: &Tensor) -> f64 {
    tensor.square().sum(Kind::Double).sqrt().double_value(&[])
}

/// Compares the elements of `found` that `mask` marks.
fn check_where(what: &str, (found, mask): (&Tensor, &Tensor), wanted: &Value) {
    let mask = mask.to_kind(Kind::Float);
    let wanted = numbers(wanted).view_as(found) * &mask;
    let error = norm(&(found * mask - &wanted)) / norm(&wanted);
    assert!(error < 1e-5, "{what}: relative error {error}");
}

fn check(what: &str, found: &Tensor, wanted: &Value) {
    check_where(what, (found, &found.ones_like()), wanted);
}

/// The values of parameters as prompt_tuning.py draws them.
fn values(tree: &[ParamSpec], of_t5: &Value, added: &Value) -> Params {
    Params::from_tensors(tree.iter().map(|param| {
        let entry = [of_t5, added].into_iter().find_map(|entries| entries.get(&param.name));
        let entry = entry.unwrap_or_else(|| panic!("{} is not in the reference", param.name));
        let shape: Vec<usize> = serde_json::from_value(entry["shape"].clone()).expect("a shape");
        assert_eq!(shape, param.shape, "{}", param.name);
        if added.get(&param.name).is_some() {
            assert_eq!(Value::from(param.axes.clone()), entry["axes"], "{}", param.name);
        }
        let seed = entry["seed"].as_u64().expect("a seed") as u32;
        let start = if entry["near_one"] == true { 1.0 } else { 0.0 };
        (param.name.clone(), noise(&shape, seed) / 2.0 + start)
    }))
}

fn rows(batch: &Value, name: &str) -> Vec<Vec<i64>> {
    serde_json::from_value(batch[name].clone()).expect("rows of ids")
}

/// Compares loss, logits, encoding, gradients and beams of a case, and steps of its optimizer if there are some.
fn check_case(name: &str, model: &dyn BaseModel) {
    // Layers that are made again set the generator's state.
    let _held = fixture::generator();
    tch::set_num_threads(1);
    let reference = expected();
    let expected = &reference["cases"][name];
    let inputs = rows(&reference["batch"], "encoder_input_tokens");
    let batch = fixture::batch(&inputs, &rows(&reference["batch"], "decoder_target_tokens"));
    let tree = model.param_tree();
    let params = values(&tree, &reference["t5"], &expected["added"]);
    assert_eq!(
        tree.len(),
        [&reference["t5"], &expected["added"]]
            .map(|it| it.as_object().expect("names").len())
            .iter()
            .sum::<usize>()
    );
    let t5 = T5::new(model.transformer());
    let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS);
    let rows = t5.spec().learned_rows.as_ref();
    let real = rows.map_or(tokens.gt(0), |rows| rows.before_real(&tokens.gt(0)));
    let encoded = t5.encode(&params, &batch, Dropout::off());
    check_where("encoded", (&encoded, &real.unsqueeze(-1)), &expected["encoded"]);
    if let Some(wanted) = expected.get("logits") {
        let logits = t5.logits(&params, &batch, Dropout::off());
        let counted = batch.tensor(feature::DECODER_TARGET_TOKENS).gt(0).unsqueeze(-1);
        check_where("logits", (&logits, &counted), wanted);
    }
    let output = t5.loss(&params, &batch, &model.loss_spec(), Dropout::off());
    let anchored = model.anchor().map(|anchor| Anchored::new(&anchor, Device::Cpu));
    let anchored = anchored.map(|anchored| anchored.expect("it fits").loss(&params));
    let of_anchor = anchored.as_ref().map_or(0.0, |anchored| anchored.double_value(&[]));
    let (found, wanted) = (output.sums.read().get(sum::LOSS) + of_anchor, &expected["loss"]);
    let wanted = wanted.as_f64().expect("a number");
    assert!((found / wanted - 1.0).abs() < 1e-6, "loss {found}, expected {wanted}");
    let gradients = params.gradients(&match &anchored {
        Some(term) => &output.loss + term,
        None => output.loss.shallow_clone(),
    });
    for ((param, _), found) in params.iter().zip(&gradients) {
        let of = format!("gradient of {param}, {name}");
        if let Some(wanted) = expected["gradient_norms"].get(param) {
            let wanted = wanted.as_f64().expect("a number");
            assert!(
                (norm(found) - wanted).abs() < 1e-5 * wanted.max(1e-3),
                "{of}: {}",
                norm(found)
            );
        }
        let wanted = expected["gradients"].get(param);
        if let Some(wanted) = wanted.filter(|wanted| norm(&numbers(wanted)) > 0.0) {
            check(&of, found, wanted);
        }
    }
    if expected.get("beams").is_some() {
        check_beams(&t5, &params, (&batch, model), expected);
    }
    if let Some(training) = expected.get("training") {
        check_training((model, &t5), &params, &batch, training);
    }
}

fn check_beams(
    t5: &T5,
    params: &Params,
    (batch, model): (&Batch, &dyn BaseModel),
    expected: &Value,
) {
    let predictions = model.prediction_spec().expect("it predicts");
    let mut prediction = predictions.prediction(1);
    prediction.num_decodes = 2;
    let decodes =
        t5.predict_batch_with_aux(params, batch, &prediction).expect("nothing contradicts");
    let wanted: Vec<Vec<Vec<i64>>> =
        serde_json::from_value(expected["beams"].clone()).expect("ids");
    let wanted: Vec<i64> = wanted.concat().concat();
    let found = Vec::<i64>::try_from(decodes.sequences.to_kind(Kind::Int64).reshape(-1));
    assert_eq!(found.expect("one axis"), wanted);
    let scores: Vec<Vec<f32>> =
        serde_json::from_value(expected["beam_scores"].clone()).expect("numbers");
    let scores = Tensor::from_slice(&scores.concat());
    let found = decodes.scores.to_kind(Kind::Float).reshape(-1);
    let error = ((found - &scores) / &scores).abs().max().double_value(&[]);
    assert!(error < 1e-5, "scores of beams: relative error {error}");
}

/// Makes the steps of T5X's Trainer with the file's optimizer.
fn check_training(
    (model, t5): (&dyn BaseModel, &T5),
    params: &Params,
    batch: &Batch,
    expected: &Value,
) {
    let tree = model.param_tree();
    let shape =
        |param: &'_ ParamSpec| (param.name.clone(), param.shape.clone(), param.axes.clone());
    let described: Vec<_> = tree.iter().map(shape).collect();
    let shapes: Vec<ParamShape<'_>> =
        described.iter().map(|(name, shape, axes)| ParamShape { name, shape, axes }).collect();
    let mut optimizer =
        Optimizer::new(model.optimizer_def(), &shapes, Device::Cpu).expect("it fits");
    let start: Vec<Tensor> = params.iter().map(|(_, param)| param.detach().copy()).collect();
    let rate = expected["learning_rate"].as_f64().expect("a number") as f32;
    let losses = expected["losses"].as_array().expect("numbers");
    for (step, wanted) in losses.iter().enumerate() {
        let output = t5.loss(params, batch, &model.loss_spec(), Dropout::off());
        let sums = output.sums.read();
        let (found, wanted) =
            (sums.get(sum::LOSS) - sums.get(sum::Z_LOSS), wanted.as_f64().expect("a number"));
        assert!(
            (found / wanted - 1.0).abs() < 1e-6,
            "step {step}: loss {found}, expected {wanted}"
        );
        let grads = params.gradients(&output.loss);
        let gradients: Vec<Gradient<'_>> = params
            .iter()
            .zip(&grads)
            .map(|((name, param), grad)| Gradient { name, param, grad })
            .collect();
        optimizer.apply(&gradients, rate, step as i64).expect("an update");
    }
    let trained = expected["trained"].as_object().expect("arrays by name");
    for ((name, found), start) in params.iter().zip(&start) {
        match trained.get(name) {
            Some(wanted) => check(&format!("{name} after the steps"), found, wanted),
            None => assert!(found.equal(start), "{name} changed"),
        }
    }
    let names: Vec<String> =
        optimizer.arrays().map(|(name, _)| format!("param_states/{name}")).collect();
    let state = expected["state"].as_object().expect("shapes by name");
    assert!(
        names
            .iter()
            .map(String::as_str)
            .eq(state.keys().map(String::as_str).filter(|name| *name != "step")),
        "{names:?}"
    );
}

#[test]
fn a_prompt_before_the_tokens_equals_that_of_prompt_tuning() {
    check_case("prefix_prompt", &model::<EncoderDecoderModel>(PROMPTED, &[]));
}

#[test]
fn learned_factors_of_keys_values_and_blocks_equal_those_of_prompt_tuning() {
    check_case("ia3", &model::<EncoderDecoderModel>(IA3, &[]));
}

#[test]
fn prompts_at_other_places_equal_those_of_prompt_tuning() {
    let combine = |name: &str| format!("train_prompts.Prompt.combine = @train_prompts.{name}");
    let (after_bos, suffix) = (combine("prefix_prompt_after_bos"), combine("suffix_prompt"));
    check_case("prefix_prompt_after_bos", &model::<EncoderDecoderModel>(PROMPTED, &[&after_bos]));
    for (name, before_eos) in [("before", "True"), ("after", "False")] {
        let end = format!("train_prompts.suffix_prompt.before_eos = {before_eos}");
        check_case(
            &format!("suffix_prompt_{name}_eos"),
            &model::<EncoderDecoderModel>(PROMPTED, &[&suffix, &end]),
        );
    }
}

#[test]
fn prompts_of_layers_equal_those_of_prompt_tuning() {
    check_case("per_layer_replace", &model::<EncoderDecoderModel>(PER_LAYER, &[]));
    let add = "per_layer/train_prompts.Prompt.combine = @per_layer.add_prompt";
    let remat = "prompt_layers.PromptEncoder.layer_remat = 'full'";
    for differences in [vec![add], vec![add, remat]] {
        check_case("per_layer_add", &model::<EncoderDecoderModel>(PER_LAYER, &differences));
    }
}

#[test]
fn prompts_of_several_tasks_equal_those_of_prompt_tuning() {
    let check = |name: &str, differences: &[&str]| {
        let differences = [&OF_TASKS, differences].concat();
        check_case(name, &model::<EncoderDecoderModel>(MULTITASK, &differences));
    };
    check("add_multitask", &[]);
    for (case, class, parameters) in [
        ("concat", "Concat", ["length = 3", "task_length = 2"].as_slice()),
        (
            "concat_features",
            "ConcatFeatures",
            &["length = 5", "shared_features = 10", "task_features = 6"],
        ),
        ("project", "Project", &["length = 5", "shared_features = 4", "task_features = 16"]),
    ] {
        let class = format!("multitask_prompts.{class}MultiTaskPrompt");
        let common = ["num_tasks = 3", "to_task_idx = @multitask_prompts.sentinel_to_task"];
        let parameters = common.iter().chain(parameters).map(|it| format!("{class}.{it}"));
        let prompt = [format!("train_prompts.MultiTaskPrompt.prompt = @{class}()")];
        let differences: Vec<String> = prompt.into_iter().chain(parameters).collect();
        let differences: Vec<&str> = differences.iter().map(String::as_str).collect();
        check(&format!("{case}_multitask"), &differences);
    }
}

#[test]
fn a_prompt_is_kept_near_rows_as_by_prompt_tuning() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("prompt.npy");
    let rows: Vec<f32> = (noise(&[5, 16], 7).reshape(-1) / 2.0).try_into().expect("one axis");
    let rows = npy_bytes(Array::from_f32(&[5, 16], &rows).view());
    std::fs::write(&file, rows).expect("it is written");
    let differences = [
        "INITIAL_CHECKPOINT_PATH = 'unread'",
        "prompt_init/wayward.execute_initializer.init = @prompts.from_array()",
        "prompts.from_array.prompt = @prompts.np_load()",
        &format!("prompts.np_load.path = '{}'", file.display()),
        "prompt_tuning.prompts.Prompt.prompt_init = @prompts.from_array()",
    ];
    check_case("wayward", &model::<WaywardPromptEncoderDecoderModel>(WAYWARD, &differences));
}

/// The examples of the reference with all their answers, and a row of padding.
fn answers(reference: &Value) -> Batch {
    let features = reference["answers"].as_object().expect("features by name").iter();
    Batch::new(features.map(|(name, examples)| {
        let examples: Vec<Value> = serde_json::from_value(examples.clone()).expect("a list");
        let flat = numbers(&Value::Array(examples.iter().flat_map(flat).cloned().collect()));
        let kind = if name.ends_with("weights") { Kind::Float } else { Kind::Int64 };
        let rows = flat.view([examples.len() as i64, -1]);
        (name.clone(), rows.constant_pad_nd([0, 0, 0, 1]).to_kind(kind))
    }))
}

/// The numbers in lists of lists.
fn flat(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |list| list.iter().flat_map(flat).collect())
}

/// Compares the loss of answers, its gradients, and the answers that are predicted.
fn check_answers(name: &str, model: &dyn BaseModel) {
    let reference = expected();
    let expected = &reference["cases"][name];
    let batch = answers(&reference);
    let params = values(&model.param_tree(), &reference["t5"], &expected["added"]);
    let network = model.network(None);
    let output = network.loss(&params, &batch, &model.loss_spec(), Dropout::off());
    let sums = output.sums.read();
    let wanted = |name: &str| expected[name].as_f64().expect("a number");
    for (what, found) in [("sum", sums.get(sum::LOSS)), ("scalar", output.loss.double_value(&[]))] {
        let loss = wanted("loss");
        assert!((found / loss - 1.0).abs() < 1e-6, "{name}, {what}: loss {found}, expected {loss}");
    }
    let accuracy = sums.get(sum::CORRECT) / sums.get(sum::NUM_WEIGHTED_TOKENS);
    assert!((accuracy - wanted("accuracy")).abs() < 1e-6, "{name}: accuracy {accuracy}");
    for ((param, _), found) in params.iter().zip(&params.gradients(&output.loss)) {
        if let Some(wanted) = expected["gradients"].get(param) {
            check(&format!("gradient of {param}, {name}"), found, wanted);
        }
    }
    let prediction = model.prediction_spec().expect("it predicts").prediction(1);
    let predicting = network.predicting().expect("it predicts");
    let decodes = predicting.predict_batch_with_aux(&params, &batch, &prediction);
    let decodes = decodes.expect("nothing contradicts");
    let examples = batch.num_rows() - 1;
    let found = decodes.sequences.narrow(0, 0, examples).to_kind(Kind::Float).reshape(-1);
    assert_eq!(
        found,
        numbers(&Value::Array(flat(&expected["predictions"]).into_iter().cloned().collect()))
    );
    let best = numbers(&expected["scores"]).view([examples, -1]).amax([-1].as_slice(), false);
    let error = (decodes.scores.narrow(0, 0, examples).reshape(-1) / best - 1.0).abs().max();
    assert!(error.double_value(&[]) < 1e-5, "{name}: scores differ by {error}");
}

#[test]
fn losses_over_all_answers_equal_those_of_prompt_tuning() {
    let file = format!("{PERCEPTRON}/perceptron_t5_1_1_prompt.gin");
    check_answers("perceptron", &model::<PerceptronLossEncoderDecoderModel>(&file, &[]));
    let file = format!("{PERCEPTRON}/cross_entropy_t5_1_1_prompt.gin");
    let differences = ["LABEL_SMOOTHING = 0.1", "Z_LOSS = 0.01"];
    check_answers("cross_entropy", &model::<CrossEntropyEncoderDecoderModel>(&file, &differences));
}
