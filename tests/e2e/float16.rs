//! Runs with a scale of the loss; on a CPU in float32, since one in float16 is refused.

use crate::events::read_scalars;
use crate::folder::Folder;
use crate::processes::launched;

#[test]
fn a_run_in_float16_is_refused_on_a_cpu_before_anything_is_written() {
    let folder = Folder::new();
    let model_dir = folder.path("refused");
    let train = folder.pretrain(2).bind_text("MODEL_DIR", &model_dir);
    let ended = train.bind_text("network.T5Config.dtype", "float16").run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    let message = "network.T5Config.dtype is 'float16', which only GPUs compute, and there is none: expected 'float32', or \
                   'bfloat16'";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    assert!(!model_dir.exists());
}

#[test]
fn steps_whose_gradients_are_not_finite_are_told_and_do_not_move_the_schedule() {
    let folder = Folder::new();
    let model_dir = folder.path("scaled");
    let train = folder.pretrain(8).bind_text("MODEL_DIR", &model_dir);
    let train = train.bind("partitioning.PjitPartitioner.spread_optimizer_state", "True");
    // At the border of float32's numbers.
    let train = train
        .bind("trainer.Trainer.loss_scaler", "@gimlet.LossScaler()")
        .bind("gimlet.LossScaler.initial", "3e38")
        .bind("gimlet.LossScaler.maximum", "3e38")
        .bind_text("utils.create_learning_rate_scheduler.factors", "constant * linear_warmup")
        .bind("utils.create_learning_rate_scheduler.warmup_steps", 100);
    let ended = launched(train.num_threads(1), 2).succeeds();
    let scalars = read_scalars(&model_dir.join("train"));
    let is_left_out = |step: i64| {
        ended.stderr.contains(&format!("step {step}: gradients are not finite with a loss times"))
    };
    assert!(is_left_out(1) && is_left_out(2), "{}", ended.stderr);
    let (scales, rates) = (&scalars["loss_scale"], &scalars["learning_rate"]);
    assert!(scales.keys().any(|step| !is_left_out(*step)), "some steps make updates: {scales:?}");
    for step in 1..8 {
        assert_eq!(scales[&(step + 1)] < scales[&step], is_left_out(step), "{scales:?}");
        assert_eq!(rates[&(step + 1)] == rates[&step], is_left_out(step), "{rates:?}");
        assert_eq!(scalars["weight_gradient_norm"].contains_key(&step), !is_left_out(step));
    }
}
