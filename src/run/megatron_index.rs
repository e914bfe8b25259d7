//! `gimlet megatron_index`: converts texts to files of token ids. Source of its flags and files: Megatron-LM
//! `preprocess_data.py`, as t5-experiments has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Args, ValueEnum};

use crate::data::{
    Conversions, DataError, IndexFormat, Indexing, Punkt, PunktParameters, Spaces, write_indexes,
};
use crate::storage::Path;
use crate::telemetry::notice;
use crate::vocab::{BertTokenizer, Vocabulary, bert_folds_case, hugging_face_tokenizer};

use super::failure::Failure;

/// Endings of the names of files with JSON lines, and those that may stand after them.
const JSON_LINES: [&str; 2] = [".json", ".jsonl"];
const COMPRESSED: [&str; 2] = [".gz", ".zst"];
/// Endings of the files that decide in the folders of a tokenizer and of punkt's model.
const SETTINGS_FILES: [&str; 4] = [".json", ".txt", ".model", ".tab"];
/// Time between two records of the work that is done.
const RECORD_PERIOD: Duration = Duration::from_secs(10);
/// Most files of a folder that a message names.
const MOST_NAMED: usize = 5;

/// Flags of `gimlet megatron_index`, which are those of `preprocess_data.py`.
#[derive(Args, Debug)]
pub struct MegatronIndexArgs {
    /// A file with a JSON object on each line, or a folder, whose `.json` and `.jsonl` files are read in the order of their names; they
    /// may be compressed by gzip or zstd.
    #[arg(long, value_name = "PATH")]
    input: String,
    /// Keys of the texts, each of which is written to files of its own.
    #[arg(long = "json_keys", alias = "json-keys", value_name = "KEY", num_args = 1.., default_values = ["text"])]
    json_keys: Vec<String>,
    /// Divide texts into sentences.
    #[arg(long = "split_sentences", alias = "split-sentences")]
    split_sentences: bool,
    /// Keep newlines in the sentence before them.
    #[arg(long = "keep_newlines", alias = "keep-newlines")]
    keep_newlines: bool,
    /// Folder of NLTK's model of English, `tokenizers/punkt_tab/english` of its data. Without it, a short list of abbreviations decides
    /// where sentences end.
    #[arg(long = "punkt_dir", value_name = "DIR", requires = "split_sentences")]
    punkt_dir: Option<String>,
    /// The tokenizer.
    #[arg(long = "tokenizer_type", alias = "tokenizer-type", value_enum)]
    tokenizer_type: TokenizerType,
    /// The list of pieces of BertWordPieceLowerCase and BertWordPieceCase, one a line.
    #[arg(long = "vocab_file", alias = "vocab-file", value_name = "FILE")]
    vocab_file: Option<String>,
    /// The merges of GPT2BPETokenizer, which Gimlet does not have.
    #[arg(long = "merge_file", alias = "merge-file", value_name = "FILE", hide = true)]
    merge_file: Option<String>,
    /// Append the end of a sequence to each document.
    #[arg(long = "append_eod", alias = "append-eod")]
    append_eod: bool,
    /// Folder with the tokenizer of HFTokenizer: a BERT's `vocab.txt`, or the tokenizer of a T5.
    #[arg(long = "tokenizer_name_or_path", alias = "tokenizer-name-or-path", value_name = "DIR")]
    tokenizer_name_or_path: Option<String>,
    /// Beginning of the paths of the files, `PREFIX_KEY_sentence.bin` and `.idx`, or with `document` if texts are not divided.
    #[arg(long = "output_prefix", alias = "output-prefix", value_name = "PREFIX")]
    output_prefix: String,
    /// Format of the index.
    #[arg(long = "dataset_impl", alias = "dataset-impl", value_enum, default_value = "mmap")]
    dataset_impl: DatasetImpl,
    /// Number of threads that tokenize; as many as there are cores by default.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Number of documents between reports.
    #[arg(long = "log_interval", alias = "log-interval", value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..))]
    log_interval: u64,
}

/// A tokenizer of Megatron-LM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TokenizerType {
    /// BERT's pieces, without case and accents.
    #[value(name = "BertWordPieceLowerCase")]
    BertWordPieceLowerCase,
    /// BERT's pieces.
    #[value(name = "BertWordPieceCase")]
    BertWordPieceCase,
    /// Not available.
    #[value(name = "GPT2BPETokenizer", hide = true)]
    Gpt2Bpe,
    /// The tokenizer of a folder of Hugging Face's transformers.
    #[value(name = "HFTokenizer")]
    HuggingFace,
}

/// A format of an index, as Megatron-LM calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatasetImpl {
    /// Ids of small vocabularies have 16 bits.
    Mmap,
    /// Ids have 32 bits.
    Lazy,
    /// The same files as lazy.
    Cached,
}

/// A loaded tokenizer.
enum Tokenizer {
    Bert(BertTokenizer),
    Vocabulary(Arc<dyn Vocabulary>),
}

impl Tokenizer {
    fn encode(&self, text: &str) -> Vec<i32> {
        match self {
            Self::Bert(tokenizer) => tokenizer.encode(text),
            Self::Vocabulary(vocabulary) => vocabulary.encode(text),
        }
    }

    fn vocab_size(&self) -> usize {
        match self {
            Self::Bert(tokenizer) => tokenizer.num_pieces(),
            Self::Vocabulary(vocabulary) => vocabulary.vocab_size(),
        }
    }

    /// The id that ends a document.
    fn end(&self) -> Option<i32> {
        match self {
            Self::Bert(_) => None,
            Self::Vocabulary(vocabulary) => vocabulary.eos_id(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Mistakes in flags, vocabularies and texts; a full disk.
pub(super) fn megatron_index_command(args: &MegatronIndexArgs) -> Result<(), Failure> {
    let tokenizer = args.tokenizer()?;
    let end = tokenizer.end().filter(|_| args.append_eod);
    if args.append_eod && end.is_none() {
        return Err(Failure::usage(anyhow!(
            "`--append_eod`: the tokenizer has no end of a sequence"
        )));
    }
    let punkt = args.split_sentences.then(|| args.punkt()).transpose()?;
    let files = args.files().map_err(failure)?;
    let (settings, settings_files) = (args.settings(), args.settings_files().map_err(failure)?);
    let indexing = Indexing {
        keys: &args.json_keys,
        punkt: punkt.as_ref(),
        encode: &|text| tokenizer.encode(text),
        end,
        vocab_size: tokenizer.vocab_size(),
        format: match args.dataset_impl {
            DatasetImpl::Mmap => IndexFormat::Mmap,
            DatasetImpl::Lazy | DatasetImpl::Cached => IndexFormat::Lazy,
        },
        num_threads: args.workers.unwrap_or_else(|| available_parallelism().map_or(1, usize::from)),
        settings: &settings,
        settings_files: &settings_files,
        record_period: RECORD_PERIOD,
    };
    let begin = Instant::now();
    let report = |Conversions { documents, new_documents, new_bytes }| {
        if documents.is_multiple_of(args.log_interval) {
            let seconds = begin.elapsed().as_secs_f64().max(1e-9);
            let (rate, speed) = (new_documents as f64 / seconds, new_bytes as f64 / seconds / 1e6);
            notice(&format!("{documents} documents ({rate:.1} documents/s, {speed:.2} MB/s)"));
        }
    };
    write_indexes(&files, &args.output_prefix, indexing, report).map_err(failure)
}

impl MegatronIndexArgs {
    fn tokenizer(&self) -> Result<Tokenizer, Failure> {
        let given = |flag: &str, value: &Option<String>| {
            let value = value.as_ref().ok_or_else(|| {
                let kind = self.tokenizer_type.to_possible_value();
                let kind = kind.map_or(String::new(), |kind| kind.get_name().to_string());
                Failure::usage(anyhow!("`--tokenizer_type={kind}` needs `--{flag}`"))
            })?;
            Path::parse(value).map_err(Failure::usage)
        };
        let bert = |lower_case| {
            let vocab = given("vocab_file", &self.vocab_file)?;
            BertTokenizer::of_megatron(&vocab, lower_case)
                .map(Tokenizer::Bert)
                .map_err(|error| failure(error.into()))
        };
        match self.tokenizer_type {
            TokenizerType::BertWordPieceLowerCase => bert(true),
            TokenizerType::BertWordPieceCase => bert(false),
            TokenizerType::HuggingFace => {
                let folder = given("tokenizer_name_or_path", &self.tokenizer_name_or_path)?;
                of_folder(&folder).map_err(failure)
            }
            TokenizerType::Gpt2Bpe => Err(Failure::usage(anyhow!(
                "Gimlet has no byte-level BPE, so `--tokenizer_type=GPT2BPETokenizer` is not possible; BertWordPieceLowerCase, \
                 BertWordPieceCase and HFTokenizer are"
            ))),
        }
    }

    fn punkt(&self) -> Result<Punkt, Failure> {
        let parameters = match &self.punkt_dir {
            Some(folder) => {
                let folder = Path::parse(folder).map_err(Failure::usage)?;
                PunktParameters::read(&folder).map_err(failure)?
            }
            None => PunktParameters::english(),
        };
        let spaces = if self.keep_newlines { Spaces::Kept } else { Spaces::Dropped };
        Ok(Punkt::new(parameters, spaces))
    }

    /// The flags on which the files depend, and the version, which may divide or tokenize texts in another way.
    fn settings(&self) -> BTreeMap<String, String> {
        let given = |value: &Option<String>| value.clone().unwrap_or_default();
        let settings = [
            ("Gimlet's version", env!("CARGO_PKG_VERSION").to_string()),
            ("`--json_keys`", self.json_keys.join(" ")),
            ("`--split_sentences`", self.split_sentences.to_string()),
            ("`--keep_newlines`", self.keep_newlines.to_string()),
            ("`--punkt_dir`", given(&self.punkt_dir)),
            ("`--tokenizer_type`", format!("{:?}", self.tokenizer_type)),
            ("`--vocab_file`", given(&self.vocab_file)),
            ("`--tokenizer_name_or_path`", given(&self.tokenizer_name_or_path)),
            ("`--append_eod`", self.append_eod.to_string()),
            ("`--dataset_impl`", format!("{:?}", self.dataset_impl)),
        ];
        settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// The small files on which the files depend.
    fn settings_files(&self) -> Result<Vec<Path>, DataError> {
        let folder = self.tokenizer_name_or_path.as_ref();
        let folder = folder.filter(|_| self.tokenizer_type == TokenizerType::HuggingFace);
        let mut files: Vec<Path> =
            self.vocab_file.iter().map(|file| Path::parse(file)).collect::<Result<_, _>>()?;
        for folder in folder.into_iter().chain(&self.punkt_dir) {
            let decides =
                |path: &Path| SETTINGS_FILES.iter().any(|ending| path.as_str().ends_with(ending));
            files.extend(Path::parse(folder)?.list()?.into_iter().filter(decides));
        }
        Ok(files)
    }

    /// The files of the input in the order of their names.
    fn files(&self) -> Result<Vec<Path>, DataError> {
        let input = Path::parse(&self.input)?;
        if !input.is_dir()? {
            return Ok(vec![input]);
        }
        let listed = input.list()?;
        let has_plain = |name: &str| listed.iter().any(|path| path.as_str() == name);
        let is_read = |path: &&Path| {
            let name = path.as_str();
            let packed = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending));
            let is_second = packed.is_some_and(has_plain);
            let name = packed.unwrap_or(name);
            JSON_LINES.iter().any(|ending| name.ends_with(ending)) && !is_second
        };
        let mut files: Vec<Path> = listed.iter().filter(is_read).cloned().collect();
        files.sort();
        if files.is_empty() {
            let names: Vec<&str> = listed.iter().map(Path::file_name).take(MOST_NAMED).collect();
            return Err(DataError::Config(format!(
                "`--input` is the folder `{input}`, which has no file with JSON lines: expected names that end in {}, also with \
                 {} after it; found {} entries: {}",
                JSON_LINES.join(" or "),
                COMPRESSED.join(" or "),
                listed.len(),
                names.join(", ")
            )));
        }
        Ok(files)
    }
}

/// The tokenizer of a folder of Hugging Face's transformers.
fn of_folder(folder: &Path) -> Result<Tokenizer, DataError> {
    let pieces = folder.join("vocab.txt");
    if pieces.exists()? {
        let lower_case = bert_folds_case(folder)?;
        return Ok(Tokenizer::Bert(BertTokenizer::of_transformers(&pieces, lower_case)?));
    }
    let whole = folder.join("tokenizer.json");
    let file = if whole.exists()? { whole } else { folder.join("tokenizer_config.json") };
    Ok(Tokenizer::Vocabulary(hugging_face_tokenizer(&file)?.vocabulary.build()?))
}

fn failure(error: DataError) -> Failure {
    match error.is_users() {
        true => Failure::usage(error),
        false => Failure::world(error),
    }
}
