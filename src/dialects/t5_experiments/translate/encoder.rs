//! Fine-tuning of an encoder with a head of classes, which `--model_type encoder` asks for: its model and its classes as
//! statements. Sources: t5-experiments `run_finetuning_hyp.py` and `run_finetuning_scrolls.py`.

use gimlet_gin::repr_str;

use super::bert::Pretraining;
use super::statements::Statements;
use super::tuning::named;
use crate::t5_experiments::arguments::Arguments;
use crate::t5_experiments::model_config::ModelClass;

/// The wiring of the model, and the settings of fine-tuning that differ from those of an encoder-decoder.
const BERT: &str = "gimlet/bert/classifier.gin";
const T5: &str = "gimlet/t5/encoder_classifier.gin";
const CLASSIFY: &str = "gimlet/t5_experiments/classify.gin";
const CONTRACT_NLI: &str = "gimlet/t5_experiments/contract_nli.gin";

/// The data set of SCROLLS whose answers are classes.
pub(super) const DATASET: &str = "contract_nli";

/// The classes in the order of their numbers there.
const HYP_LABELS: &[&str] = &["false", "true"];
const CONTRACT_NLI_LABELS: &[&str] = &["Contradiction", "Entailment", "Not mentioned"];

/// The metrics of validations.
pub(super) const CONTRACT_NLI_METRICS: [&str; 2] = ["exact_match", "f1_micro"];

/// An encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncoderFamily {
    /// A BERT.
    Bert,
    /// A T5's, whose network a class describes. t5-experiments cannot train it, since the class has no head of classes.
    T5(ModelClass),
}

/// The encoders by their names in `--model_cls`.
pub(super) const CLASSES: [(&str, EncoderFamily); 4] = [
    ("transformers:BertForSequenceClassification", EncoderFamily::Bert),
    ("modeling_bert:BertForSequenceClassification", EncoderFamily::Bert),
    ("transformers:T5EncoderModel", EncoderFamily::T5(ModelClass::Transformers)),
    ("modeling_t5:T5EncoderModel", EncoderFamily::T5(ModelClass::Own)),
];

/// Returns the encoder that is fine-tuned, if the model is one.
pub fn encoder(arguments: &Arguments) -> Option<EncoderFamily> {
    arguments.text("model_type").filter(|model_type| model_type == "encoder")?;
    let class = arguments.text("model_cls")?;
    CLASSES.iter().find(|(name, _)| *name == class).map(|(_, family)| *family)
}

/// Translates the model, which a file of a folder of transformers may come before, and returns its file.
pub(super) fn model(
    out: &mut Statements<'_>,
    family: EncoderFamily,
    facts: Option<&Pretraining>,
) -> &'static str {
    if let Some(facts) = facts {
        let lower_case = if facts.lower_case { "True" } else { "False" };
        out.bind("tokenizer", "VOCABULARY", "@gimlet.BertVocabulary()");
        out.bind("tokenizer", "gimlet.BertVocabulary.vocab_file", repr_str(&facts.pieces));
        out.bind("tokenizer", "gimlet.BertVocabulary.lower_case", lower_case);
        out.list.extend(facts.network.iter().cloned());
    }
    match family {
        EncoderFamily::Bert => BERT,
        EncoderFamily::T5(_) => T5,
    }
}

/// Translates the classes, and returns the files that come after those of the tasks.
pub(super) fn classes(out: &mut Statements<'_>, family: EncoderFamily) -> Vec<&'static str> {
    let is_scrolls = named(out.arguments).is_some();
    let (flag, labels) = match is_scrolls {
        true => ("task_name", CONTRACT_NLI_LABELS),
        false => ("model_type", HYP_LABELS),
    };
    let labels: Vec<String> = labels.iter().map(|label| repr_str(label)).collect();
    out.bind(flag, "LABELS", format!("[{}]", labels.join(", ")));
    if family == EncoderFamily::Bert {
        out.bind("model_cls", "gimlet.preprocessors.prepend_bos.keys", "['inputs']");
    }
    let of_task = is_scrolls.then_some(CONTRACT_NLI);
    [CLASSIFY].into_iter().chain(of_task).collect()
}

/// Finds the mistakes that only the training of an encoder can have.
pub(super) fn check(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    if encoder(arguments).is_none() {
        let class = arguments.text("model_cls").unwrap_or_default();
        let expected = CLASSES.map(|(name, _)| format!("`{name}`")).join(", ");
        refuse(
            format!("`--model_cls` is `{class}`, expected an encoder: one of {expected}"),
            "other architectures are Python, which is never run",
        );
    }
    if let Some(dataset) = named(arguments).filter(|dataset| dataset.name != DATASET) {
        let message = format!(
            "`--model_type` is encoder, and the answers of `{}` are texts, expected the classes of {DATASET}",
            dataset.name
        );
        refuse(message, "an encoder-decoder writes texts: --model_type encoder-decoder");
    }
    if arguments.is("use_generate_on_valid") {
        let message = "`--use_generate_on_valid` is given with an encoder, which writes no texts";
        refuse(message.to_string(), "leave it out: classes are named at each validation");
    }
}
