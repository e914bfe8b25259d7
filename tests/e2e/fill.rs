//! `gimlet fill` with a folder of transformers: the pieces and probabilities of its pipeline `fill-mask`, which
//! `hugging_face/make_fill.py` wrote.

use std::fs;

use serde_json::{Value, json};

use crate::bert_folder::write_bert;
use crate::command::sources;
use crate::folder::Folder;
use crate::generate::{gimlet, json_lines, with_input};
use crate::serve::Server;

const TOLERANCE: f64 = 1e-5;

/// The texts of the file with what transformers find.
fn expected(case: &str) -> Vec<Value> {
    let file = fs::read(sources("hugging_face").join("fill.json")).expect("it is committed");
    let all: Value = serde_json::from_slice(&file).expect("it is JSON");
    all[case].as_array().expect("a list").clone()
}

fn assert_near(found: &Value, expected: &Value) {
    let lists = |value: &Value| value.as_array().expect("a list").clone();
    let (found, expected) = (lists(&found["masks"]), lists(&expected["masks"]));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(lists(found).len(), lists(expected).len());
        for (found, expected) in lists(found).iter().zip(lists(expected)) {
            assert_eq!(found["token"], expected[0]);
            let number = |value: &Value| value.as_f64().expect("a number");
            let (found, expected) = (number(&found["probability"]), number(&expected[1]));
            assert!((found - expected).abs() < TOLERANCE, "{found}, not {expected}");
        }
    }
}

#[test]
fn pieces_and_probabilities_are_those_of_transformers() {
    let folder = Folder::new();
    write_bert(&folder.path("bert"), |pieces| pieces);
    for case in ["lower_case", "cased"] {
        let settings = json!({"do_lower_case": case == "lower_case"});
        folder.write("bert/tokenizer_config.json", settings.to_string());
        let expected = expected(case);
        let lines: String =
            expected.iter().map(|row| format!("{}\n", json!({"inputs": row["inputs"]}))).collect();
        let words = ["fill", "--checkpoint=bert", "--topk=3", "--json"];
        let found = json_lines(&with_input(&gimlet(&folder, &words), &lines));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found["inputs"], expected["inputs"]);
            assert_near(found, expected);
        }
    }
    // Alone, and for readers.
    let expected = &expected("cased")[0];
    let text = expected["inputs"].as_str().expect("a text");
    let shown = gimlet(&folder, &["fill", "--checkpoint=bert", text]).succeeds().stdout;
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!((shown.len(), shown[0]), (6, text));
    for (line, expected) in shown[1..].iter().zip(expected["masks"][0].as_array().unwrap()) {
        let (probability, piece) = line.trim().split_once("  ").expect("two columns");
        assert_eq!(piece, expected[0]);
        let probability: f64 = probability.parse().expect("a number");
        assert!((probability - expected[1].as_f64().unwrap()).abs() < TOLERANCE, "{line}");
    }
    let narrow = "--gin.bert.BertConfig.dtype='bfloat16'";
    let words = ["fill", "--checkpoint=bert", "--json", narrow, "[MASK] ba"];
    let found = json_lines(&gimlet(&folder, &words).run());
    assert_eq!(found[0]["masks"][0].as_array().expect("a list").len(), 5);
}

#[test]
fn a_server_fills_masks_and_names_the_other_paths() {
    let folder = Folder::new();
    write_bert(&folder.path("bert"), |pieces| pieces);
    let server = Server::start(&folder, &["--checkpoint=bert"]);
    let expected = expected("lower_case");
    let texts: Vec<&Value> = expected.iter().map(|row| &row["inputs"]).collect();
    let (status, found) = server.post("/v1/fill", &json!({"inputs": texts, "topk": 3}).to_string());
    assert_eq!(status, 200, "{found}");
    let results = found["results"].as_array().expect("a list");
    assert_eq!(results.len(), expected.len());
    results.iter().zip(&expected).for_each(|(found, expected)| assert_near(found, expected));
    let (_, one) = server.post("/v1/fill", &json!({"inputs": texts[0]}).to_string());
    assert_eq!(one["results"][0]["masks"][0].as_array().expect("a list").len(), 5);

    let refused = |path: &str, body: &str, status: u16, part: &str| {
        let (found, answer) = server.post(path, body);
        assert_eq!(found, status, "{answer}");
        assert!(answer["error"].as_str().is_some_and(|said| said.contains(part)), "{answer}");
    };
    let body = r#"{"inputs": ["ba [MASK]", "ba"]}"#;
    refused("/v1/fill", body, 400, "`inputs`[1]: the text has no `[MASK]`");
    refused("/v1/fill", r#"{"inputs": "[MASK]", "topk": 0}"#, 400, "`topk` is 0");
    for path in ["/v1/generate", "/v1/score"] {
        let said = "the model of this server is a bert.BertForPreTraining, expected POST /v1/fill";
        refused(path, r#"{"inputs": "ba"}"#, 404, said);
    }
    assert!(server.get("/").1.contains("\"v1/fill\""));
    assert!(server.get("/metrics").1.contains("{path=\"/v1/fill\",status=\"200\"} 2"));
    assert_eq!(server.ends().status, Some(0));

    let t5 = format!("--checkpoint={}", sources("hugging_face").join("t5").display());
    let server = Server::start(&folder, &[&t5]);
    let (status, answer) = server.post("/v1/fill", r#"{"inputs": "[MASK]"}"#);
    let said = answer["error"].as_str().unwrap_or_default();
    assert!(
        status == 404
            && said.ends_with("POST /v1/generate, POST /v1/score or POST /v1/completions"),
        "{answer}"
    );
}

#[test]
fn texts_that_the_model_does_not_read_are_named_with_their_place() {
    let folder = Folder::new();
    write_bert(&folder.path("bert"), |pieces| pieces);
    let refused = |words: &[&str], part: &str| {
        let ended = gimlet(&folder, words).run();
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "`{part}` is not in:\n{}", ended.stderr);
        ended.stdout
    };
    let words = ["fill", "--checkpoint=bert"];
    refused(&[&words[..], &["ba"]].concat(), "text 1: the text has no `[MASK]`, expected one");
    folder.write("texts.txt", format!("ba [MASK]\n{} [MASK]\n", "ba ".repeat(62)));
    let said = "texts.txt:2: the text has 65 tokens with [CLS] and [SEP], expected at most 64 \
                (bert.BertConfig.max_position_embeddings)";
    let shown = refused(&[&words[..], &["--file=texts.txt"]].concat(), said);
    assert_eq!(shown.lines().count(), 6, "the lines before it are answered: {shown}");
}
