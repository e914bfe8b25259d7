//! Fine-tuning: its data and model as statements after files of `gin/gimlet/t5_experiments/`. Sources: t5-experiments
//! `run_finetuning_hyp.py` and `run_finetuning_scrolls.py`.

use gimlet_gin::repr_str;

use super::bert::Pretraining;
use super::encoder::{self, encoder};
use super::statements::Statements;
use crate::t5_experiments::arguments::Arguments;

/// T5X's fine-tuning, whose dropout that of a model's folder replaces.
const T5X_FINETUNE: &str = "t5x/configs/runs/finetune.gin";

/// The files that a run is made of, after that of its model.
const FINETUNE: &str = "gimlet/t5_experiments/finetune.gin";
const VALIDATE: &str = "gimlet/t5_experiments/validate.gin";
const HYP: &str = "gimlet/t5_experiments/hyp.gin";
const SCROLLS: &str = "gimlet/t5_experiments/scrolls.gin";

/// The wiring of a model whose dimensions statements bind.
const MODEL: &str = "t5x/examples/t5/encoder_decoder.gin";

/// The folder of SCROLLS, which has the name of its data set on the hub.
pub const SCROLLS_FOLDER: &str = "tau/scrolls";

/// Sentinels that transformers' T5 tokenizer adds to a SentencePiece model without a configuration.
const EXTRA_IDS: usize = 100;

/// Characters that are kept of a text of SCROLLS for each token of its length.
const CHARACTERS_PER_TOKEN: i128 = 10;

const TRAIN: &str = "t5x.train.train";

/// The data sets of SCROLLS.
pub(super) const DATASETS: [Dataset; 7] = [
    dataset("gov_report", "rouge", false),
    dataset("summ_screen_fd", "rouge", false),
    dataset("qmsum", "rouge", false),
    dataset("narrative_qa", "f1", true),
    dataset("qasper", "f1", true),
    dataset("quality", "exact_match", false),
    dataset("contract_nli", "exact_match", false),
];

/// A data set of SCROLLS.
pub(super) struct Dataset {
    /// The name, which is that of its folder.
    pub name: &'static str,
    /// Its score.
    pub score: &'static str,
    /// Whether several held-out examples with one id are the answers to one question.
    pub has_several_answers: bool,
}

const fn dataset(name: &'static str, score: &'static str, has_several_answers: bool) -> Dataset {
    Dataset { name, score, has_several_answers }
}

/// The facts of a fine-tuning that its flags do not say.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The folder of transformers from which the model comes; `None` for one that `--model_cfg` describes.
    pub pretrained: Option<String>,
    /// The file of the tokenizer of a T5, if the model's folder does not have it.
    pub tokenizer: Option<String>,
}

/// Returns the data set that `--task_name` names.
pub(super) fn named(arguments: &Arguments) -> Option<&'static Dataset> {
    let name = arguments.text("task_name")?;
    DATASETS.iter().find(|dataset| dataset.name == name)
}

/// Translates the flags of model and data, and returns the files that come first.
pub(super) fn translate(
    out: &mut Statements<'_>,
    tuning: &Tuning,
    bert: Option<&Pretraining>,
) -> Vec<String> {
    let arguments = out.arguments;
    let family = encoder(arguments);
    let mut files = Vec::new();
    match &tuning.pretrained {
        Some(folder) => files.push(format!("{folder}/config.json")),
        None if bert.is_none() => files.push(MODEL.to_string()),
        None => {}
    }
    model(out, tuning);
    files.extend(family.map(|family| encoder::model(out, family, bert).to_string()));
    data(out);
    let is_scrolls = arguments.has("task_name");
    let mut settings = vec![FINETUNE];
    if arguments.is("validate_only") {
        validation(out, tuning);
        settings = vec![VALIDATE];
    } else {
        training(out, tuning);
        files.insert(0, T5X_FINETUNE.to_string());
    }
    settings.push(if is_scrolls { SCROLLS } else { HYP });
    settings.extend(family.into_iter().flat_map(|family| encoder::classes(out, family)));
    files.extend(settings.into_iter().map(str::to_string));
    files
}

/// Translates the tokenizer and the decoding of a T5 that no folder of transformers describes.
fn model(out: &mut Statements<'_>, tuning: &Tuning) {
    let Some(file) = &tuning.tokenizer else { return };
    let class = "seqio.SentencePieceVocabulary";
    out.bind("tokenizer", "VOCABULARY", format!("@{class}()"));
    out.bind("tokenizer", &format!("{class}.sentencepiece_model_file"), repr_str(file));
    if !file.ends_with(".json") {
        out.bind("tokenizer", &format!("{class}.extra_ids"), EXTRA_IDS);
    }
    if encoder(out.arguments).is_some() {
        return;
    }
    let decode_fn = "t5x.models.EncoderDecoderModel.decode_fn";
    out.bind("use_generate_on_valid", decode_fn, "@gimlet.decoding.generate");
}

/// Translates files and the form of examples.
fn data(out: &mut Statements<'_>) {
    let arguments = out.arguments;
    let dataset = named(arguments);
    let files = ["train", "validation", "test"].map(|split| match dataset {
        // Results on the hidden test examples are never asked for.
        Some(_) if split == "test" => None,
        Some(dataset) => Some(scrolls_file(arguments, dataset.name, split)),
        None if split == "train" => arguments.path("data_path"),
        None if split == "validation" => arguments.path("valid_data_path"),
        None => arguments.path("test_data_path"),
    });
    let macros = ["TRAIN_FILES", "VALID_FILES", "TEST_FILES"];
    let flags = match dataset {
        Some(_) => ["task_name"; 3],
        None => ["data_path", "valid_data_path", "test_data_path"],
    };
    for ((flag, name), file) in flags.into_iter().zip(macros).zip(files) {
        let Some(file) = file.map(|file| repr_str(&file)) else { continue };
        let train =
            if name == "TRAIN_FILES" { format!("'train': {file}, ") } else { String::new() };
        out.bind(flag, name, format!("{{{train}'validation': {file}}}"));
    }
    let prefix = if dataset.is_some() { "input_prefix" } else { "source_prefix" };
    let is_read = dataset.is_some() || encoder(arguments).is_none();
    if let Some(text) = arguments.text(prefix).filter(|_| is_read) {
        out.bind(prefix, "PREFIX", repr_str(&text));
    }
    let Some(dataset) = dataset else { return };
    let score = "gimlet.metrics.scrolls.score";
    out.bind("task_name", score, repr_str(dataset.score));
    if dataset.has_several_answers {
        out.bind("task_name", "gimlet.preprocessors.collect_answers.id_key", "'id'");
    }
    for (flag, scope) in [("input_seq_len", "input"), ("target_seq_len", "output")] {
        let characters = CHARACTERS_PER_TOKEN * out.count(flag);
        let key = format!("{scope}/gimlet.preprocessors.cut_text.num_characters");
        out.bind(flag, &key, characters);
    }
}

/// Returns the file of a split of SCROLLS.
pub fn scrolls_file(arguments: &Arguments, dataset: &str, split: &str) -> String {
    arguments.in_working_dir(format!("{SCROLLS_FOLDER}/{dataset}/{split}.jsonl"))
}

/// Translates the beginning of a training, and its predictions.
fn training(out: &mut Statements<'_>, tuning: &Tuning) {
    let arguments = out.arguments;
    out.bind("model_path", "MODEL_DIR", path(arguments, "model_path"));
    out.bind("seed", "RANDOM_SEED", out.count("seed"));
    let begins = arguments.text("init_checkpoint").is_some();
    if let Some(folder) = tuning.pretrained.as_ref().filter(|_| !begins) {
        out.bind("from_pretrained", "INITIAL_CHECKPOINT_PATH", repr_str(folder));
        if encoder(arguments).is_some() {
            out.leaves_arrays("from_pretrained");
        }
    }
    match predicts(arguments) {
        true => shown(out),
        false => {
            out.bind("use_generate_on_valid", &format!("{TRAIN}.infer_eval_dataset_cfg"), "None");
        }
    }
}

/// Translates an evaluation without training.
fn validation(out: &mut Statements<'_>, tuning: &Tuning) {
    let arguments = out.arguments;
    match (arguments.path("init_checkpoint"), &tuning.pretrained) {
        (Some(file), _) => out.evaluation("init_checkpoint", &file),
        (None, Some(folder)) => out.evaluation("from_pretrained", folder),
        (None, None) => unreachable!("`check` asks for one of them"),
    }
    match predicts(arguments) {
        true => shown(out),
        false => {
            let key = "t5x.eval.evaluate.inference_evaluator_cls";
            out.bind("use_generate_on_valid", key, "None");
        }
    }
}

/// Whether texts are written, or classes named, at validations.
fn predicts(arguments: &Arguments) -> bool {
    arguments.is("use_generate_on_valid") || encoder(arguments).is_some()
}

fn shown(out: &mut Statements<'_>) {
    let count = out.count("show_valid_examples");
    out.bind("show_valid_examples", "seqio.Evaluator.num_shown_examples", count);
}

fn path(arguments: &Arguments, flag: &str) -> String {
    repr_str(&arguments.path(flag).unwrap_or_default())
}
