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
    let is_t5 = !arguments.is_tuning() && !arguments.is_bert();
    let by_accelerate = !arguments.has("fp16");
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
        (5, is_validated && is_t5, "each validation is masked anew: always alike here"),
        (6, is_t5, "the run has no seed: --gin.RANDOM_SEED=N sets it here"),
        (
            6,
            !is_t5,
            "--seed is only that of the order of examples: also of first values and dropout here",
        ),
        (
            7,
            is_t5 && left > 0,
            "files that the number of processes does not divide are not read: the same here",
        ),
        (
            8,
            facts.num_processes > 1,
            "the logged norm of gradients is that of one process: of all here",
        ),
        (
            9,
            arguments.is("fp16") && !schedule.is_empty(),
            "a step whose gradients overflow moves the schedule: it does not here",
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
        (
            12,
            by_accelerate && facts.num_processes > 1 && !schedule.is_empty(),
            "each update moves the schedule by as many steps as there are processes: by one here",
        ),
        (
            15,
            arguments.is_bert(),
            "the file of drawn samples is taken for that of any data of this name: only of the same data here",
        ),
        (
            16,
            arguments.is_bert(),
            "random words depend on the tokenizer's order of pieces: they are drawn from ascending ids here",
        ),
        (
            23,
            arguments.has("source_prefix") && arguments.is("use_generate_on_valid"),
            "labels of different lengths end the run at its first validation: padding is left out here",
        ),
        (22, !has_git, "without the program git the run ends: no difference is recorded here"),
    ];
    let met = rows.into_iter().filter(|(_, is_met, _)| *is_met);
    met.map(|(trap, _, text)| (trap, text)).collect()
}

const PARTIAL_BATCHES: &str = "the last batch of a pass is divided by --gradient_accumulation_steps, even if fewer micro-batches are \
    left: by those here, unless --gin.losses.mean_of_microbatches.partial_batches=\"'upstream'\"";

#[cfg(test)]
mod tests {
    use super::super::flags::{HALF_PRECISION, OPTIMIZER, T5, TRAINER, TRAINER_END};
    use super::*;

    fn facts(num_processes: usize, num_files: usize) -> Facts {
        let shards = (0..num_files).map(|number| format!("shard_{number}.jsonl")).collect();
        let model_config = Default::default();
        Facts { num_processes, model_config, shards, init_step: 0, tuning: None, bert: None }
    }

    /// Compares the traps from 4 on that a command line meets, of which every one meets 6.
    fn check(line: &str, facts: &Facts, expected: &[u8]) {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let tables = [TRAINER, HALF_PRECISION, TRAINER_END, T5, OPTIMIZER];
        let arguments = Arguments::parse(&tables, &words).expect(line);
        let met = traps(&arguments, facts, true).into_iter().map(|(trap, _)| trap);
        let met: Vec<u8> = met.filter(|trap| *trap >= 4).collect();
        assert_eq!(met, expected, "{line}: {facts:?}");
    }

    #[test]
    fn traps_of_schedules_seeds_files_processes_and_checkpoints_are_named_where_they_are_met() {
        let alone = facts(1, 3);
        check("", &alone, &[6]);
        check("--lr_scheduler constant --num_warmup_steps 5", &alone, &[6]);
        check("--lr_scheduler constant_with_warmup --num_warmup_steps 5", &alone, &[4, 6]);
        check("--lr_scheduler linear --num_warmup_steps 0", &alone, &[4, 6]);
        check("--lr_scheduler cosine --num_warmup_steps 5", &alone, &[4, 4, 6]);
        check("--lr_scheduler linear --iters 9 --num_training_steps 10", &alone, &[6]);
        check("--valid_data_path a --valid_interval 2", &alone, &[5, 6]);
        check("--valid_data_path a", &alone, &[6]);
        check("--fp16 --lr_scheduler constant", &alone, &[6, 9]);
        check("--fp16", &alone, &[6]);
        check("--init_checkpoint a", &alone, &[6, 11]);
        check("--init_checkpoint a --reset_optimizer", &alone, &[6]);
        check("--init_checkpoint a --lr_scheduler constant", &alone, &[6]);
        check("", &facts(3, 3), &[6, 8]);
        check("", &facts(2, 3), &[6, 7, 8]);
    }

    #[test]
    fn each_process_has_as_many_consecutive_files() {
        let facts = facts(2, 5);
        assert_eq!(shards_of(0, &facts), ["shard_0.jsonl", "shard_1.jsonl"]);
        assert_eq!(shards_of(1, &facts), ["shard_2.jsonl", "shard_3.jsonl"]);
    }
}
