//! Predictions and scores of text files.

use super::given::Given;
use super::statements::Statements;
use super::training::partitions;
use super::{batch, evaluation};
use crate::mesh_tf::read::Meaning;
use crate::mesh_tf::spec::{
    DecodeFn, DecodeFromFile, InferModel, Run, SaveScores, Score, ScoreFromStrings,
};

/// The library's file of a run over text files.
const FILES: &str = "gimlet/mesh_tf/files.gin";

/// Translates predictions or scores. Returns the library's file that the statements complete.
pub fn translate(meaning: &Meaning, given: &Given, out: &mut Statements<'_>) -> &'static str {
    batch::sizes(meaning, Some(given.num_processes.max(1)), out);
    evaluation::checkpoints(&meaning.run, given, out);
    match (&meaning.infer, &meaning.score) {
        (Some(infer), _) => {
            predictions(infer, out);
            evaluation::decoding(meaning, out);
        }
        (None, Some(score)) => scores(score, out),
        (None, None) => {}
    }
    partitions(&meaning.run, out);
    FILES
}

fn predictions(infer: &InferModel, out: &mut Statements<'_>) {
    let file = match infer.decode_fn.as_ref().map(|decode| &decode.0) {
        Some(DecodeFn::File(file)) => file,
        Some(DecodeFn::Dataset(_)) => {
            let message = "`decode_from_dataset` has no counterpart in this command";
            let help = "`gimlet infer` writes predictions for the examples of a task: --gin_file=MODEL_DIR/config.gin \
                        --gin_file=t5x/configs/runs/infer.gin";
            return out.refuse::<InferModel>(("", "decode_fn"), message, help);
        }
        None => {
            let message = "predictions are asked for, and `infer_model.decode_fn` is not bound";
            let help = "bind `infer_model.decode_fn = @decode_from_file`; t5's infer.gin does";
            return out.refuse::<InferModel>(("", "decode_fn"), message, help);
        }
    };
    out.write::<Run>("WORK", "@gimlet.PredictFile", ("", "mode"));
    let key = |name: &str| format!("gimlet.PredictFile.{name}");
    let place = ("", "input_filename");
    out.bind::<DecodeFromFile>(&key("input_file"), file.input_filename.clone(), place);
    let place = ("", "output_filename");
    out.bind::<DecodeFromFile>(&key("output_file"), file.output_filename.clone(), place);
    out.bind::<DecodeFromFile>(&key("repeats"), file.repeats, ("", "repeats"));
}

fn scores(score: &ScoreFromStrings, out: &mut Statements<'_>) {
    if !score.score_eos {
        let message = "the end of a target is always scored here";
        out.refuse::<ScoreFromStrings>(("", "score_eos"), message, "bind it to True");
    }
    let Score::Save(save) = &score.score_postprocess_fn.0;
    let Some(scores_filename) = &save.scores_filename else {
        let message = "scores are computed for nothing: `save_scores.scores_filename` is None";
        let help = "bind it to the path of the results, without their ending";
        return out.refuse::<SaveScores>(("", "scores_filename"), message, help);
    };
    out.write::<Run>("WORK", "@gimlet.ScoreFiles", ("", "mode"));
    let key = |name: &str| format!("gimlet.ScoreFiles.{name}");
    out.bind::<ScoreFromStrings>(&key("input_file"), score.inputs.clone(), ("", "inputs"));
    out.bind::<ScoreFromStrings>(&key("target_file"), score.targets.clone(), ("", "targets"));
    let place = ("", "scores_filename");
    out.bind::<SaveScores>(&key("output_file"), scores_filename.clone(), place);
    let place = ("", "save_example_text");
    out.bind::<SaveScores>(&key("save_texts"), save.save_example_text, place);
}
