//! An evaluation of checkpoints.

use super::batch;
use super::given::Given;
use super::statements::{Statements, text};
use super::training::{partitions, short_name};
use crate::mesh_tf::read::{Meaning, ModelSpecs};
use crate::mesh_tf::spec::{DatasetFn, Decode, MeshEvalDatasetFn, Run, SampleAutoregressive};
use crate::mesh_tf::values::CheckpointStep;

/// The library's file of an evaluation.
const EVAL: &str = "gimlet/mesh_tf/eval.gin";

/// Translates an evaluation. Returns the library's file that the statements complete.
pub fn translate(meaning: &Meaning, given: &Given, out: &mut Statements<'_>) -> &'static str {
    data(meaning, out);
    batch::sizes(meaning, Some(given.num_processes.max(1)), out);
    checkpoints(&meaning.run, given, out);
    results(&meaning.run, given, out);
    match meaning.run.mode.as_str() {
        "perplexity_eval" => perplexity(meaning, out),
        _ => {
            let place = ("", "output_eval_examples");
            let key = "gimlet.MeshLogger.output_eval_examples";
            out.bind::<Run>(key, meaning.run.output_eval_examples, place);
            decoding(meaning, out);
        }
    }
    partitions(&meaning.run, out);
    EVAL
}

fn data(meaning: &Meaning, out: &mut Statements<'_>) {
    let run = &meaning.run;
    let data = match run.eval_dataset_fn.as_ref().map(|data| &data.0) {
        Some(DatasetFn::Eval(data)) => data,
        found => {
            let message = match found {
                None => "an evaluation has no examples: `run.eval_dataset_fn` is None".to_string(),
                Some(other) => format!("`{}` cannot be evaluated", short_name(other)),
            };
            let help = "bind @t5.models.mesh_transformer.mesh_eval_dataset_fn and its mixture_or_task_name; t5's eval.gin does";
            return out.refuse::<Run>(("", "eval_dataset_fn"), message, help);
        }
    };
    let name = data.mixture_or_task_name.clone();
    out.bind::<MeshEvalDatasetFn>("MIXTURE_OR_TASK_NAME", name, ("", "mixture_or_task_name"));
    let config = "t5x.utils.DatasetConfig";
    out.bind::<Run>(&format!("{config}.split"), run.dataset_split.clone(), ("", "dataset_split"));
    for (key, value, parameter) in [
        ("use_cached", text(&data.use_cached), "use_cached"),
        ("pack", text(&data.pack), "pack"),
        ("shuffle", text(&data.shuffle_eval_examples), "shuffle_eval_examples"),
    ] {
        out.write::<MeshEvalDatasetFn>(&format!("{config}.{key}"), &value, ("", parameter));
    }
    if data.shuffle_eval_examples {
        out.bind::<MeshEvalDatasetFn>(&format!("{config}.seed"), data.seed, ("", "seed"));
    }
    let examples = data.num_eval_examples.filter(|examples| *examples >= 0);
    let place = ("", "num_eval_examples");
    if examples.is_some() {
        out.bind::<MeshEvalDatasetFn>("seqio.Evaluator.num_examples", examples, place);
    }
}

fn results(run: &Run, given: &Given, out: &mut Statements<'_>) {
    let default = format!("{}/{}_eval", given.model_dir.trim_end_matches('/'), run.dataset_split);
    let folder =
        run.eval_summary_dir.clone().filter(|folder| !folder.is_empty()).unwrap_or(default);
    out.bind::<Run>("EVAL_OUTPUT_DIR", folder, ("", "eval_summary_dir"));
}

/// Translates the checkpoints of a run that trains nothing.
pub fn checkpoints(run: &Run, given: &Given, out: &mut Statements<'_>) {
    let model_dir = given.model_dir.trim_end_matches('/');
    out.write_from("--model_dir", "CHECKPOINT_PATH", &gimlet_gin::repr_str(model_dir));
    let place = ("", "eval_checkpoint_step");
    let config = "t5x.utils.RestoreCheckpointConfig";
    let mode = match &run.eval_checkpoint_step {
        CheckpointStep::New | CheckpointStep::All => "'all'",
        CheckpointStep::Newest => "'latest'",
        CheckpointStep::Nearest(steps) => {
            out.bind::<Run>(&format!("{config}.nearest_steps"), steps.clone(), place);
            "'all'"
        }
    };
    out.write::<Run>(&format!("{config}.mode"), mode, place);
}

/// Measures the loss of examples instead of decoding them: the cross-entropy of a token, without what a training adds
/// to it or divides it by.
fn perplexity(meaning: &Meaning, out: &mut Statements<'_>) {
    let run = &meaning.run;
    let model = match &meaning.model {
        ModelSpecs::Bitransformer(_) => "t5x.models.EncoderDecoderModel",
        ModelSpecs::LanguageModel(_) => "t5x.models.DecoderOnlyModel",
    };
    let place = ("", "mode");
    out.write::<Run>("Z_LOSS", "0.0", place);
    out.write::<Run>(&format!("{model}.loss_normalizing_factor"), "None", place);
    out.write::<Run>("t5x.eval.evaluate.inference_evaluator_cls", "None", place);
    out.write::<Run>("t5x.eval.evaluate.training_evaluator_cls", "@t5x.trainer.Trainer", place);
    let datasets = "@t5x.utils.get_training_eval_datasets";
    out.write::<Run>("t5x.eval.evaluate.train_eval_get_dataset_fn", datasets, place);
    let key = "t5x.utils.get_training_eval_datasets.eval_steps";
    out.bind::<Run>(key, run.perplexity_eval_steps, ("", "perplexity_eval_steps"));
}

/// Translates the decoding of predictions.
pub fn decoding(meaning: &Meaning, out: &mut Statements<'_>) {
    match &meaning.model {
        ModelSpecs::Bitransformer(_) => beams_or_samples(&meaning.decode, out),
        ModelSpecs::LanguageModel(_) => {
            let sample = &meaning.sample;
            let place = ("", "temperature");
            let key = "t5x.decoding.temperature_sample.temperature";
            out.bind::<SampleAutoregressive>(key, sample.temperature, place);
        }
    }
}

fn beams_or_samples(decode: &Decode, out: &mut Statements<'_>) {
    let model = "t5x.models.EncoderDecoderModel";
    if decode.beam_size > 1 {
        let place = ("", "beam_size");
        out.write::<Decode>(&format!("{model}.decode_fn"), "@t5x.decoding.beam_search", place);
        let key = format!("{model}.predict_batch_with_aux.num_decodes");
        out.bind::<Decode>(&key, decode.beam_size, place);
        out.bind::<Decode>("t5x.decoding.beam_search.alpha", decode.alpha, ("", "alpha"));
        longest("t5x.decoding.beam_search.max_decode_len", decode, out);
        return;
    }
    let place = ("", "temperature");
    let sample = "t5x.decoding.temperature_sample";
    out.write::<Decode>(&format!("{model}.decode_fn"), &format!("@{sample}"), place);
    out.bind::<Decode>(&format!("{sample}.temperature"), decode.temperature, place);
    let top = decode.sampling_keep_top_k.max(0);
    out.bind::<Decode>(&format!("{sample}.topk"), top, ("", "sampling_keep_top_k"));
    longest(&format!("{sample}.max_decode_steps"), decode, out);
}

/// Translates the length of the longest sequence.
fn longest(key: &str, decode: &Decode, out: &mut Statements<'_>) {
    if let Some(length) = decode.max_decode_length {
        out.bind::<Decode>(key, length, ("", "max_decode_length"));
    }
}
