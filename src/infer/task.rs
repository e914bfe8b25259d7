//! The inference of one task: its examples in chunks, a chunk in batches that the processes share.

use std::sync::Arc;

use crate::data::{
    Batch, BatchValues, Caches, DataError, Example, ExampleIterator, ExampleOptions,
    FeatureConverter, Task, task_examples,
};
use crate::gin::Json;
use crate::models::{PredictionSpec, feature};
use crate::partition::Process;
use crate::session::agreement::{agree_to_go_on, of_all, of_first};
use crate::session::error::SessionError;
use crate::session::eval_context::EvalContext;
use crate::session::made_with::MadeWith;
use crate::session::model_dir_lock::ModelDirLock;
use crate::session::seeds::{Purpose, derive};
use crate::session::text_predictor::{Hypothesis, TextPredictor};
use crate::session::unfinished::Unfinished;
use crate::storage::{Path, Takeover};
use crate::telemetry::{self, counted};
use crate::vocab::Vocabulary;

use super::files::TaskFiles;
use super::lines::{ChunkPadding, Lines, Output, ScoreParts};
use super::preflight::converter;
use super::progress::{ChunkSettings, Progress};
use super::spec::{Infer, Mode, WriteFn};

/// The inference of one task.
pub struct TaskInference<'a> {
    spec: &'a Infer,
    predictions: PredictionSpec,
    task: Arc<Task>,
    files: TaskFiles,
    options: ExampleOptions,
    converter: FeatureConverter,
    /// Decodes predictions.
    vocabulary: Arc<dyn Vocabulary>,
    /// The model's, whose end token ends a sequence.
    model_vocabulary: Arc<dyn Vocabulary>,
    /// The values that decide the results.
    made_with: MadeWith,
}

impl<'a> TaskInference<'a> {
    /// Prepares the inference of a task.
    ///
    /// # Errors
    /// The task does not fit, or a vocabulary cannot be built.
    pub fn new(
        spec: &'a Infer,
        task: Arc<Task>,
        files: TaskFiles,
        cache: Option<Caches>,
        made_with: MadeWith,
    ) -> Result<Self, SessionError> {
        let data = &spec.dataset_cfg;
        let lengths = data.task_feature_lengths.clone().expect("the check asks for them");
        let converter = data.ended(converter(spec, &task)?, &task)?;
        let options = ExampleOptions {
            split: data.split.clone(),
            lengths: Some(lengths),
            known_ids: Some(spec.model.known_ids()),
            cache,
            seed: data.seed.unwrap_or(0),
            shard_index: spec.shard_id,
            num_shards: spec.num_shards,
            ..ExampleOptions::default()
        };
        let predictions = spec.model.prediction_spec()?;
        let model_vocabulary = predictions.vocabulary.build()?;
        let vocabulary = match task.output_features.get(&spec.output_vocab_feature_name) {
            Some(feature) => feature.vocabulary.build()?,
            None => Arc::clone(&model_vocabulary),
        };
        Ok(Self {
            spec,
            predictions,
            task,
            files,
            options,
            converter,
            vocabulary,
            model_vocabulary,
            made_with,
        })
    }

    /// Computes the outputs that are not written yet, writes them, and adds their number to `num_written`.
    ///
    /// # Errors
    /// Reading, libtorch or writing fails, a process is lost, or one is asked to end between two batches.
    pub fn run(
        &self,
        checkpoint: &Path,
        cx: &EvalContext<'_>,
        takeover: Takeover,
        num_written: &mut u64,
    ) -> Result<(), Unfinished> {
        let held = match cx.processes.is_first() {
            true => Some(self.occupy(takeover)?),
            false => None,
        };
        let mut progress =
            of_first(cx.processes, || Progress::of(&self.files, self.settings(checkpoint)))?;
        self.say_what_is_done(&progress);
        let mut examples = self.examples_after(&progress)?;
        let predictor = self.predictor(cx)?;
        let computing = Computing { inference: self, cx, predictor };
        loop {
            let chunk: Result<Vec<Example>, DataError> =
                examples.by_ref().take(progress.settings.examples_per_chunk).collect();
            let chunk = chunk?;
            if chunk.is_empty() {
                break;
            }
            let lines = computing.lines(&chunk, progress.num_examples)?;
            let position = self.spec.checkpoint_ds_iter.then(|| examples.position());
            if cx.processes.is_first() {
                self.files.write_chunk(progress.num_chunks, &lines)?;
            }
            progress.num_chunks += 1;
            progress.num_examples += chunk.len() as u64;
            progress.position = position;
            if let Some(held) = &held {
                held.check()?;
                progress.save(&self.files)?;
            }
            *num_written += chunk.len() as u64;
        }
        self.options.bad_records.tell(&format!("inference of {}", self.task.task_name()));
        if progress.num_chunks == 0 {
            return Err(self.nothing().into());
        }
        if let Some(held) = held {
            self.finish(progress.num_chunks, held)?;
        }
        cx.processes.wait_for_all()?;
        let examples = counted(progress.num_examples as usize, "example");
        telemetry::notice(&format!("{}: {examples}", self.results()));
        Ok(())
    }

    fn settings(&self, checkpoint: &Path) -> ChunkSettings {
        ChunkSettings::new(self.spec, &self.files, checkpoint, self.made_with.clone())
    }

    /// Locks the folder of chunks: shards write into folders of their own.
    fn occupy(&self, takeover: Takeover) -> Result<ModelDirLock, SessionError> {
        let tmp_dir = &self.files.tmp_dir;
        tmp_dir.create_dir_all()?;
        ModelDirLock::take(tmp_dir, takeover).map_err(|error| match error {
            SessionError::Occupied { by, or, .. } => SessionError::Unfit(format!(
                "{by} writes into `{tmp_dir}`: {or}wait until it ends, end it, or set INFER_OUTPUT_DIR to \
                 another folder"
            )),
            error => error,
        })
    }

    fn say_what_is_done(&self, progress: &Progress) {
        let (name, num_done) = (self.task.task_name(), progress.num_examples);
        telemetry::notice(&match num_done {
            0 => format!("inferring {name} '{}'", self.options.split),
            _ => {
                let examples = counted(num_done as usize, "example");
                format!("inferring {name} '{}' after {examples}", self.options.split)
            }
        });
    }

    /// Opens the examples after those that are written.
    fn examples_after(&self, progress: &Progress) -> Result<ExampleIterator, SessionError> {
        let mut examples = task_examples(&self.task, &self.options)?;
        match &progress.position {
            Some(position) => examples.go_to(position)?,
            None => {
                let done = examples.by_ref().take(progress.num_examples as usize);
                done.into_iter().try_for_each(|example| example.map(drop))?;
            }
        }
        Ok(examples)
    }

    fn predictor<'b>(
        &'b self,
        cx: &EvalContext<'b>,
    ) -> Result<Option<TextPredictor<'b>>, SessionError> {
        let rows = self.spec.dataset_cfg.batch_size;
        let decodes = self.spec.mode != Mode::Score;
        decodes
            .then(|| TextPredictor::new(&self.spec.model, &*self.model_vocabulary, cx, rows))
            .transpose()
    }

    /// Joins the chunks, and says that the results are complete. Chunks are removed last, so that a process that is
    /// killed in between leaves results that are complete, or chunks that the next one joins.
    fn finish(&self, num_chunks: usize, held: ModelDirLock) -> Result<(), SessionError> {
        if self.spec.merge_chunked_results {
            self.files.merge(num_chunks)?;
        }
        self.files.complete(&self.made_with)?;
        drop(held);
        Ok(self.files.remove_chunks(self.spec)?)
    }

    /// Returns the place of the results.
    fn results(&self) -> &Path {
        match self.spec.merge_chunked_results {
            true => &self.files.output,
            false => &self.files.tmp_dir,
        }
    }

    fn nothing(&self) -> SessionError {
        let Infer { shard_id, num_shards, .. } = self.spec;
        let detail = match num_shards {
            1 => String::new(),
            _ => format!(" in shard {shard_id} of {num_shards}: lower infer.num_shards"),
        };
        let (task, split) = (self.task.task_name().to_string(), self.options.split.clone());
        DataError::Empty { task, split, detail }.into()
    }
}

/// The computations of a task's outputs with a checkpoint.
struct Computing<'a> {
    inference: &'a TaskInference<'a>,
    cx: &'a EvalContext<'a>,
    predictor: Option<TextPredictor<'a>>,
}

impl Computing<'_> {
    /// Returns the lines of a chunk that begins at the example of that number. In each round every process computes
    /// one batch.
    fn lines(&self, chunk: &[Example], first: u64) -> Result<Vec<String>, Unfinished> {
        let rows = self.inference.spec.dataset_cfg.batch_size;
        let Process { rank, count } = self.cx.processes.place();
        let padding = ChunkPadding::of(chunk);
        let batches: Vec<&[Example]> = chunk.chunks(rows).collect();
        let mut lines = Vec::with_capacity(chunk.len());
        for (round, batches) in batches.chunks(count).enumerate() {
            agree_to_go_on(self.cx.processes, self.cx.is_asked())?;
            let number = first / rows as u64 + (round * count + rank) as u64;
            let own = batches.get(rank).map(|batch| self.batch_lines(batch, &padding, number));
            let all = of_all(self.cx.processes, &own.transpose()?)?;
            lines.extend(all.into_iter().flatten().flatten());
        }
        Ok(lines)
    }

    /// Returns the lines of the batch of that number.
    fn batch_lines(
        &self,
        examples: &[Example],
        padding: &ChunkPadding,
        number: u64,
    ) -> Result<Vec<String>, SessionError> {
        let TaskInference { spec, converter, vocabulary, predictions, .. } = self.inference;
        let seed = spec.dataset_cfg.seed.unwrap_or(0);
        let seed = derive(seed, Purpose::Decoding, &[spec.shard_id as u64, number]);
        tch::manual_seed(seed as i64);
        let batch = converter.batch(examples, examples.len())?;
        let outputs = match &self.predictor {
            Some(predictor) => {
                let hypotheses = predictor.hypotheses(&batch)?.into_iter();
                hypotheses.map(|row| prediction(row, spec.mode)).collect()
            }
            None => self.scores(&batch)?,
        };
        let WriteFn::Inferences(written) = &spec.write_fn.0;
        let all_decodes = predictions.returns_all_decodes;
        let lines = Lines { spec: written, vocabulary: &**vocabulary, all_decodes };
        let each = examples.iter().zip(&outputs);
        Ok(each.map(|(example, output)| lines.line(example, padding, output)).collect())
    }

    fn scores(&self, batch: &Batch) -> Result<Vec<Output>, SessionError> {
        let EvalContext { forward, params, step, .. } = *self.cx;
        if !self.inference.predictions.returns_intermediates {
            let scores = forward.score(params, step, batch)?.into_iter();
            return Ok(scores.map(|score| Output::Score { score, parts: None }).collect());
        }
        let scores = forward.token_scores(params, step, batch)?.into_iter();
        let tokens = batch.rows_of(feature::DECODER_TARGET_TOKENS);
        let weights = numbers(batch, feature::DECODER_LOSS_WEIGHTS);
        let weights = weights.chunks(converted_length(batch));
        let rows = scores.zip(tokens).zip(weights).map(|(((score, scores), tokens), weights)| {
            let (tokens, weights) = (tokens.to_vec(), weights.to_vec());
            Output::Score { score, parts: Some(ScoreParts { tokens, weights, scores }) }
        });
        Ok(rows.collect())
    }
}

/// Returns the values of a feature, row after row, as whole numbers where the converter made such.
fn numbers(batch: &Batch, name: &str) -> Vec<Json> {
    match &batch.feature(name).expect("every model has targets").values {
        BatchValues::Ints(values) => {
            values.iter().map(|value| Json::Int((*value).into())).collect()
        }
        BatchValues::Floats(values) => {
            values.iter().map(|value| Json::Float((*value).into())).collect()
        }
    }
}

/// Returns the length of the targets' rows.
fn converted_length(batch: &Batch) -> usize {
    batch.feature(feature::DECODER_LOSS_WEIGHTS).map_or(1, |feature| feature.length.max(1))
}

fn prediction(row: Vec<Hypothesis>, mode: Mode) -> Output {
    let scores = (mode == Mode::PredictWithAux).then(|| row.iter().map(|it| it.score).collect());
    Output::Prediction { sequences: row.into_iter().map(|it| it.ids).collect(), scores }
}
