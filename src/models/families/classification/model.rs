//! Models of classes.

use serde_json::{Map, Value, json};

use crate::checkpoint::HuggingFaceOptions;
use crate::data::{ClassFeatureConverter, ConverterClass, DataError, Lengths, feature_length};
use crate::gin::{Configurable, Parameters};
use crate::models::bert::{self, BertConfig, BertHeads};
use crate::models::contract::memory::StepShape;
use crate::models::contract::{BaseModel, ModuleSpec, PredictionSpec};
use crate::models::decoding::{AnswerSetParameters, DecodeFn, TemperatureSample};
use crate::models::families::parameters::LossParameters;
use crate::models::heads::LossSpec;
use crate::models::parts::{ClassHead, LoRA, ReadPosition, TokenEmbedding};
use crate::models::t5::Module;
use crate::models::transformer::TransformerSpec;
use crate::nn::Initializer;
use crate::optim::OptimizerDef;
use crate::vocab::{UnigramVocabulary, VocabularySpec};

/// Parameters of every model of classes.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct ClassifierParameters {
    /// Vocabulary of the inputs' ids.
    pub input_vocabulary: VocabularySpec,
    /// The classes, in the order of their numbers: a `@seqio.UnigramVocabulary()`, whose `unigrams` are the texts that stand for them in
    /// 'targets'.
    pub output_vocabulary: VocabularySpec,
    /// Optimizer, which turns gradients into updates.
    pub optimizer_def: OptimizerDef,
    /// Additions of low rank to the network's kernels; None has none.
    #[gin(default = None)]
    pub lora: Option<LoRA>,
    /// Probability that a number before the projection to classes is dropped in training; None means that of activations.
    #[gin(default = None)]
    pub classifier_dropout: Option<f64>,
    /// Parameters of the loss, which is the cross-entropy of classes.
    #[gin(flatten)]
    pub loss: LossParameters,
}

/// A BERT that names the class of a row by its first token, `[CLS]`. Source: transformers `modeling_bert.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.BertForSequenceClassification")]
pub struct BertForSequenceClassification {
    /// The network.
    pub config: BertConfig,
    /// Parameters of every model of classes.
    #[gin(flatten)]
    pub shared: ClassifierParameters,
}

/// The encoder of a T5 that names the class of a row by its last token, with the head of transformers'
/// `T5ForSequenceClassification`, which has a decoder too. It reads checkpoints of the whole T5.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.models.T5EncoderForSequenceClassification")]
pub struct T5EncoderForSequenceClassification {
    /// The network, of which the decoder is left out.
    pub module: Module,
    /// Parameters of every model of classes.
    #[gin(flatten)]
    pub shared: ClassifierParameters,
}

impl ClassifierParameters {
    /// The names of the classes.
    fn classes(&self) -> &[String] {
        match &self.output_vocabulary {
            VocabularySpec::Unigram(UnigramVocabulary { unigrams, .. }) => unigrams,
            _ => &[],
        }
    }

    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        vec![("inputs", &self.input_vocabulary), ("targets", &self.output_vocabulary)]
    }

    fn feature_converter(&self) -> ConverterClass {
        ClassFeatureConverter { classes: self.classes().to_vec() }.into()
    }

    fn check(&self, name: &str) -> Result<(), String> {
        match &self.output_vocabulary {
            VocabularySpec::Unigram(UnigramVocabulary { unigrams, split_on_space: false })
                if unigrams.len() >= 2 => {}
            _ => {
                return Err(format!(
                    "{name}.output_vocabulary names {} classes, expected a @seqio.UnigramVocabulary() whose `unigrams` are the \
                     texts of at least two, and which does not split texts",
                    self.classes().len()
                ));
            }
        }
        match self.classifier_dropout.filter(|rate| !(0.0..1.0).contains(rate)) {
            Some(rate) => {
                Err(format!("{name}.classifier_dropout is {rate}, expected 0 or more, less than 1"))
            }
            None => Ok(()),
        }
    }

    fn predictions(&self, begins_inputs: bool) -> PredictionSpec {
        PredictionSpec {
            vocabulary: self.output_vocabulary.clone(),
            converter: self.feature_converter(),
            of_answers: None,
            names_classes: true,
            max_inputs: None,
            begins_inputs,
            continues_inputs: false,
            joins_inputs: false,
            decode_fn: DecodeFn::TemperatureSample(TemperatureSample::default()),
            num_decodes: 1,
            bos_id: 0,
            eos_id: None,
            prompt_with_targets: false,
            answers: AnswerSetParameters::default(),
            returns_all_decodes: false,
            returns_intermediates: false,
        }
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        match feature_length("targets", lengths)? {
            1 => Ok(StepShape::whole(rows, [feature_length("inputs", lengths)?])),
            length => Err(DataError::Config(format!(
                "`task_feature_lengths` has {length} for 'targets', expected 1: a class is one token"
            ))),
        }
    }
}

/// Implements the parts of the contract that do not depend on the encoder.
macro_rules! of_shared {
    () => {
        fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
            self.shared.vocabularies()
        }

        fn feature_converter(&self) -> ConverterClass {
            self.shared.feature_converter()
        }

        fn lora(&self) -> Option<&LoRA> {
            self.shared.lora.as_ref()
        }

        fn optimizer_def(&self) -> &OptimizerDef {
            &self.shared.optimizer_def
        }

        fn loss_spec(&self) -> LossSpec {
            self.shared.loss.spec(None)
        }
    };
}

impl BaseModel for BertForSequenceClassification {
    of_shared!();

    fn module(&self) -> &dyn ModuleSpec {
        &self.config
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        let shape = self.shared.step_shape(rows, lengths)?;
        self.config.check_length(shape.lengths[0]).map_err(DataError::Config)?;
        Ok(shape)
    }

    fn check_own(&self) -> Result<(), String> {
        self.shared.check(self.name())
    }

    fn hugging_face(&self) -> Result<HuggingFaceOptions, String> {
        let mut options = bert::hugging_face::stated(&self.config)?;
        let classes = || self.shared.classes().iter().enumerate();
        let names: Map<String, Value> =
            classes().map(|(number, name)| (number.to_string(), json!(name))).collect();
        let numbers: Map<String, Value> =
            classes().map(|(number, name)| (name.clone(), json!(number))).collect();
        options.config.insert("id2label".to_string(), Value::Object(names));
        options.config.insert("label2id".to_string(), Value::Object(numbers));
        if let Some(rate) = self.shared.classifier_dropout {
            options.config.insert("classifier_dropout".to_string(), json!(rate));
        }
        Ok(options)
    }

    fn predicts(&self) -> Option<PredictionSpec> {
        Some(PredictionSpec {
            max_inputs: Some(self.config.max_position_embeddings),
            ..self.shared.predictions(true)
        })
    }

    fn transformer(&self) -> TransformerSpec {
        let classes = self.shared.classes().len();
        let heads = BertHeads::Classes(classes, self.shared.classifier_dropout);
        self.config.network(heads).with_lora(self.lora())
    }
}

impl BaseModel for T5EncoderForSequenceClassification {
    of_shared!();

    fn module(&self) -> &dyn ModuleSpec {
        &*self.module
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        self.shared.step_shape(rows, lengths)
    }

    fn check_own(&self) -> Result<(), String> {
        match self.module.transformer().encoder {
            Some(_) => self.shared.check(self.name()),
            None => Err(format!("{}.module has no encoder", self.name())),
        }
    }

    fn predicts(&self) -> Option<PredictionSpec> {
        Some(self.shared.predictions(false))
    }

    fn transformer(&self) -> TransformerSpec {
        let whole = self.module.transformer();
        let encoder = whole.encoder.unwrap_or(whole.last);
        let stream = encoder.dims.stream();
        let stddev = (stream.emb_dim as f64).powf(-0.5);
        TransformerSpec {
            tokens: TokenEmbedding { logits: None, ..whole.tokens },
            class_head: Some(ClassHead {
                stream,
                reads: ReadPosition::LastToken,
                path: "classifier",
                num_classes: self.shared.classes().len(),
                dropout_rate: self.shared.classifier_dropout.unwrap_or(whole.dropout_rate),
                initializer: Initializer::Normal { stddev },
            }),
            encoder: None,
            last: encoder,
            ..whole
        }
        .with_lora(self.lora())
    }
}
