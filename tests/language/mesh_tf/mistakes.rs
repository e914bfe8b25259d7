//! Mistakes in configurations of Mesh TensorFlow: each message has the place, what was found, what was
//! expected, and a remedy.

use gimlet::run::translate_mesh_tf;

use super::{file, translated};

/// The message for a fine-tuning with these statements has all of the parts.
fn check(more: &[&str], parts: &[&str]) {
    let Err(error) = translated(more) else { panic!("{more:?} is accepted") };
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in\n{error}");
    }
}

#[test]
fn macros_that_published_files_leave_open_are_asked_for() {
    let words = [format!("--gin_file={}", file(super::BASE))];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Err(failure) = translate_mesh_tf(&words) else { panic!("macros are missing") };
    let error = failure.to_string();
    for part in [
        "macro `tpu_topology` is not defined",
        "macro `init_checkpoint` is not defined",
        "operative_config.gin:",
        "--gin_param=\"tpu_topology = 'v3-8'\"",
        "or None to start from scratch",
    ] {
        assert!(error.contains(part), "{part:?} is not in\n{error}");
    }
}

#[test]
fn an_unknown_selector_has_a_suggestion() {
    check(
        &["Unitransfomer.d_model = 4"],
        &["no configurable is named `Unitransfomer`", "Unitransformer"],
    );
}

#[test]
fn stacks_of_different_widths_name_both_places() {
    check(
        &["encoder/Unitransformer.d_model = 512"],
        &[
            "`encoder/Unitransformer.d_model` is 512",
            "`decoder/Unitransformer.d_model` is 768",
            "a model has one width",
            "bind both to the same value",
        ],
    );
}

#[test]
fn one_model_has_one_rate_of_dropout() {
    check(
        &["decoder/DenseReluDense.dropout_rate = 0.2"],
        &["a model has one rate of dropout", "`decoder/DenseReluDense.dropout_rate` is 0.2"],
    );
}

#[test]
fn a_layer_of_another_class_is_refused_by_name() {
    check(
        &["encoder/make_layer_stack.layers = [@TalkingHeadsSelfAttention, @DenseReluDense]"],
        &["`TalkingHeadsSelfAttention` cannot be used here", "@SelfAttention"],
    );
    check(
        &["encoder/make_layer_stack.layers = [@DenseReluDense, @SelfAttention]"],
        &[
            "expected the layers SelfAttention, DenseReluDense",
            "found DenseReluDense, SelfAttention",
        ],
    );
    check(
        &[
            "encoder/make_layer_stack.layers = [({'num_heads': 6}, @SelfAttention), @DenseReluDense]",
        ],
        &["layers of one stack have the same dimensions"],
    );
}

#[test]
fn tokens_that_lengths_do_not_divide_are_refused() {
    check(
        &["tokens_per_batch = 1000"],
        &[
            "1000 tokens are not a whole number of sequences of 512",
            "bind 512 tokens, or ('sequences_per_batch', 1)",
        ],
    );
}

#[test]
fn a_mixture_that_is_not_there_is_reported_at_its_name() {
    check(
        &["MIXTURE_NAME = 'wikipedia_books_unsupervised'"],
        &[
            "no task or mixture is named `wikipedia_books_unsupervised`",
            "--gin_param",
            "--module_import=MODULE",
        ],
    );
}

#[test]
fn values_without_a_counterpart_are_refused_with_the_reason() {
    check(
        &["decoder/Unitransformer.label_smoothing = 0.1"],
        &["expected 0.0", "label_smoothing", "0.1", "padded rows"],
    );
    check(&["run.ensemble_inputs = True"], &["expected None", "ensemble one by one"]);
    check(
        &["make_bitransformer.decoder_name = 'other'"],
        &["named 'encoder' and 'other'", "expected 'encoder' and 'decoder'"],
    );
    check(&["Bitransformer.shared_embedding = False"], &["expected True", "one embedding"]);
    check(&["run.mode = 'export'"], &["there is no mode 'export'", "gimlet export"]);
    check(&["run.dataset_split = 'validation'"], &["a training reads the split 'train'"]);
    check(&["run.train_dataset_fn = None"], &["a training has no data", "dataset.gin"]);
    check(
        &["encoder/SelfAttention.relative_attention_type = None"],
        &["attention without relative positions", "bias_shared"],
    );
    check(
        &["decoder/Unitransformer.positional_embedding = True"],
        &["an embedding of positions is not supported", "positional_embedding = False"],
    );
}

#[test]
fn a_module_that_is_not_there_is_an_error_on_the_command_line_only() {
    let base = format!("--gin_file={}", file(super::BASE));
    let Err(failure) = translate_mesh_tf(&[&base, "--module_import=my.tasks"]) else {
        panic!("no module")
    };
    assert!(failure.to_string().contains("my.tasks"), "{failure}");
    translated(&["import google3.learning.tasks"]).expect("imports in gin are skipped");
}
