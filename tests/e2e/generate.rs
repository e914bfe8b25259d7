//! `gimlet generate` and `gimlet score` with the checkpoints of a small run and with an export to Hugging Face.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::command::{Ended, Train, sources};
use crate::folder::Folder;

/// A command in the folder, with these words.
pub fn gimlet(folder: &Folder, words: &[&str]) -> Train {
    let search_path = sources("gin").display().to_string();
    let (tool, rest) = words.split_at(1);
    let train = Train::new(&folder.path("")).tool(tool);
    let train = train.arg(format!("--gin_search_paths={search_path}"));
    rest.iter().fold(train, |train, word| train.arg(*word))
}

/// Runs the command with a text on standard input.
pub fn with_input(command: &Train, input: &str) -> Ended {
    let mut command = command.command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("gimlet starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("gimlet reads");
    drop(stdin);
    Ended::new(child.wait_with_output().expect("gimlet ends"))
}

/// The lines of standard output, which are JSON.
pub fn json_lines(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_run_and_its_export_give_the_same_answers_and_scores_in_order() {
    let folder = Folder::pretrained();
    let texts = ["a text", "another and much longer text", "b", "a fourth one", "x y z"];
    folder.write("texts.txt", texts.join("\n"));
    let options = ["--file=texts.txt", "--json", "--max_tokens=9", "--temperature=0"];
    let of = |checkpoint: &str, more: &[&str]| {
        let words = [&["generate", checkpoint][..], &options, more].concat();
        json_lines(&gimlet(&folder, &words).run())
    };
    let found = of("--checkpoint=pretrained", &[]);
    let inputs: Vec<&str> =
        found.iter().map(|line| line["inputs"].as_str().expect("a text")).collect();
    assert_eq!(inputs, texts);
    assert_eq!(of("--checkpoint=pretrained/checkpoint_4", &["--batch_size=2"]), found);

    let alone = gimlet(
        &folder,
        &["generate", "--checkpoint=pretrained", "--max_tokens=9", "--temperature=0", texts[1]],
    );
    assert_eq!(
        alone.succeeds().stdout,
        format!("{}\n", found[1]["predictions"][0]["text"].as_str().expect("a text"))
    );

    let convert = Train::new(&folder.path("")).tool(&["checkpoint", "convert"]);
    convert.arg("pretrained/checkpoint_4").arg("hub").arg("--to=hugging_face").succeeds();
    let exported = of("--checkpoint=hub", &[]);
    let texts_of = |lines: &[Value]| {
        lines.iter().map(|line| line["predictions"][0]["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts_of(&exported), texts_of(&found));

    // Samples with a seed are the same again, and several answers are several.
    let sampled = [
        "generate",
        "--checkpoint=pretrained",
        "--temperature=1",
        "--num_decodes=3",
        "--seed=5",
        "--max_tokens=6",
        "a",
    ];
    let [first, second] = [(), ()].map(|()| gimlet(&folder, &sampled).succeeds().stdout);
    assert_eq!(first, second);
    assert_eq!(first.lines().count(), 3, "{first}");

    // The score of an answer of one greedy token at a time is that of its tokens.
    let scored = with_input(
        &gimlet(&folder, &["score", "--checkpoint=pretrained", "--json"]),
        "{\"inputs\": \"a\", \"targets\": \"bc\"}\n{\"inputs\": \"q\", \"targets\": \"\"}\n",
    );
    let scores: Vec<f64> =
        json_lines(&scored).iter().map(|line| line["score"].as_f64().expect("a number")).collect();
    let alone = gimlet(&folder, &["score", "--checkpoint=hub", "a", "bc"]).succeeds().stdout;
    let alone: f64 = alone.trim().parse().expect("a number");
    assert!(
        (scores[0] - alone).abs() < 1e-3 && scores[0] < scores[1] && scores[1] < 0.0,
        "{scores:?} {alone}"
    );
}

#[test]
fn a_decoder_alone_continues_its_inputs() {
    let folder = Folder::new();
    folder.train("decoder_tiny.gin").bind("TRAIN_STEPS", 4).succeeds();
    let words = ["generate", "--checkpoint=model", "--temperature=0", "--max_tokens=5", "--json"];
    let lines = with_input(&gimlet(&folder, &words), "a prefix\nb\n");
    let answers: Vec<Value> =
        json_lines(&lines).iter().map(|line| line["predictions"][0]["text"].clone()).collect();
    for (text, answer) in ["a prefix", "b"].into_iter().zip(answers) {
        let alone = json_lines(&gimlet(&folder, &[&words[..], &[text]].concat()).run());
        assert_eq!(alone[0]["predictions"][0]["text"], answer, "padding changes nothing");
    }
}

#[test]
fn folders_of_transformers_give_its_own_answers_and_scores() {
    let folder = Folder::new();
    for name in ["t5", "flan_t5", "umt5", "longt5", "peft_lora", "peft_prompt"] {
        let model = sources("hugging_face").join(name);
        let outputs = model.join("outputs.jsonl");
        let [checkpoint, file] = [("checkpoint", &model), ("file", &outputs)]
            .map(|(flag, path)| format!("--{flag}={}", path.display()));
        let said = |tool| gimlet(&folder, &[tool, &checkpoint, &file]).succeeds().stdout;
        let outputs = fs::read_to_string(&outputs).expect("it is committed");
        let outputs = outputs.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let outputs: Vec<Value> = outputs.collect();
        let answers: Vec<&str> =
            outputs.iter().map(|line| line["answer"].as_str().expect("a text")).collect();
        assert_eq!(said("generate").lines().collect::<Vec<_>>(), answers, "{name}");
        for (found, expected) in said("score").lines().zip(&outputs) {
            let (found, expected): (f64, _) =
                (found.parse().expect("a number"), expected["score"].as_f64());
            let expected = expected.expect("a number");
            assert!((found - expected).abs() < 1e-3, "{name}: {found}, not {expected}");
        }
    }
}

/// Writes a folder of transformers with other files beside its weights, and returns the flag that names it.
fn folder_with(folder: &Folder, name: &str, case: &Value) -> String {
    let from = sources("hugging_face").join(case["folder"].as_str().expect("a name"));
    let to = folder.path(name);
    fs::create_dir(&to).expect("the folder can be written");
    for file in ["model.safetensors", "tokenizer_config.json"] {
        fs::copy(from.join(file), to.join(file)).expect("the folder can be written");
    }
    let config = fs::read(from.join("config.json")).expect("it is committed");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    let more = case["config"].as_object().expect("an object").clone();
    config.as_object_mut().expect("an object").extend(more);
    folder.write(&format!("{name}/config.json"), config.to_string());
    if !case["generation_config"].is_null() {
        folder.write(
            &format!("{name}/generation_config.json"),
            case["generation_config"].to_string(),
        );
    }
    format!("--checkpoint={name}")
}

#[test]
fn a_generation_config_gives_the_answers_of_transformers() {
    let folder = Folder::new();
    let cases = fs::read(sources("hugging_face").join("generation.json")).expect("it is committed");
    let cases: Vec<Value> = serde_json::from_slice(&cases).expect("JSON");
    let texts: Vec<&str> = cases[0]["texts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|text| text.as_str().expect("a text"))
        .collect();
    folder.write("texts.txt", texts.join("\n"));
    for (case, name) in cases.iter().zip(["a", "b", "c", "d", "e", "f"]) {
        let checkpoint = folder_with(&folder, name, case);
        let mut words = vec!["generate", &checkpoint, "--file=texts.txt", "--json"];
        let beams = case["flags"]["num_beams"].as_u64().map(|beams| format!("--beam={beams}"));
        words.extend(beams.as_deref());
        let texts_of = |line: &Value| {
            let predictions = line["predictions"].as_array().expect("a list").clone();
            predictions.iter().map(|prediction| prediction["text"].clone()).collect::<Vec<_>>()
        };
        let found: Vec<_> =
            json_lines(&gimlet(&folder, &words).run()).iter().map(texts_of).collect();
        let expected: Vec<Vec<Value>> =
            serde_json::from_value(case["answers"].clone()).expect("texts");
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_generation_config_that_cannot_be_honoured_is_refused_by_name() {
    let folder = Folder::new();
    let case = serde_json::json!({
        "folder": "t5", "config": {}, "generation_config": {"num_beam_groups": 2, "unheard_of": 1}
    });
    let checkpoint = folder_with(&folder, "hub", &case);
    let said = gimlet(&folder, &["generate", &checkpoint, "a"]).run();
    assert_ne!(said.status, Some(0));
    assert!(
        said.stderr.contains("hub/generation_config.json: `num_beam_groups` is 2, expected 1"),
        "{}",
        said.stderr
    );
    folder.write("hub/generation_config.json", r#"{"num_beams": 2, "do_sample": true}"#);
    let said = gimlet(&folder, &["generate", &checkpoint, "--dry_run", "a"]).run();
    let refused = "hub/generation_config.json: `num_beams` is 2 with `do_sample`, expected 1";
    assert!(said.stderr.contains(refused), "{}", said.stderr);
}

#[test]
fn a_generation_config_is_never_skipped_without_a_word() {
    let folder = Folder::new();
    let generation = serde_json::json!({"unheard_of": 1, "max_new_tokens": 1, "num_beams": 2});
    let case = serde_json::json!({"folder": "t5", "config": {}, "generation_config": generation});
    let checkpoint = folder_with(&folder, "hub", &case);
    let unknown = "hub/generation_config.json: the key `unheard_of` is not known";
    let decode_fn = "--gin.models.EncoderDecoderModel.decode_fn=@decoding.beam_search";
    let generate = gimlet(&folder, &["generate", &checkpoint, decode_fn, "a"]);
    let convert =
        Train::new(&folder.path("")).tool(&["checkpoint", "convert"]).arg("hub").arg("converted");
    for command in [&generate, &convert] {
        let said = command.succeeds().stderr;
        assert_eq!(said.matches(unknown).count(), 1, "{said}");
    }
    let unused = "hub/generation_config.json is not used: the model decodes as its gin says, without \
                  `num_beams` of this file; --gin_file=hub/config.json decodes with them";
    let said = generate.succeeds().stderr;
    assert_eq!(said.matches(unused).count(), 1, "{said}");
}

#[test]
fn mistakes_are_named_before_the_parameters_are_read() {
    let folder = Folder::new();
    fs::create_dir(folder.path("empty")).expect("the folder can be written");
    fs::create_dir(folder.path("hub")).expect("the folder can be written");
    folder.write("hub/config.json", "{\"model_type\": \"llama\"}");
    let refused = |words: &[&str], parts: &[&str]| {
        let ended = gimlet(&folder, &[&["generate"][..], words].concat()).run();
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "`{part}` is not in:\n{}", ended.stderr);
        }
    };
    refused(&["a"], &["no model is named, expected --checkpoint=PATH"]);
    refused(
        &["--checkpoint=empty", "a"],
        &["the model of `empty` is not known", "--gin_file=FILE"],
    );
    refused(&["--checkpoint=absent", "a"], &["absent"]);
    refused(
        &["--checkpoint=hub", "a"],
        &["hub/config.json", "`llama`, expected t5, mt5, umt5, longt5 or bert"],
    );
    refused(&["--checkpoint=empty", "--topk=1", "--beam=2", "a"], &["give those of one of both"]);
}
