//! `gimlet vocab`: trains vocabularies, adds pieces to them and to their models, and shows how they encode text.

mod add;

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};

use crate::vocab::{
    BertWordPieceVocabulary, ByteVocabulary, SentencePieceVocabulary, VocabError, Vocabulary,
    VocabularySpec, train_sentencepiece,
};

use super::failure::Failure;
use super::output::{Color, ColorChoice, Paint, write};

/// Flags of `gimlet vocab`.
#[derive(Args, Debug)]
pub struct VocabToolArgs {
    /// The tool.
    #[command(subcommand)]
    pub tool: VocabCommand,
}

/// A tool for vocabularies.
#[derive(Debug, Subcommand)]
pub enum VocabCommand {
    /// Train a SentencePiece model on text files, with the ids that T5 expects: 0 pads, 1 ends a
    /// sequence, 2 is unknown.
    Train(TrainVocabArgs),
    /// Add pieces to a vocabulary, and to a checkpoint a row for each.
    Add(Box<add::AddVocabArgs>),
    /// Print the pieces, ids and decoded text of texts, or of ids; without either, describe the
    /// vocabulary.
    Show(ShowVocabArgs),
}

/// Flags of `gimlet vocab train`, named as those of `spm_train`.
#[derive(Args, Debug)]
pub struct TrainVocabArgs {
    /// Text files, a sentence a line.
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', required = true)]
    input: Vec<String>,
    /// Writes MODEL_PREFIX.model and MODEL_PREFIX.vocab.
    #[arg(long = "model_prefix", value_name = "MODEL_PREFIX")]
    model_prefix: String,
    /// Number of pieces, with special ones and without a task's `extra_ids`.
    #[arg(long = "vocab_size", value_name = "N")]
    vocab_size: usize,
    /// Method of cutting text into pieces.
    #[arg(long = "model_type", value_enum, default_value_t)]
    model_type: ModelType,
    /// Share of the text's characters that get a piece of their own.
    #[arg(long = "character_coverage", value_name = "SHARE", default_value_t = 0.9995)]
    character_coverage: f64,
    /// Falls back to bytes where a character has no piece, so that nothing is unknown.
    #[arg(long = "byte_fallback")]
    byte_fallback: bool,
    /// Pieces that text is never split inside.
    #[arg(long = "user_defined_symbols", value_name = "PIECE,...")]
    user_defined_symbols: Option<String>,
    /// Rules of normalization: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity.
    #[arg(long = "normalization_rule_name", value_name = "NAME", default_value = "nmt_nfkc")]
    normalization_rule_name: String,
    /// Sentences drawn from the text, where it holds more; 0 takes all.
    #[arg(long = "input_sentence_size", value_name = "N", default_value_t = 0)]
    input_sentence_size: u64,
    /// Any other option of SentencePiece's trainer; may be repeated.
    #[arg(long = "trainer_option", value_name = "NAME=VALUE", value_parser = parse_option)]
    trainer_option: Vec<(String, String)>,
}

/// A kind of SentencePiece model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModelType {
    /// The likeliest pieces.
    #[default]
    Unigram,
    /// Merges of neighbours.
    Bpe,
    /// Words between spaces.
    Word,
    /// Characters.
    Char,
}

/// Flags of `gimlet vocab show`.
#[derive(Args, Debug)]
pub struct ShowVocabArgs {
    /// A SentencePiece `.model`, a `tokenizer.json` of a folder of Hugging Face's, a WordPiece `vocab.txt`, or the word
    /// `bytes`.
    #[arg(value_name = "MODEL")]
    model: String,
    /// Texts to encode; lines of standard input if there is one and none is given.
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// Take the texts for ids and decode them.
    #[arg(long)]
    ids: bool,
    #[command(flatten)]
    options: VocabularyOptions,
    /// When to print in colour.
    #[arg(long, value_enum, default_value_t)]
    color: ColorChoice,
}

impl VocabToolArgs {
    /// Runs the tool.
    ///
    /// # Errors
    /// Files that cannot be read or are no vocabulary, and errors of the trainer.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.tool {
            VocabCommand::Train(args) => train(args),
            VocabCommand::Add(args) => add::run(args),
            VocabCommand::Show(args) => show(args),
        }
    }
}

fn parse_option(text: &str) -> Result<(String, String), String> {
    let found = text.trim_start_matches('-').split_once('=');
    let (name, value) = found.ok_or_else(|| format!("expected NAME=VALUE, found `{text}`"))?;
    Ok((name.to_string(), value.to_string()))
}

fn failure(error: VocabError) -> Failure {
    if error.is_users() { Failure::usage(error) } else { Failure::world(error) }
}

fn train(args: &TrainVocabArgs) -> Result<(), Failure> {
    if let Some(missing) = args.input.iter().find(|file| !Path::new(file).is_file()) {
        return Err(Failure::usage(anyhow!("--input: there is no file `{missing}`")));
    }
    train_sentencepiece(&options(args)).map_err(failure)?;
    let model = format!("{}.model", args.model_prefix);
    let vocabulary = sentencepiece(&model, 0).build().map_err(failure)?;
    write(&format!("{model}: {} pieces; look at it with `gimlet vocab show {model} TEXT`\n", {
        vocabulary.vocab_size()
    }))
}

/// Returns the trainer's options; named options of the user win over Gimlet's defaults.
fn options(args: &TrainVocabArgs) -> Vec<(String, String)> {
    let kind = args.model_type.to_possible_value().expect("no kind is hidden");
    let own = [
        ("pad_id", "0".to_string()),
        ("eos_id", "1".to_string()),
        ("unk_id", "2".to_string()),
        ("bos_id", "-1".to_string()),
        ("minloglevel", "1".to_string()),
        ("input", args.input.join(",")),
        ("model_prefix", args.model_prefix.clone()),
        ("vocab_size", args.vocab_size.to_string()),
        ("model_type", kind.get_name().to_string()),
        ("character_coverage", args.character_coverage.to_string()),
        ("byte_fallback", args.byte_fallback.to_string()),
        ("normalization_rule_name", args.normalization_rule_name.clone()),
        ("input_sentence_size", args.input_sentence_size.to_string()),
    ];
    let mut options = own.map(|(name, value)| (name.to_string(), value)).to_vec();
    let symbols = args.user_defined_symbols.iter();
    options.extend(symbols.map(|text| ("user_defined_symbols".to_string(), text.clone())));
    options.extend(args.trainer_option.iter().cloned());
    options
}

fn sentencepiece(model: &str, extra_ids: usize) -> VocabularySpec {
    VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: model.to_string(),
        extra_ids,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    })
}

/// Flags that complete a vocabulary's file.
#[derive(Args, Clone, Debug)]
struct VocabularyOptions {
    /// Sentinels `<extra_id_0>`, ... added after the model's own pieces.
    #[arg(long = "extra_ids", value_name = "N", default_value_t = 0)]
    extra_ids: usize,
    /// Only for WordPiece: fold case and strip accents.
    #[arg(long = "lower_case")]
    lower_case: bool,
}

impl VocabularyOptions {
    /// Returns the vocabulary of a file, or of the word `bytes`.
    fn of(&self, file: &str) -> VocabularySpec {
        match file {
            "bytes" => VocabularySpec::Byte(ByteVocabulary::of(self.extra_ids)),
            list if list.ends_with(".txt") => {
                VocabularySpec::BertWordPiece(BertWordPieceVocabulary {
                    lower_case: self.lower_case,
                    ..BertWordPieceVocabulary::of(list)
                })
            }
            model => sentencepiece(model, self.extra_ids),
        }
    }
}

fn show(args: &ShowVocabArgs) -> Result<(), Failure> {
    let vocabulary = args.options.of(&args.model).build().map_err(failure)?;
    let paint = Paint::new(args.color);
    for text in &args.texts {
        write(&shown(args, text, &*vocabulary, paint)?)?;
    }
    if !args.texts.is_empty() {
        return Ok(());
    }
    let mut lines = 0;
    if !io::stdin().is_terminal() {
        for line in io::stdin().lock().lines() {
            lines += 1;
            write(&shown(args, &line.map_err(Failure::world)?, &*vocabulary, paint)?)?;
        }
    }
    if lines == 0 { write(&about(&*vocabulary)) } else { Ok(()) }
}

/// Describes a vocabulary.
fn about(vocabulary: &dyn Vocabulary) -> String {
    let special = [
        ("begin of sequence", vocabulary.bos_id()),
        ("end of sequence", vocabulary.eos_id()),
        ("unknown", vocabulary.unk_id()),
    ];
    let mut out = format!("{}: {} ids\n", vocabulary.name(), vocabulary.vocab_size());
    for (name, id) in special {
        let shown = id.map_or("none".to_string(), |id| format!("{id} {}", vocabulary.piece(id)));
        out.push_str(&format!("  {name:<18} {shown}\n"));
    }
    let size = i32::try_from(vocabulary.vocab_size()).unwrap_or(i32::MAX);
    for (name, range) in [("first", 0..size.min(10)), ("last", (size - 5).max(0)..size)] {
        let pieces: Vec<String> = range.map(|id| vocabulary.piece(id)).collect();
        out.push_str(&format!("  {name:<18} {}\n", pieces.join(" ")));
    }
    out
}

/// Pieces, ids and text.
fn shown(
    args: &ShowVocabArgs,
    text: &str,
    vocabulary: &dyn Vocabulary,
    paint: Paint,
) -> Result<String, Failure> {
    let ids = match args.ids {
        true => parse_ids(text)?,
        false => vocabulary.encode(text),
    };
    let piece = |(i, &id): (usize, &i32)| paint.text(Color::Cycle(i), &vocabulary.piece(id));
    let pieces: Vec<String> = ids.iter().enumerate().map(piece).collect();
    let numbers: Vec<String> = ids.iter().map(i32::to_string).collect();
    let name = |text: &str| paint.text(Color::Dim, &format!("{text:<7}"));
    let (pieces, numbers) = (pieces.join(" "), numbers.join(" "));
    let decoded = vocabulary.decode(&ids);
    let label = if args.ids || decoded == text { "text" } else { "decoded" };
    let (first, second, third) = (name("pieces"), name("ids"), name(label));
    Ok(format!("{first} {pieces}\n{second} {numbers}\n{third} {decoded}\n"))
}

fn parse_ids(text: &str) -> Result<Vec<i32>, Failure> {
    let is_gap = |c: char| c == ',' || c == '[' || c == ']' || c.is_whitespace();
    let words = text.split(is_gap).filter(|word| !word.is_empty());
    let parse = |word: &str| {
        word.parse().map_err(|_| Failure::usage(anyhow!("`{word}` is not an id, in `{text}`")))
    };
    words.map(parse).collect()
}
