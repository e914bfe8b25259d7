//! Command lines of `run_bert_pretraining.py`: the statements that they become, and what is refused.

use gimlet::dialects::Statement;

use super::Checkout;

/// A run of t5-experiments that was measured.
const MEASURED: &str = "bert --data_path train_text_sentence --valid_data_path valid_text_sentence \
    --tokenizer vocab/bert --model_cls modeling_bert:BertForPreTraining --data_n_workers 0 --input_seq_len 48 \
    --data_n_epochs 2 --model_cfg bert-nano.json --batch_size 4 --gradient_accumulation_steps 2 --iters 12 \
    --log_interval 3 --valid_interval 4 --save_interval 6 --save_best --lr 3e-03 --weight_decay 0.01 \
    --optimizer AdamW --lr_scheduler linear --num_warmup_steps 3 --clip_grad_norm 0.5 \
    --early_stopping_patience 5 --optimize_metric accuracy_mlm --optimize_mode max --model_path run_bert";

/// The network of that run.
const NANO: &str = r#"{"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.0, "gradient_checkpointing": false,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 64,
    "model_type": "bert", "num_attention_heads": 2, "num_hidden_layers": 1, "pad_token_id": 0, "pre_layer_norm": true,
    "transformers_version": "4.6.0.dev0", "use_cache": true, "vocab_size": 128}"#;

/// Keys of `bert_base_uncased-4L_preln_sparse_rope.json`.
const SPARSE: &str = r#"{"model_type": "bert", "hidden_size": 16, "num_attention_heads": 2, "pre_layer_norm": true,
    "position_embedding_type": "rotary", "rotary_base": 10000, "rotary_dim": 4,
    "sparse_config_cls": "deepspeed.ops.sparse_attention:BigBirdSparsityConfig",
    "sparse_attention": {"num_heads": 2, "block": 16, "different_layout_per_head": true, "num_sliding_window_blocks": 1,
    "num_global_blocks": 1, "num_random_blocks": 1}}"#;

fn checkout() -> Checkout {
    let checkout = Checkout::new();
    for name in ["train", "valid"] {
        checkout.write(&format!("{name}_text_sentence.bin"), "");
        checkout.write(&format!("{name}_text_sentence.idx"), "");
    }
    checkout.write("bert-nano.json", NANO);
    checkout.write("vocab/bert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
    checkout.write("vocab/bert/tokenizer_config.json", r#"{"do_lower_case": false}"#);
    checkout
}

#[test]
fn a_pretraining_of_bert_becomes_statements() {
    let checkout = checkout();
    checkout.check(MEASURED, "bert.golden");
    let translated = checkout.translated(MEASURED).expect("it can be translated");
    assert_eq!(
        translated.notices,
        ["--data_n_workers has no effect: threads that prepare data follow the number of cores"]
    );
}

#[test]
fn keys_of_layouts_and_positions_are_parameters() {
    let checkout = checkout();
    checkout.write("bert-nano.json", SPARSE);
    let translated = checkout.translated(MEASURED).unwrap_or_else(|message| panic!("{message}"));
    for expected in [
        "bert.BertConfig.position_embedding = @bert.rotary()",
        "bert.rotary.dim = 4",
        "bert.BertConfig.sparsity = @bert.BigBirdSparsityConfig()",
        "bert.BigBirdSparsityConfig.different_layout_per_head = True",
    ] {
        assert!(translated.statements.iter().any(|it| it.text == expected), "{expected}");
    }
    translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    // The class of transformers ignores what only t5-experiments' reads, and has absolute positions.
    let line = MEASURED.replace("modeling_bert:", "transformers:");
    let said = checkout.translated(&line).map(|translated| translated.notices);
    assert!(said.is_err_and(|message| message.contains("`rotary`, and transformers")), "{line}");
    checkout.write("bert-nano.json", NANO);
    let said = checkout.translated(&line).map(|translated| translated.notices);
    let said = said.unwrap_or_else(|message| panic!("{message}"));
    assert!(
        said.iter().any(|notice| notice.contains("`pre_layer_norm` has no effect")),
        "{said:?}"
    );
}

/// Writes layouts of two layers as int64, of which the second one reads all blocks, into a file without other arrays.
fn write_layouts(checkout: &Checkout, first: &[i64], shape: [usize; 3]) {
    let size = 8 * first.len();
    let array = |layer: usize| {
        let name = format!(
            "bert.encoder.layer.{layer}.attention.self.sparse_self_attention.master_layout"
        );
        let place = [layer * size, (layer + 1) * size];
        (name, serde_json::json!({"dtype": "I64", "shape": shape, "data_offsets": place}))
    };
    let header: serde_json::Map<_, _> = [0, 1].map(array).into_iter().collect();
    let header = serde_json::Value::from(header).to_string();
    let numbers = first.iter().chain(std::iter::repeat_n(&1, first.len()));
    let numbers: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
    let size = (header.len() as u64).to_le_bytes();
    let path = checkout.0.path().join("trained.safetensors");
    std::fs::write(path, [&size, header.as_bytes(), &numbers].concat()).expect("a file");
}

/// Its dense attention never reads the table of relative positions.
#[test]
fn a_dense_bert_that_it_trained_has_no_positions() {
    let checkout = checkout();
    let relative = r#""position_embedding_type": "relative_attention_bias", "relative_attention_num_buckets": 8,"#;
    checkout.write("bert-nano.json", &NANO.replacen('{', &format!("{{{relative}"), 1));
    let name = "bert.embeddings.LayerNorm.bias";
    let header =
        format!(r#"{{"{name}": {{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}}}"#);
    let size = (header.len() as u64).to_le_bytes();
    let path = checkout.0.path().join("trained.safetensors");
    std::fs::write(path, [&size, header.as_bytes(), &[0; 4]].concat()).expect("a file");
    for (flag, expected) in [
        ("", &["@bert.relative_attention_bias()", "8"][..]),
        ("--init_checkpoint trained.safetensors", &["@bert.no_positions()"]),
    ] {
        let translated = checkout.translated(&format!("{MEASURED} {flag}"));
        let translated = translated.unwrap_or_else(|message| panic!("{message}"));
        let of_positions = |text: &String| {
            let (key, value) = text.split_once(" = ")?;
            let is_it = key.ends_with("position_embedding") || key.ends_with("num_buckets");
            is_it.then(|| value.to_string())
        };
        let texts = translated.statements.iter().map(|it| &it.text);
        let found: Vec<String> = texts.filter_map(of_positions).collect();
        assert_eq!(found, expected, "{flag}");
        translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_sparse_bert_keeps_the_blocks_of_its_checkpoints_first_layer() {
    let checkout = checkout();
    let short = r#""max_position_embeddings": 48, "position_embedding_type""#;
    checkout.write("bert-nano.json", &SPARSE.replace(r#""position_embedding_type""#, short));
    let line = format!("{MEASURED} --init_checkpoint trained.safetensors");
    let rows = [1, 0, 1, 0, 1, 0, 1, 1, 1];
    let check = |first: &[i64], expected: &str| {
        write_layouts(&checkout, first, [2, 3, 3]);
        let translated = checkout.translated(&line).unwrap_or_else(|message| panic!("{message}"));
        let texts: Vec<&str> = translated.statements.iter().map(|it| &it.text[..]).collect();
        for text in [
            "bert.BertConfig.sparsity = @bert.ListedSparsityConfig()",
            "bert.ListedSparsityConfig.num_heads = 2",
            "bert.ListedSparsityConfig.block = 16",
            expected,
        ] {
            assert!(texts.contains(&text), "{text} is not in\n{}", texts.join("\n"));
        }
        assert!(!texts.iter().any(|text| text.contains("BigBird")), "{}", texts.join("\n"));
        translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    };
    let same = "bert.ListedSparsityConfig.rows = ['101', '010', '111']";
    check(&[rows, rows].concat(), same);
    let other = "bert.ListedSparsityConfig.rows = ['101', '010', '111', '111', '111', '111']";
    check(&[rows, [1; 9]].concat(), other);
    // A layout of other heads, of other blocks, and none.
    write_layouts(&checkout, &rows, [1, 3, 3]);
    fails_in(
        &checkout,
        &line,
        &["trained.safetensors", "master_layout has 1 heads, expected", "num_heads = 2"],
    );
    write_layouts(&checkout, &[1; 8], [2, 2, 2]);
    fails_in(&checkout, &line, &["bert.ListedSparsityConfig.rows is", "expected 3 or 6 rows"]);
    write_layouts(&checkout, &[2; 18], [2, 3, 3]);
    fails_in(&checkout, &line, &["has the number 2, expected 0 and 1"]);
    let absent = line.replace("trained.", "absent.");
    fails_in(&checkout, &absent, &["on which the attention depends", "absent.safetensors"]);
}

#[test]
fn a_checkpoint_of_bert_is_validated_alone() {
    let checkout = checkout();
    let line = format!("{MEASURED} --validate_only");
    fails_in(
        &checkout,
        &line,
        &["`--init_checkpoint` is missing, expected with `--validate_only`"],
    );
    checkout.check(&format!("{line} --init_checkpoint run/model_6"), "bert_validate.golden");
    let line = line.replace("--valid_data_path valid_text_sentence", "");
    fails_in(
        &checkout,
        &line,
        &["`--valid_data_path` is missing, expected with `--validate_only`"],
    );
}

#[test]
fn the_form_for_accelerate_has_no_flags_of_half_precision() {
    let (checkout, line) = (checkout(), MEASURED.replacen("bert ", "bert_accel ", 1));
    let translated = checkout.translated(&line).unwrap_or_else(|message| panic!("{message}"));
    let plain = checkout.translated(MEASURED).expect("it can be translated");
    assert_eq!(translated.statements, plain.statements);
    check_line(NANO, &format!("{line} --fp16"), &["there is no flag `--fp16`"]);
    check_line(NANO, &format!("{line} --mixed_precision fp8"), &["is `fp8`, expected no, fp16 or"]);
    check_line(NANO, &format!("{line} --zero_stage 4"), &["is 4, expected 0, 1, 2 or 3"]);
    let binds = |precision: &str, expected: &[&str]| {
        let line = format!("{line} --mixed_precision {precision}");
        let translated = checkout.translated(&line).unwrap_or_else(|message| panic!("{message}"));
        let is_more = |it: &&Statement| !plain.statements.contains(it);
        let more = translated.statements.iter().filter(is_more);
        assert_eq!(more.map(|it| &it.text[..]).collect::<Vec<_>>(), expected);
        let (precision, _) = precision.split_once(' ').unwrap_or((precision, ""));
        assert!(translated.record.files[0].text.contains(&format!(": \"{precision}\"")));
        translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    };
    binds("bf16", &["bert.BertConfig.dtype = 'bfloat16'"]);
    let scaler = "t5x.trainer.Trainer.loss_scaler = @gimlet.LossScaler()";
    binds("fp16", &["bert.BertConfig.dtype = 'float16'", scaler]);
    let spread = "t5x.partitioning.PjitPartitioner.spread_optimizer_state = True";
    let divided = "t5x.partitioning.standard_logical_axis_rules.parameter_partitioning_dims = 2";
    for (stage, expected) in [("0", &[][..]), ("1", &[spread]), ("2", &[spread]), ("3", &[divided])]
    {
        binds(&format!("no --zero_stage {stage}"), expected);
    }
}

#[test]
fn texts_in_one_order_need_no_second_head() {
    let translated = checkout().translated(&format!("{MEASURED} --use_nsp 0"));
    let translated = translated.unwrap_or_else(|message| panic!("{message}"));
    assert!(translated.statements.iter().any(|it| it.text == "MODEL = @bert.BertForMaskedLM()"));
    translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
}

/// The message for a changed command line, in a checkout with this network, has all of the parts.
fn check(network: &str, (from, to): (&str, &str), parts: &[&str]) {
    check_line(network, &MEASURED.replace(from, to), parts);
}

fn check_line(network: &str, line: &str, parts: &[&str]) {
    let checkout = checkout();
    checkout.write("bert-nano.json", network);
    fails_in(&checkout, line, parts);
}

fn fails_in(checkout: &Checkout, line: &str, parts: &[&str]) {
    let translated = checkout.translated(line);
    let checked = translated.and_then(|it| it.command.check(false, 1).map_err(|e| e.to_string()));
    let Err(message) = checked else { panic!("{line} is accepted") };
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in\n{message}");
    }
}

#[test]
fn settings_of_the_tokenizer_that_have_no_effect_are_refused() {
    let checkout = checkout();
    checkout.write("vocab/bert/tokenizer_config.json", r#"{"strip_accents": false}"#);
    let expected =
        ["vocab/bert/tokenizer_config.json", "its `strip_accents` is false, expected true"];
    fails_in(&checkout, MEASURED, &expected);
}

#[test]
fn mistakes_have_the_flag_and_what_was_expected() {
    let same = ("", "");
    check(
        NANO,
        ("--data_n_epochs 2", ""),
        &["`--data_n_epochs` and `--data_n_samples` are missing"],
    );
    check(NANO, ("--iters 12", "--iters 12 --use_nsp 2"), &["`--use_nsp` is 2, expected 0 or 1"]);
    check(
        NANO,
        ("modeling_bert:Bert", "my:Bert"),
        &["`my:BertForPreTraining`, expected", "never run"],
    );
    check(
        NANO,
        ("--data_path train", "--data_path absent"),
        &["absent_text_sentence.bin` is missing", "megatron_index"],
    );
    check(
        NANO,
        ("vocab/bert", "vocab/none"),
        &["`--tokenizer` is", "expected a folder with a vocab.txt"],
    );
    check(
        r#"{"model_type": "big_bird"}"#,
        same,
        &["bert-nano.json", "`model_type` is `big_bird`, expected `bert`"],
    );
    check(r#"{"model_type": "bert", "hiden_size": 2}"#, same, &["`hiden_size`"]);
    check(r#"{"model_type": "bert", "num_cdq_heads": 2}"#, same, &["`num_cdq_heads`"]);
    let positions = r#"{"model_type": "bert", "position_embedding_type": "POSITION"}"#;
    check(
        &positions.replace("POSITION", "relative_key"),
        same,
        &["`relative_key`, expected absolute, rotary", "crash"],
    );
    check(&positions.replace("POSITION", "rotary"), same, &["needs a rotary_base"]);
    check(
        &NANO.replace("\"hidden_size\": 16", "\"hidden_size\": 15"),
        same,
        &[
            "bert.BertConfig.hidden_size is 15, expected a multiple of num_attention_heads, which is 2",
        ],
    );
    check(
        &SPARSE.replace("\"num_heads\": 2", "\"num_heads\": 3"),
        same,
        &["its sparsity has num_heads = 3, expected the same"],
    );
    check(
        NANO,
        ("--input_seq_len 48", "--input_seq_len 65"),
        &["65", "max_position_embeddings", "64"],
    );
}
