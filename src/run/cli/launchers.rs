//! The launchers with which users of t5-experiments start its programs, `horovodrun` and `accelerate launch`: their words become
//! those of `gimlet launch`. Sources: Horovod 0.28 `runner/launch.py`, accelerate 0.24 `commands/launch.py`.
//!
//! `horovodrun --gloo -np 2 python run_t5_pretraining.py FLAGS` is
//! `gimlet launch --nproc_per_node 2 -- t5_experiments t5 FLAGS`. The script's file is not opened: its name says what runs.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Error, anyhow, bail};
use serde_json::Value as Json;

use crate::gin::did_you_mean;
use crate::run::shims;
use crate::run::world::visible_gpus;

use Effect::{Config, DeepSpeed, Nothing, Only, Precision, Processes, Refused};

/// The part that a launcher's flag has.
#[derive(Clone, Copy)]
enum Effect {
    /// The number of processes.
    Processes,
    /// Only these values are accepted, before a colon, and others are refused for this reason.
    Only(&'static [&'static str], &'static str),
    /// The format of numbers, which one program reads.
    Precision,
    /// Asks for DeepSpeed, unless the value names another library.
    DeepSpeed,
    /// A file with values for flags that are not given.
    Config,
    /// No effect.
    Nothing,
    /// Refused for this reason.
    Refused(&'static str),
}

/// Flags with the same part: their names without dashes, and how many values each has.
type Flags = (&'static str, usize, Effect);

/// A launcher.
struct Launcher {
    /// The words that call it.
    words: &'static [&'static str],
    flags: &'static [Flags],
}

const MACHINES: &str = "one machine needs no such flag, and several are started by `gimlet launch --nnodes=N --rdzv_endpoint=HOST:PORT COMMAND` on each";
const ELASTIC: &str = "a number of machines that may change is `gimlet launch --nnodes=MIN:MAX`";
const LIBRARIES: &str =
    "FSDP and Megatron-LM are not in Gimlet: `gimlet plan` says which mesh divides a model";
/// Beginnings of the names of flags about FSDP and Megatron-LM, which have no row.
const OF_LIBRARIES: [&str; 2] = ["fsdp-", "megatron-lm-"];
const PRECISION: &str = "only run_bert_pretraining_accel.py reads it, of t5-experiments' others --fp16 does the same, and in \
    gin the network's dtype";
const STAGE: &str = "only run_bert_pretraining_accel.py reads it, and in gin partitioning.PjitPartitioner and its rules divide the \
    state of any training";
/// The program to which the precision and the stage of ZeRO are passed.
const READS_BOTH: [&str; 2] = ["t5_experiments", "bert_accel"];

/// The distributions of accelerate, of which the last asks for DeepSpeed.
const DISTRIBUTIONS: &[&str] = &["NO", "MULTI_GPU", "MULTI_CPU", "DEEPSPEED"];
/// The rows of the stage of ZeRO, which is this one if none is given, and of a file that may have it.
const ZERO_STAGE: &str = "zero-stage";
const DEFAULT_STAGE: &str = "2";
const DEEPSPEED_FILE: &str = "deepspeed-config-file";
const HELP: &str = "`gimlet launch --help` lists the flags that take its place";
const OTHERS: &str = "for other programs take the folder of `gimlet shims` out of PATH";
const LOCAL: &[&str] = &["localhost", "127.0.0.1"];

const HOROVODRUN: Launcher = Launcher {
    words: &["horovodrun"],
    flags: &[
        ("np num-proc", 1, Processes),
        ("H hosts", 1, Only(LOCAL, MACHINES)),
        ("hostfile", 1, Refused(MACHINES)),
        ("host-discovery-script", 1, Refused(ELASTIC)),
        ("min-np min-num-proc", 1, Refused(ELASTIC)),
        ("max-np max-num-proc", 1, Refused(ELASTIC)),
        ("cb check-build", 0, Refused("`gimlet doctor` says what this build supports")),
        ("h help", 0, Refused(HELP)),
        ("v version", 0, Refused("`gimlet --version` is what runs")),
        // Ways to communicate, and measures of them.
        ("gloo mpi jsrun tcp verbose disable-cache", 0, Nothing),
        ("hierarchical-allreduce no-hierarchical-allreduce", 0, Nothing),
        ("hierarchical-allgather no-hierarchical-allgather", 0, Nothing),
        ("autotune no-autotune timeline-mark-cycles no-timeline-mark-cycles", 0, Nothing),
        ("stall-check no-stall-check mpi-threads-disable no-mpi-threads-disable", 0, Nothing),
        ("log-with-timestamp log-without-timestamp log-hide-timestamp", 0, Nothing),
        ("no-log-hide-timestamp prefix-timestamp prefix-output-with-timestamp", 0, Nothing),
        ("p ssh-port i ssh-identity-file start-timeout config-file output-filename", 1, Nothing),
        ("network-interface network-interfaces fusion-threshold-mb cycle-time-ms", 1, Nothing),
        ("cache-capacity autotune-log-file autotune-warmup-samples", 1, Nothing),
        ("autotune-steps-per-sample autotune-bayes-opt-max-samples", 1, Nothing),
        ("autotune-gaussian-process-noise slots-per-host elastic-timeout reset-limit", 1, Nothing),
        ("timeline-filename stall-check-warning-time-seconds", 1, Nothing),
        ("stall-check-shutdown-time-seconds mpi-args binding-args num-nccl-streams", 1, Nothing),
        ("thread-affinity gloo-timeout-seconds log-level", 1, Nothing),
        ("blacklist-cooldown-range", 2, Nothing),
    ],
};

const ACCELERATE: Launcher = Launcher {
    words: &["accelerate", "launch"],
    flags: &[
        ("num-processes", 1, Processes),
        ("config-file", 1, Config),
        ("num-machines", 1, Only(&["1"], MACHINES)),
        ("mixed-precision", 1, Precision),
        ("distributed-type", 1, DeepSpeed),
        ("use-deepspeed", 0, DeepSpeed),
        ("use-fsdp use-megatron-lm", 0, Refused(LIBRARIES)),
        // They matter with DeepSpeed alone.
        (ZERO_STAGE, 1, Nothing),
        (DEEPSPEED_FILE, 1, Nothing),
        ("tpu tpu-cluster", 0, Refused("TPUs are not supported")),
        ("cpu", 0, Refused("an empty CUDA_VISIBLE_DEVICES leaves GPUs alone")),
        (
            "use-cpu",
            1,
            Only(&["false", "False"], "an empty CUDA_VISIBLE_DEVICES leaves GPUs alone"),
        ),
        ("gpu-ids", 1, Only(&["all"], "CUDA_VISIBLE_DEVICES names GPUs")),
        ("h help", 0, Refused(HELP)),
        ("q quiet m module no-python multi-gpu ipex use-xpu same-network debug", 0, Nothing),
        ("dynamo-use-fullgraph dynamo-use-dynamic downcast-bf16", 0, Nothing),
        ("num-cpu-threads-per-process dynamo-backend dynamo-mode machine-rank", 1, Nothing),
        ("main-process-ip main-process-port tee role rdzv-backend rdzv-conf", 1, Nothing),
        ("max-restarts monitor-interval main-training-function", 1, Nothing),
        ("offload-optimizer-device offload-param-device deepspeed-hostfile", 1, Nothing),
        ("gradient-accumulation-steps gradient-clipping zero3-init-flag", 1, Nothing),
        ("zero3-save-16bit-model", 1, Nothing),
    ],
};

/// The flags that a line has, by the names in their rows.
type Given = BTreeMap<&'static str, Value>;

/// A flag's value.
struct Value {
    /// The flag as it was typed, or as a file has it.
    flag: String,
    effect: Effect,
    text: String,
}

/// Translates the words of a launcher, program first. Other words stay as they are.
///
/// # Errors
/// Flags that the launcher does not have, those whose meaning Gimlet does not have, a missing number of processes, and
/// programs that are neither t5-experiments' nor `gimlet`.
pub(super) fn with_launcher_translated(args: Vec<String>) -> Result<Vec<String>, Error> {
    let name = args.get(1).map_or("", String::as_str);
    let Some(launcher) = [HOROVODRUN, ACCELERATE].into_iter().find(|it| it.words[0] == name) else {
        return Ok(args);
    };
    let called = launcher.words.join(" ");
    let words: Vec<&str> = args[1..].iter().map(String::as_str).collect();
    let Some(words) = words.strip_prefix(launcher.words) else {
        bail!("of `{name}` only `{called}` is translated: {OTHERS}");
    };
    let placed = |error: Error| anyhow!("`{called}`: {error:#}");
    let (given, program) = launcher.read(words).map_err(placed)?;
    let command = command(program);
    given.values().try_for_each(Value::check).map_err(placed)?;
    let Some(mut command) = command else {
        let found = program_of(program).first().unwrap_or(&"nothing");
        bail!(
            "`{called}` starts programs of t5-experiments and `gimlet`, and not `{found}`: {OTHERS}"
        );
    };
    let precision = given.values().find(|value| matches!(value.effect, Precision));
    if let Some(precision) = precision.filter(|precision| precision.text != "no") {
        precision.pass_to(&mut command, ("--mixed_precision", "no", PRECISION)).map_err(placed)?;
    }
    if let Some(stage) = zero_stage(&given).map_err(placed)?.filter(|stage| stage.text != "0") {
        stage.pass_to(&mut command, ("--zero_stage", "0", STAGE)).map_err(placed)?;
    }
    let count = launcher.num_processes(&given).map_err(placed)?.to_string();
    let launch = [&args[0], "launch", "--nproc_per_node", &count, "--"].map(str::to_string);
    Ok([&launch[..], &command].concat())
}

impl Launcher {
    /// Reads the flags. Returns them with the words after them.
    fn read<'a>(&self, words: &'a [&'a str]) -> Result<(Given, &'a [&'a str]), Error> {
        let (mut given, mut at) = (Given::new(), 0);
        while let Some(flag) = words.get(at).filter(|word| word.starts_with('-')) {
            at += 1;
            let (flag, joined) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (*flag, None),
            };
            let (names, num_values, effect) = *self.find(flag)?;
            let num_words = num_values.saturating_sub(usize::from(joined.is_some()));
            let values = words.get(at..at + num_words);
            let values = values.ok_or_else(|| anyhow!("{flag} has no value"))?;
            at += num_words;
            let text = joined.or(values.first().copied()).unwrap_or_default().to_string();
            given.insert(names, Value { flag: flag.to_string(), effect, text });
        }
        let file = given.values().find(|value| matches!(value.effect, Config));
        if let Some(Value { flag, text: file, .. }) = file {
            let read = fs::read_to_string(file).with_context(|| format!("{flag} {file}"))?;
            for (names, value) in read.lines().filter_map(|line| self.of_line(line)) {
                given.entry(names).or_insert(value);
            }
        }
        Ok((given, &words[at..]))
    }

    fn find(&self, flag: &str) -> Result<&Flags, Error> {
        let name = flag.trim_start_matches('-').replace('_', "-");
        if OF_LIBRARIES.iter().any(|group| name.starts_with(group)) {
            bail!("{flag} is not supported: {LIBRARIES}");
        }
        let mut rows = self.flags.iter();
        let names = || self.flags.iter().flat_map(|(names, ..)| names.split(' '));
        let found = rows.find(|(names, ..)| names.split(' ').any(|known| known == name));
        found.ok_or_else(|| anyhow!("there is no flag {flag}: {}", did_you_mean(&name, names())))
    }

    /// Reads a line of a file in YAML or JSON; none if it is not the value of a flag.
    fn of_line(&self, line: &str) -> Option<(&'static str, Value)> {
        let (flag, text) = line.split_once(':')?;
        let marks = [' ', '\t', '\'', '"', ','];
        let [flag, text] = [flag, text].map(|part| part.trim_matches(marks).to_string());
        let (names, num_values, effect) = *self.find(&flag).ok()?;
        (num_values == 1).then_some((names, Value { flag, effect, text }))
    }

    fn num_processes(&self, given: &Given) -> Result<usize, Error> {
        let Some(value) = given.values().find(|value| matches!(value.effect, Processes)) else {
            return match self.words {
                ["horovodrun"] => Err(anyhow!("the number of processes is missing, as in `-np 2`")),
                _ => Ok(visible_gpus().max(1)),
            };
        };
        let Value { flag, text, .. } = value;
        let count = text.parse().ok().filter(|count| *count > 0);
        count.ok_or_else(|| anyhow!("{flag} is `{text}`, expected a number of processes"))
    }
}

impl Value {
    fn check(&self) -> Result<(), Error> {
        let Self { flag, effect, text } = self;
        let is_one_of = |values: &[&str]| {
            let one =
                |part: &str| part.split(':').next().is_some_and(|name| values.contains(&name));
            text.split(',').all(one)
        };
        match effect {
            Refused(reason) => bail!("{flag} is not supported: {reason}"),
            Precision if !is_one_of(&["no", "fp16", "bf16"]) => {
                bail!("{flag} is `{text}`, expected no, fp16 or bf16")
            }
            DeepSpeed if !text.is_empty() && !is_one_of(DISTRIBUTIONS) => {
                bail!("{flag} is `{text}`, expected {}: {LIBRARIES}", DISTRIBUTIONS.join(" or "))
            }
            Only(values, reason) if !is_one_of(values) => {
                bail!("{flag} is `{text}`, expected {}: {reason}", values.join(" or "))
            }
            _ => Ok(()),
        }
    }

    /// Adds the value to the words of `gimlet` under the name of a flag, which other programs than one do not have for this
    /// reason.
    fn pass_to(
        &self,
        command: &mut Vec<String>,
        (name, expected, reason): (&str, &str, &str),
    ) -> Result<(), Error> {
        let at = READS_BOTH.len();
        if command.get(..at).is_none_or(|program| program != READS_BOTH) {
            bail!("{} is `{}`, expected {expected}: {reason}", self.flag, self.text);
        }
        command.splice(at..at, [name.to_string(), self.text.clone()]);
        Ok(())
    }

    /// Whether it asks for DeepSpeed.
    fn asks_for_deepspeed(&self) -> bool {
        matches!(self.effect, DeepSpeed) && ["", "DEEPSPEED"].contains(&&self.text[..])
    }
}

/// Returns the stage of DeepSpeed's ZeRO, if a line asks for DeepSpeed. As there, a number in DeepSpeed's own file wins.
fn zero_stage(given: &Given) -> Result<Option<Value>, Error> {
    let Some(asks) = given.values().find(|value| value.asks_for_deepspeed()) else {
        return Ok(None);
    };
    let default = || (format!("{} without --zero_stage", asks.flag), DEFAULT_STAGE.to_string());
    let of_flag = given.get(ZERO_STAGE).map(|value| (value.flag.clone(), value.text.clone()));
    let of_file = match given.get(DEEPSPEED_FILE) {
        Some(file) => stage_in(file)?,
        None => None,
    };
    let (flag, text) = of_file.or(of_flag).unwrap_or_else(default);
    if !["0", "1", "2", "3"].contains(&&text[..]) {
        bail!("{flag} is `{text}`, expected 0, 1, 2 or 3");
    }
    Ok(Some(Value { flag, effect: Nothing, text }))
}

/// Returns the stage in a file of DeepSpeed's, with its place, unless that is left to flags. The file must leave the format of
/// numbers to them.
fn stage_in(Value { flag, text: file, .. }: &Value) -> Result<Option<(String, String)>, Error> {
    let place = || format!("{flag} {file}");
    let read = fs::read_to_string(file).with_context(place)?;
    let config: Json = serde_json::from_str(&read).with_context(place)?;
    for format in ["fp16", "bf16"] {
        if config[format]["enabled"] == true {
            bail!(
                "{file}: {format}.enabled is true, expected \"auto\": --mixed_precision {format}"
            );
        }
    }
    let stage = &config["zero_optimization"]["stage"];
    Ok(stage.is_number().then(|| (format!("{file}: zero_optimization.stage"), stage.to_string())))
}

/// Returns a program that Python runs as a file or as a module, with its arguments.
fn program_of<'a>(mut words: &'a [&'a str]) -> &'a [&'a str] {
    if words.first().is_some_and(|name| stem(name).starts_with("python")) {
        words = &words[1..];
        while let [option, rest @ ..] = words
            && option.starts_with('-')
        {
            // These have a value.
            let is_pair = ["-W", "-X"].contains(option) && !rest.is_empty();
            words = if is_pair { &rest[1..] } else { rest };
        }
    }
    words
}

/// Returns the words of `gimlet` for a program with its arguments, which Python may run as a file or as a module.
fn command(program: &[&str]) -> Option<Vec<String>> {
    let mut words = program_of(program).iter();
    let name = stem(words.next()?);
    let known = |(file, command): &(&str, &'static [&'static str])| {
        (command.first() == Some(&"t5_experiments") && stem(file) == name).then_some(*command)
    };
    let command = match name {
        "gimlet" => &[],
        _ => shims::PROGRAMS.iter().find_map(known)?,
    };
    Some(command.iter().chain(words).map(|word| word.to_string()).collect())
}

/// Returns the last part of the name of a file or module.
fn stem(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    match name.starts_with("python") {
        true => name,
        false => name.trim_end_matches(".py").rsplit('.').next().unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let args = line.split_whitespace().map(str::to_string).collect();
        with_launcher_translated(args).map(|args| args.join(" ")).map_err(|error| error.to_string())
    }

    #[test]
    fn launchers_become_gimlet_launch() {
        let check = |line: &str, expected: &str| {
            let expected = format!("gimlet launch --nproc_per_node {expected}");
            assert_eq!(translated(&format!("gimlet {line}")), Ok(expected), "{line}");
        };
        let t5 = "2 -- t5_experiments t5 --lr 1";
        check("horovodrun --gloo -np 2 python run_t5_pretraining.py --lr 1", t5);
        check("horovodrun --num-proc=2 --verbose python3 -u ./run_t5_pretraining.py --lr 1", t5);
        check("horovodrun -np 4 -np 2 -H localhost:2 /opt/t5/run_t5_pretraining.py --lr 1", t5);
        check(
            "horovodrun -np 2 --blacklist-cooldown-range 6 7 /usr/bin/python3.9 -m run_t5_pretraining --lr 1",
            t5,
        );
        check("accelerate launch --num_processes 2 run_t5_pretraining.py --lr 1", t5);
        check(
            "accelerate launch --num-processes 2 --mixed_precision no -m run_t5_pretraining --lr 1",
            t5,
        );
        let scrolls = "3 -- t5_experiments scrolls --task_name qasper";
        check(
            "horovodrun -np 3 python -m downstream_tasks.scrolls.run_finetuning_scrolls --task_name qasper",
            scrolls,
        );
        check("horovodrun -np 3 gimlet train --gin_file=a", "3 -- train --gin_file=a");
        let bert = "accelerate launch --num_processes 2 --mixed_precision no run_bert_pretraining_accel.py -x";
        check(bert, "2 -- t5_experiments bert_accel -x");
        let bert = bert.replace(" no ", " fp16 ");
        check(&bert, "2 -- t5_experiments bert_accel --mixed_precision fp16 -x");
        let bert = |stage: &str| {
            bert.replace(
                "fp16",
                &format!("no --use_deepspeed {stage} --offload_optimizer_device cpu"),
            )
        };
        check(&bert("--zero_stage 0"), "2 -- t5_experiments bert_accel -x");
        check(&bert("--zero_stage 3"), "2 -- t5_experiments bert_accel --zero_stage 3 -x");
        check(&bert(""), "2 -- t5_experiments bert_accel --zero_stage 2 -x");
        assert_eq!(translated("gimlet train -np 2"), Ok("gimlet train -np 2".to_string()));
    }

    #[test]
    fn a_file_of_accelerate_has_values_that_flags_do_not_give() {
        let file = std::env::temp_dir().join(format!("accelerate-{}.yaml", std::process::id()));
        let check = |text: &str, flags: &str, expected: Result<&str, &str>| {
            fs::write(&file, text).expect("the folder can be written");
            let line = format!(
                "gimlet accelerate launch {flags} --config_file {} run_t5_pretraining.py",
                file.display()
            );
            match (translated(&line), expected) {
                (Ok(found), Ok(count)) => assert_eq!(
                    found,
                    format!("gimlet launch --nproc_per_node {count} -- t5_experiments t5")
                ),
                (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        };
        let yaml = "debug: false\ndistributed_type: MULTI_GPU\nmixed_precision: 'no'\nnum_machines: 1\nnum_processes: 3\nuse_cpu: false\n";
        check(yaml, "", Ok("3"));
        check(yaml, "--num_processes 5", Ok("5"));
        check("{\n  \"num_processes\": 4,\n  \"gpu_ids\": \"all\"\n}", "", Ok("4"));
        check(
            &yaml.replace("'no'", "fp16"),
            "",
            Err("`accelerate launch`: mixed_precision is `fp16`, expected no: only run_bert_"),
        );
        check(&yaml.replace("MULTI_GPU", "FSDP"), "", Err("distributed_type is `FSDP`"));
        let own = file.with_extension("json");
        let deepspeed = yaml.replace("MULTI_GPU", "DEEPSPEED");
        let deepspeed =
            format!("{deepspeed}deepspeed_config:\n  deepspeed_config_file: {}", own.display());
        for (text, expected) in [
            (r#"{"zero_optimization": {"stage": 0}}"#, Ok("3")),
            (
                r#"{"zero_optimization": {"stage": "auto"}}"#,
                Err("zero_stage is `1`, expected 0: only run_bert_"),
            ),
            (
                r#"{"zero_optimization": {"stage": 4}}"#,
                Err("zero_optimization.stage is `4`, expected 0, 1"),
            ),
            (
                r#"{"fp16": {"enabled": true}}"#,
                Err("fp16.enabled is true, expected \"auto\": --mixed_precision fp16"),
            ),
            ("{", Err("EOF while parsing")),
        ] {
            fs::write(&own, text).expect("the folder can be written");
            check(&deepspeed, "--zero_stage 1", expected);
            check(yaml, "--zero_stage 1", Ok("3"));
        }
        for file in [&file, &own] {
            fs::remove_file(file).expect("it is there");
        }
        let missing = translated(&format!(
            "gimlet accelerate launch --config_file {} run_t5_pretraining.py",
            file.display()
        ));
        assert!(missing.is_err_and(|error| error.contains("`accelerate launch`: --config_file /")
            && error.contains("No such file")));
    }

    #[test]
    fn lines_without_a_counterpart_are_refused() {
        let refused = |line: &str, part: &str| {
            let error =
                translated(&format!("gimlet {line} python run_t5_pretraining.py")).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        };
        refused(
            "horovodrun --gloo",
            "`horovodrun`: the number of processes is missing, as in `-np 2`",
        );
        refused("horovodrun -np", "`horovodrun`: -np is `python`, expected a number of processes");
        refused("horovodrun -np 0", "-np is `0`, expected a number");
        refused(
            "horovodrun -np 4 -H a:2,b:2",
            "-H is `a:2,b:2`, expected localhost or 127.0.0.1: one machine needs no such flag",
        );
        refused("horovodrun -np 4 -H localhost:2,b:2", "`gimlet launch --nnodes=N");
        refused("horovodrun -np 4 --hostfile hosts", "--hostfile is not supported: one machine");
        refused("horovodrun -np 4 --max-np 8", "`gimlet launch --nnodes=MIN:MAX`");
        refused("horovodrun --check-build", "`gimlet doctor`");
        refused("horovodrun -np 2 --gloe", "there is no flag --gloe: did you mean `gloo`?");
        refused("horovodrun -np 2 python -W ignore train.py", "and not `train.py`");
        refused("accelerate config", "of `accelerate` only `accelerate launch` is translated");
        refused("accelerate launch --num_machines 2", "--num_machines is `2`, expected 1");
        refused("accelerate launch --use_fsdp", "FSDP and Megatron-LM are not in Gimlet");
        refused(
            "accelerate launch --fsdp_offload_params",
            "FSDP and Megatron-LM are not in Gimlet",
        );
        refused(
            "accelerate launch --use_deepspeed",
            "without --zero_stage is `2`, expected 0: only",
        );
        refused("accelerate launch --mixed_precision fp8", "is `fp8`, expected no, fp16 or bf16");
        let nothing = translated("gimlet horovodrun -np 2").expect_err("it starts nothing");
        assert!(nothing.contains("and not `nothing`"), "{nothing}");
    }
}
