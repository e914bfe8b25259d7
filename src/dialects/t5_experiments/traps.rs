//! The traps of t5-experiments that a run would have met there, numbered as in `docs/t5_experiments.md`, each with
//! what happens here.

use super::arguments::Arguments;
use super::translate::Facts;

/// Returns the files that a process reads: consecutive ones, as many for each; the rest of the division is left out.
pub fn shards_of(rank: usize, facts: &Facts) -> &[String] {
    let count = facts.shards.len() / facts.num_processes;
    &facts.shards[rank * count..(rank + 1) * count]
}

/// Returns each trap with its number.
pub fn traps(arguments: &Arguments, facts: &Facts, has_git: bool) -> Vec<(u8, &'static str)> {
    let count = |flag: &str| arguments.int(flag).unwrap_or_default();
    let schedule = arguments.text("lr_scheduler").unwrap_or_default();
    let warms_up = schedule != "constant" && count("num_warmup_steps") > 0;
    let falls = ["linear", "cosine", "cosine_with_restarts"].contains(&&schedule[..]);
    let total = arguments.int("num_training_steps").unwrap_or(count("iters"));
    let is_validated = arguments.valid_interval().is_some();
    let remembers = ["save_best", "early_stopping_patience", "use_lr_drop"];
    let remembers = arguments.changed().any(|flag| remembers.contains(&flag.name));
    let parts = count("gradient_accumulation_steps");
    let is_given = |name: &str| arguments.changed().any(|flag| flag.name == name);
    let left = facts.shards.len() % facts.num_processes;
    let rows = [
        (2, true, "steps count from 0 to --iters, which is one update more: the same here"),
        (3, parts > 1, PARTIAL_BATCHES),
        (4, warms_up, "the first step has a learning rate of 0: the same here"),
        (
            4,
            falls && total <= count("iters"),
            "the last step has a learning rate of 0: the same here",
        ),
        (5, is_validated, "each validation is masked anew: always alike here"),
        (6, true, "the run has no seed: --gin.RANDOM_SEED=N sets it here"),
        (
            7,
            left > 0,
            "files that the number of processes does not divide are not read: the same here",
        ),
        (
            8,
            facts.num_processes > 1,
            "the logged norm of gradients is that of one process: of all here",
        ),
        (
            10,
            is_validated && remembers,
            "a resumed run forgets metrics of validations: they are saved here",
        ),
        (
            11,
            is_given("init_checkpoint") && schedule.is_empty() && !arguments.is("reset_optimizer"),
            "--lr has no effect, since --init_checkpoint has a rate: it has here",
        ),
        (22, !has_git, "without the program git the run ends: no difference is recorded here"),
    ];
    let met = rows.into_iter().filter(|(_, is_met, _)| *is_met);
    met.map(|(trap, _, text)| (trap, text)).collect()
}

const PARTIAL_BATCHES: &str = "the last batch of a pass is divided by --gradient_accumulation_steps, even if fewer micro-batches are \
    left: by those here, unless --gin.losses.mean_of_microbatches.partial_batches=\"'upstream'\"";
