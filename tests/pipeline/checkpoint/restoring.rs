//! The arrays that a run restores from a checkpoint, and its errors for another model's.

use gimlet::checkpoint::{Plan, RestoreCheckpointConfig, RestoreMode, Rule, Shapes, plan_resume};
use gimlet::models::open;

use super::fixture;

pub(super) fn config(
    rules: Option<&[(&str, Option<&str>)]>,
    fallback: bool,
) -> RestoreCheckpointConfig {
    let rule = |(pattern, to): &(&str, Option<&str>)| -> Rule {
        (pattern.to_string(), to.map(str::to_string))
    };
    RestoreCheckpointConfig {
        assignment_map: rules.map(|rules| rules.iter().map(rule).collect()),
        fallback_to_scratch: fallback,
        ..RestoreCheckpointConfig::new(&[], RestoreMode::Specific)
    }
}

fn needs() -> Shapes {
    open(&fixture("t5x/checkpoint_3")).unwrap().shapes()
}

fn plan(config: &RestoreCheckpointConfig, needs: &Shapes) -> Result<Plan, String> {
    let reader = open(&fixture("t5x/checkpoint_3")).unwrap();
    config.plan(reader.as_ref(), needs).map_err(|error| error.to_string())
}

#[test]
fn the_same_model_takes_everything() {
    let plan = plan(&config(None, false), &needs()).unwrap();
    assert_eq!(plan.sources.len(), 11);
    assert!(plan.from_scratch.is_empty() && plan.unused.is_empty());
}

#[test]
fn another_model_is_refused_with_every_difference() {
    let mut needs = needs();
    needs.insert("target/decoder/x".to_string(), vec![2]);
    needs.insert("target/encoder/norm/scale".to_string(), vec![8]);
    needs.remove("state/step");
    let reader = open(&fixture("t5x/checkpoint_3")).unwrap();
    let resumed = plan_resume(reader.as_ref(), &needs).unwrap_err().to_string();
    let configured = plan(&config(None, false), &needs).unwrap_err();
    assert!(resumed.contains("MODEL_DIR") && !resumed.contains("assignment_map"), "{resumed}");
    assert!(configured.contains("assignment_map") && !configured.contains("MODEL_DIR"));
    for message in [configured, resumed] {
        assert!(message.contains("checkpoint_3` holds another model"), "{message}");
        assert!(message.contains("target/decoder/x"), "{message}");
        assert!(message.contains("target/encoder/norm/scale  [6], expected [8]"), "{message}");
        assert!(message.contains("only in the checkpoint:\n    state/step"), "{message}");
    }
}

#[test]
fn what_rules_drop_is_initialized_whatever_its_shape() {
    let mut needs = needs();
    needs.insert("target/encoder/norm/scale".to_string(), vec![8]);
    let dropped: &[_] = &[("state/.*", None), (".*/scale", None)];
    let plan_of = |fallback| plan(&config(Some(dropped), fallback), &needs);
    let found = plan_of(true).unwrap();
    let sources: Vec<_> = found.sources.keys().collect();
    assert_eq!(sources, ["target/encoder/mlp/wi/kernel"]);
    assert_eq!((found.from_scratch.len(), found.unused.len()), (10, 10));
    assert!(plan_of(false).unwrap_err().contains("missing from the checkpoint"));
    assert!(plan(&config(None, true), &needs).unwrap_err().contains("needs an `assignment_map`"));
}

/// Mesh TensorFlow's `init_checkpoint`: arrays of both, by name, with state and step.
#[test]
fn without_strictness_what_model_and_checkpoint_share_is_restored() {
    let lax = RestoreCheckpointConfig { strict: false, ..config(None, true) };
    let mut wanted = needs();
    wanted.insert("target/encoder/task_adapter/wi/kernel".to_string(), vec![6, 2]);
    wanted.remove("target/encoder/mlp/wi/kernel");
    let found = plan(&lax, &wanted).unwrap();
    assert_eq!(found.from_scratch, ["target/encoder/task_adapter/wi/kernel"]);
    assert_eq!(found.unused, ["target/encoder/mlp/wi/kernel"]);
    assert!(found.sources.contains_key("state/step"));
    wanted.insert("target/encoder/norm/scale".to_string(), vec![8]);
    assert!(plan(&lax, &wanted).unwrap_err().contains("[6], expected [8]"));
    wanted.retain(|name, _| name.starts_with("state/") || name.contains("task_adapter"));
    assert!(plan(&lax, &wanted).unwrap_err().contains("holds another model"));
}
