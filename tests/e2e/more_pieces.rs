//! Models of transformers with more tokens: scores are those after `add_tokens` and `resize_token_embeddings`.
//! `hugging_face/make_more_tokens.py` writes the models and the scores.

use std::fs;

use serde_json::{Value, json};

use crate::command::{Train, sources};
use crate::folder::Folder;
use crate::generate::{gimlet, json_lines};

/// The greatest difference of scores: transformers draw new rows around the mean, with a variance of 1e-9 of that of the others.
const TOLERANCE: f64 = 2e-3;

#[test]
fn scores_with_more_pieces_are_those_of_transformers() {
    let source = sources("hugging_face/more_tokens");
    let expected = fs::read(source.join("expected.json")).expect("it is committed");
    let expected: Value = serde_json::from_slice(&expected).expect("it is JSON");
    let texts = |key: &str| expected[key].as_array().expect("texts").clone();
    let lines = texts("texts").into_iter().zip(texts("targets"));
    let lines: Vec<String> = lines
        .map(|(inputs, targets)| json!({"inputs": inputs, "targets": targets}).to_string())
        .collect();
    for model in ["tied", "untied"] {
        let folder = Folder::new();
        fs::create_dir(folder.path("old")).expect("the folder can be written");
        for place in [source.clone(), source.join(model)] {
            for entry in fs::read_dir(place).expect("it is committed") {
                let file = entry.expect("it is readable").path();
                if file.is_file() {
                    let name = file.file_name().expect("a file has a name");
                    fs::copy(&file, folder.path("old").join(name)).expect("it can be written");
                }
            }
        }
        let new = texts("new").into_iter().map(|piece| piece.as_str().expect("a text").to_string());
        let add = Train::new(&folder.path("")).tool(&["vocab", "add"]);
        let add =
            new.fold(add, |add, piece| add.arg(piece)).arg("--checkpoint=old").arg("--output=new");
        add.succeeds();
        folder.write("texts.jsonl", lines.join("\n"));
        let words = ["score", "--checkpoint=new", "--file=texts.jsonl", "--json"];
        let found = json_lines(&gimlet(&folder, &words).run());
        let scores = expected[model]["scores"].as_array().expect("numbers");
        assert_eq!(found.len(), scores.len());
        for (line, score) in found.iter().zip(scores) {
            let difference =
                line["score"].as_f64().expect("a number") - score.as_f64().expect("a number");
            assert!(difference.abs() < TOLERANCE, "{model}: {line}, transformers {score}");
        }
    }
}
