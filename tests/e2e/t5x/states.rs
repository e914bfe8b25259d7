//! Runs that begin and end in states of optax's optimizers and `MultiOptimizer` as T5X saves them: `make_states.py` made
//! these, and restores in T5X what a run here saved.

use super::unpack_checkpoint;
use crate::arrays;
use crate::command::{Train, sources};

/// The examples of the steps before the run.
const SEEN: usize = 8;

fn check(name: &str) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let (t5x, ours) = (scratch.path().join("t5x"), scratch.path().join(name));
    let state = format!("states/{name}");
    unpack_checkpoint(&state, 2, &t5x);
    unpack_checkpoint(&state, 4, &t5x);
    let examples = std::fs::read_to_string(sources("t5x/states").join("examples.jsonl"));
    let rest = examples.expect("the examples are there").split_inclusive('\n').skip(SEEN).collect();
    let rest: String = rest;
    std::fs::write(scratch.path().join("examples.jsonl"), rest).expect("the folder can be written");
    Train::new(scratch.path())
        .arg(format!("--gin_search_paths={}", sources("t5x").display()))
        .gin_file("states.gin")
        .bind("OPTIMIZER", format!("%{}", name.to_uppercase()))
        .bind_text("INITIAL_CHECKPOINT_PATH", t5x.join("checkpoint_2"))
        .bind_text("MODEL_DIR", &ours)
        .succeeds();
    arrays::assert_close(&arrays::open(&ours, 4), &arrays::open(&t5x, 4), 1e-4);
}

#[test]
fn adam_in_a_chain_goes_on_from_t5x() {
    check("adam");
}

#[test]
fn lion_goes_on_from_t5x() {
    check("lion");
}

#[test]
fn rmsprop_with_momentum_goes_on_from_t5x() {
    check("rmsprop");
}

#[test]
fn optimizers_for_chosen_parameters_go_on_from_t5x() {
    check("multi");
}
