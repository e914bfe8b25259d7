//! t5-experiments' command lines: the statements that they become, the files that record them, and what is refused.

mod bert;
mod mistakes;
mod tuning;

use std::fs;
use std::path::PathBuf;

use gimlet::run::{Translated, translate_t5_experiments};
use tempfile::TempDir;

/// A file of this folder.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/language/t5_experiments").join(name)
}

/// A checkpoint of the Trainer after seven updates.
fn pth() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/checkpoint/other");
    tests.join("trainer/adamw.pth")
}

/// A checkout of t5-experiments as far as its command lines see it, with two shards for training and one held out.
struct Checkout(TempDir);

impl Checkout {
    fn new() -> Self {
        let checkout = Self(tempfile::tempdir().expect("a temporary folder"));
        checkout.write("train/shard_00.jsonl", "{\"text\": \"a line\"}\n");
        checkout.write("train/shard_01.jsonl", "{\"text\": \"another line\"}\n");
        checkout.write("valid/shard_00.jsonl", "{\"text\": \"a held-out line\"}\n");
        checkout
            .write("nano.json", &fs::read_to_string(file("nano.json")).expect("it is committed"));
        checkout
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Translates a command line in this folder.
    fn translated(&self, line: &str) -> Result<Translated, String> {
        let folder = format!("--working_dir={}", self.0.path().display());
        let words = line.split_whitespace().chain([&folder[..]]);
        let words: Vec<&str> = words.collect();
        translate_t5_experiments(&words).map_err(|failure| self.placed(&failure.to_string()))
    }

    /// Writes CHECKOUT for this folder.
    fn placed(&self, text: &str) -> String {
        text.replace(&self.0.path().display().to_string(), "CHECKOUT")
    }

    /// Compares the statements of a command line with a committed file, which is written if UPDATE_GOLDEN is set.
    fn check(&self, line: &str, golden: &str) {
        let translated = self.translated(line).unwrap_or_else(|message| panic!("{message}"));
        let statements = translated.statements.iter();
        let lines = statements.map(|it| format!("{:<38} {}\n", self.placed(&it.place), it.text));
        let text = self.placed(&lines.collect::<String>());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(file(golden), &text).expect("the folder can be written");
        }
        assert_eq!(text, fs::read_to_string(file(golden)).expect("it is committed"));
        translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// T5 small for Wikipedia, as its author trained it.
const SMALL: &str = "t5 --batch_size 32 --gradient_accumulation_steps 2 --save_interval 100000 \
    --log_interval 500 --iters 1100000 --data_path train --model_path ./runs/small_wiki_bs_128 \
    --input_seq_len 512 --target_seq_len 192 --lr 5e-05 --weight_decay 1e-05 --model_cfg small.json \
    --model_cls modeling_t5:T5ForConditionalGeneration";

/// T5 base with attention to the context, continued.
const CONTINUED: &str = "t5 --batch_size 8 --gradient_accumulation_steps 4 --save_interval 75000 \
    --log_interval 500 --iters 1000000 --data_path train --model_path ./runs/cdq \
    --input_seq_len 512 --target_seq_len 192 --lr 5e-05 --weight_decay 1e-05 \
    --model_cls modeling_t5:T5ForConditionalGeneration --model_cfg cdq.json \
    --init_checkpoint ./runs/cdq/model_150000.pth";

/// A run of t5-experiments that was measured.
const MEASURED: &str = "t5 --data_path train --valid_data_path valid --base_model vocab/t5 \
    --vocab vocab/t5/spiece.model --model_cls modeling_t5:T5ForConditionalGeneration --model_cfg nano.json \
    --model_path run_t5 --batch_size 4 --gradient_accumulation_steps 2 --iters 12 --log_interval 3 \
    --valid_interval 4 --save_interval 6 --save_best --input_seq_len 48 --target_seq_len 24 \
    --optimizer Adafactor --lr 1e-02 --scale_parameter --lr_scheduler constant_with_warmup \
    --num_warmup_steps 5";

#[test]
fn a_training_of_t5_small_becomes_statements() {
    let checkout = Checkout::new();
    checkout.write("small.json", r#"{"d_model": 512, "n_positions": 512, "model_type": "t5"}"#);
    checkout.check(SMALL, "small.golden");
    let translated = checkout.translated(SMALL).expect("it can be translated");
    let notices =
        translated.notices.iter().map(|notice| checkout.placed(notice)).collect::<Vec<_>>();
    assert_eq!(notices, ["CHECKOUT/small.json: no effect have `n_positions`"]);
}

#[test]
fn heads_with_queries_of_the_whole_row_are_a_parameter() {
    let checkout = Checkout::new();
    let config =
        r#"{"num_cdq_heads": 4, "encoder_self_attention_layer": "modeling_t5:T5CDQAttention"}"#;
    checkout.write("cdq.json", config);
    let line = SMALL.replace("small.json", "cdq.json");
    let translated = checkout.translated(&line).expect("it can be translated");
    let expected = "t5x.examples.t5.network.T5Config.num_cdq_heads = 4";
    assert!(translated.statements.iter().any(|statement| statement.text == expected));
    translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_run_that_continues_another_is_translated_without_its_checkpoint() {
    let checkout = Checkout::new();
    checkout.write("cdq.json", r#"{"num_cdq_heads": 8}"#);
    let translated = checkout.translated(CONTINUED).unwrap_or_else(|message| panic!("{message}"));
    let expected =
        "t5x.utils.RestoreCheckpointConfig.path = 'CHECKOUT/./runs/cdq/model_150000.pth'";
    let mut texts = translated.statements.iter().map(|it| checkout.placed(&it.text));
    assert!(texts.any(|text| text == expected));
}

#[test]
fn the_flags_of_the_command_line_win_over_the_folder_that_they_are_in() {
    let checkout = Checkout::new();
    let value = |line: &str, key: &str| {
        let translated = checkout.translated(line).unwrap_or_else(|message| panic!("{message}"));
        let texts = translated.statements.iter().map(|it| checkout.placed(&it.text));
        let mut found: Vec<String> = texts.filter(|text| text.starts_with(key)).collect();
        found.pop().unwrap_or_else(|| panic!("{key} is bound"))
    };
    let base = "t5 --data_path train --model_path run --model_cfg nano.json --lr 1";
    let check = |more: &str, expected: &str| {
        let key = expected.split(" = ").next().expect("it is a statement");
        assert_eq!(value(&format!("{base} {more}"), key), expected, "{more}");
    };
    check("", "MODEL_DIR = 'CHECKOUT/run'");
    check("--model_path /else/where/", "MODEL_DIR = '/else/where'");
    check("--model_path gs://bucket/run", "MODEL_DIR = 'gs://bucket/run'");
    check("", "VOCABULARY_FILE = 'CHECKOUT/./vocabs/sentencepiece.model'");
    check("", "TRAIN_STEPS = 1");
    check("--iters 9 --batch_size 4 --grad 3", "BATCH_SIZE = 12");
    check("", "t5x.utils.SaveCheckpointConfig.period = None");
    check("--save_interval 5", "t5x.utils.SaveCheckpointConfig.period = 5");
    check("", "t5x.train.train.train_eval_dataset_cfg = None");
    let valid = "--valid_data_path valid --log_interval 7";
    check(valid, "t5x.train.train.eval_period = 7");
    check(
        valid,
        "FILES = {'train': 'CHECKOUT/train/*.jsonl', 'validation': 'CHECKOUT/valid/*.jsonl'}",
    );
    check("--task prefix_lm", "PREPROCESSOR = @t5.data.preprocessors.prefix_lm()");
    check("--weight_decay 1e-05", "torch.optim.AdamW.weight_decay = 1e-05");
    let adafactor = "--optimizer Adafactor --scale_parameter";
    check(adafactor, "OPTIMIZER = @gimlet.optimizers.TransformersAdafactor()");
    check(adafactor, "gimlet.optimizers.TransformersAdafactor.scale_parameter = True");
    check(adafactor, "gimlet.optimizers.TransformersAdafactor.relative_step = False");
    check("--clip_grad_value 1", "gimlet.optimizers.Clipped.value = 1.0");
    check("--clip_grad_norm 1", "gimlet.optimizers.Clipped.norm = 1.0");
    check("--clip_grad_norm 1", "gimlet.optimizers.Clipped.optimizer = @torch.optim.AdamW()");
    check("--clip_grad_norm 1", "OPTIMIZER = @gimlet.optimizers.Clipped()");
    check("--clip_grad_norm 0", "OPTIMIZER = @torch.optim.AdamW()");
    check("", "gimlet.schedules.get_scheduler.lr = 1.0");
    let cosine = "--lr_scheduler cosine --num_warmup_steps 2 --iters 9";
    check(cosine, "gimlet.schedules.get_scheduler.name = 'cosine'");
    check(cosine, "gimlet.schedules.get_scheduler.num_warmup_steps = 2");
    check(cosine, "gimlet.schedules.get_scheduler.num_training_steps = 9");
}

#[test]
fn half_precision_is_a_format_of_activations_and_a_scale_of_the_loss() {
    let checkout = Checkout::new();
    let check = |flags: &str, expected: &[&str]| {
        let line =
            format!("t5 --data_path train --model_path run --model_cfg nano.json --lr 1 {flags}");
        let translated = checkout.translated(&line).unwrap_or_else(|message| panic!("{message}"));
        let is_of_it = |text: &&str| text.contains(".dtype") || text.contains("LossScaler");
        let texts = translated.statements.iter().map(|it| &it.text[..]);
        assert_eq!(texts.filter(is_of_it).collect::<Vec<_>>(), expected, "{flags}");
        translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    };
    let half = "t5x.examples.t5.network.T5Config.dtype = 'float16'";
    let scaler = "t5x.trainer.Trainer.loss_scaler = @gimlet.LossScaler()";
    let bound = |parameter: &str| format!("gimlet.LossScaler.{parameter}");
    check("", &[]);
    check("--fp16", &[half, scaler]);
    check("--fp16 --max_loss_scale 8", &[half, scaler]);
    check("--apex_opt_lvl O2", &[]);
    check("--fp16 --apex_opt_lvl O0", &[]);
    check("--fp16 --apex_opt_lvl O1 --min_loss_scale 2", &[half, scaler, &bound("minimum = 2.0")]);
    let limits = [bound("maximum = 1024.0"), bound("initial = 1024.0")];
    check(
        "--fp16 --apex_opt_lvl O2 --max_loss_scale 1024",
        &[half, scaler, &limits[0], &limits[1]],
    );
}

#[test]
fn a_run_begins_with_a_checkpoint_and_what_is_reset_begins_anew() {
    let checkout = Checkout::new();
    let trained = fs::read(pth()).expect("it is committed");
    fs::write(checkout.0.path().join("model_6.pth"), trained).expect("a file");
    let check = |flags: &str, expected: &[&str]| {
        let line = format!(
            "t5 --data_path train --model_path run --model_cfg nano.json --lr 1 --lr_scheduler linear \
             --num_warmup_steps 0 --init_checkpoint model_6.pth {flags}"
        );
        let translated = checkout.translated(&line).unwrap_or_else(|message| panic!("{message}"));
        let begins =
            ["t5x.utils.RestoreCheckpointConfig.", "gimlet.schedules.get_scheduler.offset"];
        let texts = translated.statements.iter().map(|it| checkout.placed(&it.text));
        let found: Vec<String> =
            texts.filter(|text| begins.iter().any(|key| text.starts_with(key))).collect();
        let mut all = vec![
            "t5x.utils.RestoreCheckpointConfig.path = 'CHECKOUT/model_6.pth'",
            "t5x.utils.RestoreCheckpointConfig.mode = 'specific'",
            "t5x.utils.RestoreCheckpointConfig.strict = False",
            "t5x.utils.RestoreCheckpointConfig.fallback_to_scratch = True",
        ];
        all.extend(expected);
        assert_eq!(found, all, "{flags}");
        translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    };
    let offset = |steps| format!("gimlet.schedules.get_scheduler.offset = {steps}");
    let map = |rules| format!("t5x.utils.RestoreCheckpointConfig.assignment_map = [{rules}]");
    check("", &[]);
    check("--reset_optimizer", &[&map("('state/param_states/.*', None)")]);
    // Six was the last update, the seventh.
    check("--reset_lr", &[&offset(7)]);
    check("--reset_iteration", &[&map("('state/step', None)"), &offset(-7)]);
    check("--reset_iteration --reset_lr", &[&map("('state/step', None)")]);
    let data = "t5x.utils.RestoreCheckpointConfig.restore_dataset = True";
    check("--skip_used_data", &[data]);
    check("--skip_used_data --reset_iteration --reset_lr", &[&map("('state/step', None)")]);
}

#[test]
fn a_measured_run_becomes_statements_and_the_same_config_json() {
    let checkout = Checkout::new();
    checkout.check(MEASURED, "measured.golden");
    let record = checkout.translated(MEASURED).expect("it can be translated").record;
    assert_eq!(checkout.placed(&record.folder), "CHECKOUT/run_t5");
    let names: Vec<&str> = record.files.iter().map(|file| &file.name[..]).collect();
    assert_eq!(names, ["config.json", "git.diff"]);
    let environment = ["\"CUDA_VISIBLE_DEVICES\": ", "\"MACHINE\": ", "\"COMMIT\": "];
    let is_kept = |line: &&str| !environment.iter().any(|name| line.trim_start().starts_with(name));
    let kept = |text: &str| text.lines().filter(is_kept).map(str::to_string).collect::<Vec<_>>();
    let expected = fs::read_to_string(file("config.json")).expect("it is committed");
    assert_eq!(kept(&checkout.placed(&record.files[0].text)), kept(&expected));
    assert!(!record.files[0].text.ends_with('\n'), "Python's json.dump ends without a line break");
}

#[test]
fn arguments_without_effect_are_mentioned() {
    let checkout = Checkout::new();
    let line = "t5 --data_path train --model_path run --model_cfg nano.json --lr 1 --fp16_allreduce \
        --lr_drop_factor 0.5 --use_generate_on_valid False";
    let notices = checkout.translated(line).expect("it can be translated").notices;
    assert!(notices[0].starts_with("--fp16_allreduce has no effect: gradients"), "{notices:?}");
    assert_eq!(notices[1], "--lr_drop_factor has no effect without --use_lr_drop");
    assert!(notices[2].contains("nano.json: no effect have `architectures`, `n_positions`"));
}

#[test]
fn a_dry_run_says_how_the_run_is_counted_and_what_it_meets() {
    let checkout = Checkout::new();
    let line = "t5 --data_path train --valid_data_path valid --valid_interval 3 --model_path run \
        --model_cfg nano.json --lr 1e-4 --iters 12 --batch_size 4 --grad 2 --dry_run";
    let description = checkout.translated(line).expect("it can be translated").description;
    for expected in [
        "updates      13 in steps 0 to 12\n",
        "lr           0.0001 at step 0, 0.0001 at step 12\n",
        "microbatches 2 of 4 rows for each process\n",
        "seeds        42, validation 42\n",
        "rank 0       shard_00.jsonl, shard_01.jsonl\n",
        "trap 2       ",
        "trap 3       the last batch of a pass is divided by",
        "trap 5       ",
        "trap 6       ",
    ] {
        assert!(description.contains(expected), "{expected:?} is not in\n{description}");
    }
    assert!(!description.contains("trap 4") && !description.contains("trap 7"), "{description}");
}
