//! `gimlet vocab add`: pieces for a vocabulary, and rows for them in a checkpoint, in one step.

mod config;
mod pieces;

use anyhow::anyhow;
use clap::Args;

use self::config::{rewritten, verify};
use self::pieces::{NewPiece, check_known, check_new, given, id_of};
use super::{VocabularyOptions, failure};
use crate::checkpoint::{HuggingFaceConfig, HuggingFaceOptions, MoreTokens};
use crate::interactive::{Found, InteractiveModel};
use crate::run::checkpoint::{
    Extended, NamedVocabulary, model_at, parse_checkpoint, parse_path, storage_failure,
    write_with_more_tokens,
};
use crate::run::configure::map_paths;
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::output::write;
use crate::session::check::UnfitSpec;
use crate::storage::Path;
use crate::telemetry::notice;
use crate::vocab::{MorePieces, VocabularySpec};

/// Flags of `gimlet vocab add`.
#[derive(Args, Debug)]
#[command(
    after_help = "The checkpoint keeps its format, and its optimizer's state with zeros for new pieces. Rows move where ids do: \
    SeqIO's sentinels follow new pieces.\nExample: gimlet vocab add '<name>' '<date>' --checkpoint=finetuned --output=finetuned_more"
)]
pub struct AddVocabArgs {
    /// The new pieces. The first one gets the first id.
    #[arg(value_name = "PIECE", required_unless_present = "file")]
    pieces: Vec<String>,
    /// A file with a new piece in each line, in any storage.
    #[arg(long = "file", value_name = "FILE", conflicts_with = "pieces")]
    file: Option<String>,
    /// The new folder.
    #[arg(long = "output", value_name = "DIR")]
    output: String,
    /// The model: a MODEL_DIR or one of its checkpoints, a folder of Hugging Face's transformers, or a checkpoint of any other format.
    /// Without it, only the vocabulary is written.
    #[arg(long = "checkpoint", value_name = "PATH", required_unless_present = "vocabulary")]
    checkpoint: Option<String>,
    /// The vocabulary, as `gimlet vocab show` takes it; by default that of the model's configuration.
    #[arg(long = "vocabulary", value_name = "MODEL")]
    vocabulary: Option<String>,
    #[command(flatten)]
    options: VocabularyOptions,
    /// An old piece whose row all new pieces get; by default they get the mean of the rows of all old pieces.
    #[arg(long = "like", value_name = "PIECE", requires = "checkpoint")]
    like: Option<String>,
    /// The model's configuration. A run's own config.gin, or a config.json of Hugging Face's, precedes it.
    #[command(flatten)]
    gin: GinArgs,
}

/// The checkpoint that gets new rows.
struct Source {
    checkpoint: Path,
    /// The file beside it that names its model.
    config: Option<Path>,
    /// The model, if its configuration is known.
    model: Option<InteractiveModel>,
}

/// The pieces of a vocabulary before and after.
struct Addition {
    pieces: Vec<NewPiece>,
    made: MorePieces,
    tokens: MoreTokens,
}

/// Adds pieces.
///
/// # Errors
/// A piece cannot be added; the vocabulary or the checkpoint cannot be read or written; the output exists.
pub(super) fn run(args: &AddVocabArgs) -> Result<(), Failure> {
    map_paths(&args.gin.path_map)?;
    let pieces = given(args.file.as_deref(), &args.pieces)?;
    let output = parse_path(&args.output)?;
    let exists = output.exists().and_then(|exists| Ok(exists || output.is_dir()?));
    if exists.map_err(storage_failure)? {
        return Err(Failure::usage(anyhow!(
            "--output: `{output}` exists; remove it, or name another folder"
        )));
    }
    let source = args.checkpoint.as_deref().map(|path| Source::at(args, path)).transpose()?;
    if let (Some(_), Some(file)) = (&args.vocabulary, source.as_ref().and_then(Source::own_config))
    {
        return Err(Failure::usage(anyhow!(
            "--vocabulary is given, and `{file}` names the vocabulary of the model: leave the flag out; bind the path of one \
             that has moved, such as --gin.seqio.SentencePieceVocabulary.sentencepiece_model_file=\"'FILE'\""
        )));
    }
    let vocabulary = match (&args.vocabulary, &source) {
        (Some(file), _) => args.options.of(file),
        (None, Some(source)) => source.vocabulary()?,
        (None, None) => unreachable!("clap requires one of both"),
    };
    let addition = Addition::of(args, &vocabulary, pieces, &output)?;
    let written = addition.write(args, &vocabulary, source.as_ref(), &output);
    if written.is_err() {
        // The error that matters is that of writing.
        let _ = output.remove_dir_all();
    }
    write(&addition.described(&output, written?))
}

impl AddVocabArgs {
    /// Evaluates the configuration of a model, whose vocabulary a flag may name.
    fn model(&self, checkpoint: &Path) -> Result<InteractiveModel, Failure> {
        let named = self.vocabulary.as_ref().map_or(NamedVocabulary::Own, |_| NamedVocabulary::Any);
        model_at(&self.gin, checkpoint, named)
    }
}

impl Source {
    fn at(args: &AddVocabArgs, path: &str) -> Result<Self, Failure> {
        let path = parse_checkpoint(path)?;
        let found = Found::at(&path)?;
        if found.checkpoint != path {
            notice(&format!("taking {}", found.checkpoint));
        }
        let is_named = found.config.is_some() || !args.gin.files.gin_file.is_empty();
        let model = is_named.then(|| args.model(&found.checkpoint)).transpose()?;
        Ok(Self { checkpoint: found.checkpoint, config: found.config, model })
    }

    /// Whether transformers' files say what the model is.
    fn is_of_transformers(&self) -> bool {
        self.config.as_ref().is_some_and(|file| file.file_name() == HuggingFaceConfig::FILE)
    }

    /// Returns the run's own `config.gin`, which names its vocabulary.
    fn own_config(&self) -> Option<&Path> {
        self.config.as_ref().filter(|_| !self.is_of_transformers())
    }

    /// Returns the one vocabulary of the model.
    fn vocabulary(&self) -> Result<VocabularySpec, Failure> {
        let Some(model) = &self.model else {
            return Err(Failure::usage(anyhow!(
                "`{}` has no config.gin and no config.json beside it, which name its vocabulary: give --vocabulary=MODEL, \
                 and --extra_ids=N if there are sentinels",
                self.checkpoint
            )));
        };
        let all = model.model.vocabularies();
        let mut found: Vec<&VocabularySpec> = all.iter().map(|(_, spec)| *spec).collect();
        found.dedup();
        // The classes of a model that names them are no pieces.
        found
            .retain(|spec| found_in_file(spec) || all.iter().all(|(_, spec)| !found_in_file(spec)));
        match found[..] {
            [one] => Ok(one.clone()),
            _ => Err(Failure::usage(anyhow!(
                "`{}` has {} vocabularies, for inputs and targets, expected one for both: its rows would be of both",
                self.checkpoint,
                found.len()
            ))),
        }
    }

    /// Returns the options with which transformers' names are found.
    fn options(&self) -> Result<HuggingFaceOptions, Failure> {
        let known = match (&self.config, &self.model) {
            (Some(file), _) if self.is_of_transformers() => {
                HuggingFaceOptions { folder: Some(file.folder()), ..HuggingFaceOptions::default() }
            }
            (_, Some(model)) => model.model.hugging_face().unwrap_or_default(),
            _ => HuggingFaceOptions::default(),
        };
        // The vocabulary's files are written before.
        Ok(HuggingFaceOptions { without_tokenizer: true, ..known })
    }
}

fn found_in_file(spec: &VocabularySpec) -> bool {
    spec.file().is_some()
}

impl Addition {
    /// Checks the pieces against the vocabulary that they come into, and edits its files in memory.
    fn of(
        args: &AddVocabArgs,
        vocabulary: &VocabularySpec,
        pieces: Vec<NewPiece>,
        output: &Path,
    ) -> Result<Self, Failure> {
        let texts: Vec<&str> = pieces.iter().map(|piece| &piece.text[..]).collect();
        let made = vocabulary.with_pieces(&texts, output).map_err(failure)?;
        let old = vocabulary.build().map_err(failure)?;
        check_new(&pieces, &*old)?;
        let like = args.like.as_deref().map(|piece| id_of(piece, &*old)).transpose()?;
        let tokens = MoreTokens {
            first: made.first,
            count: pieces.len(),
            vocab_size: old.vocab_size(),
            like,
        };
        Ok(Self { pieces, made, tokens })
    }

    /// Writes the vocabulary, then the checkpoint and its configuration.
    fn write(
        &self,
        args: &AddVocabArgs,
        vocabulary: &VocabularySpec,
        source: Option<&Source>,
        output: &Path,
    ) -> Result<Option<Extended>, Failure> {
        output.create_dir_all().map_err(storage_failure)?;
        for (name, bytes) in &self.made.files {
            output.join(name).write_atomic(bytes).map_err(storage_failure)?;
        }
        let [old, new] = [vocabulary, &self.made.vocabulary].map(VocabularySpec::build);
        check_known(
            &self.pieces,
            self.made.first,
            &*old.map_err(failure)?,
            &*new.map_err(failure)?,
        )?;
        let Some(source) = source else { return Ok(None) };
        let options = source.options()?;
        let written = write_with_more_tokens(&source.checkpoint, output, &self.tokens, options)?;
        let (file, old_file) = (self.made.vocabulary.file(), vocabulary.file());
        let files = [old_file.unwrap_or_default(), file.unwrap_or_default()];
        match &source.config {
            Some(config) if !source.is_of_transformers() => {
                let text = config.read_to_string().map_err(storage_failure)?;
                let text = rewritten(&text, files, &written, output);
                output
                    .join(config.file_name())
                    .write_atomic(text.as_bytes())
                    .map_err(storage_failure)?;
            }
            Some(_) => {}
            None => {
                notice(&format!(
                    "`{output}` holds no configuration of its model: in its gin files, bind vocab_size = {} (NUM_EMBEDDINGS in \
                     those of flaxformer), and its vocabulary's file '{}'",
                    written.rows, files[1]
                ));
                return Ok(Some(written));
            }
        }
        // A vocabulary that a flag names need not be that of the configuration.
        let named = Some(&self.made.vocabulary).filter(|_| args.vocabulary.is_none());
        verify(&args.model(&Found::at(output)?.checkpoint)?, named, written.rows, output)?;
        Ok(Some(written))
    }

    /// Describes the result.
    fn described(&self, output: &Path, written: Option<Extended>) -> String {
        let MoreTokens { first, count, vocab_size, .. } = self.tokens;
        let last = first + count - 1;
        let mut text = match count {
            1 => format!("{output}: `{}` has the id {first}", self.pieces[0].text),
            _ => format!("{output}: {count} new pieces have the ids {first} to {last}"),
        };
        if first < vocab_size {
            text.push_str(&format!("; old ids from {first} on are {count} greater"));
        }
        if let Some(Extended { old_rows, rows }) = written {
            let rows = match rows == old_rows {
                true => format!("{rows} rows as before"),
                false => format!("{rows} rows instead of {old_rows}"),
            };
            text.push_str(&format!("; tables of tokens have {rows}"));
        }
        text + "\n"
    }
}

/// Converts an error of evaluating a configuration that was written here.
fn unfit(reason: String) -> Failure {
    Failure::usage(UnfitSpec(reason))
}
