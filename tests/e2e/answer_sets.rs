//! Answers within a set: the lines of a file, and texts that match an expression.

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::generate::{gimlet, json_lines, with_input};
use crate::serve::Server;

const LINES: [&str; 3] = ["no", "none", "a long é"];

fn with_lines() -> Folder {
    let folder = Folder::pretrained();
    folder.write("lines.txt", LINES.join("\n"));
    folder
}

/// The answers to a text, each with its score.
fn answers(line: &Value) -> Vec<(String, f64)> {
    let answers = line["predictions"].as_array().expect("a list").iter();
    let answer = |it: &Value| {
        (it["text"].as_str().expect("a text").to_string(), it["score"].as_f64().expect("a number"))
    };
    answers.map(answer).collect()
}

#[test]
fn a_search_finds_every_choice_with_its_likelihood() {
    let folder = with_lines();
    let words = ["generate", "--checkpoint=pretrained", "--choices=lines.txt", "--json", "a text"];
    let of = |more: &[&str]| json_lines(&gimlet(&folder, &[&words[..], more].concat()).run());
    let found = answers(&of(&["--beam=6", "--num_decodes=6", "--alpha=0"])[0]);
    let pairs: Vec<String> = (found.iter())
        .map(|(text, _)| json!({"inputs": "a text", "targets": text}).to_string())
        .collect();
    let scored =
        with_input(&gimlet(&folder, &["score", "--checkpoint=pretrained"]), &pairs.join("\n"));
    let scores: Vec<f64> =
        scored.stdout.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(scores.len(), 3, "{found:?}");
    for ((text, score), expected) in found.iter().zip(scores) {
        assert!(LINES.contains(&text.as_str()) && (score - expected).abs() < 1e-3, "{found:?}");
    }
    assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{found:?}");
    for more in [&["--temperature=0"][..], &["--temperature=2", "--num_decodes=4", "--seed=3"]] {
        let found = answers(&of(more)[0]);
        assert!(found.iter().all(|(text, _)| LINES.contains(&text.as_str())), "{found:?}");
    }
}

#[test]
fn predictions_of_a_run_file_and_of_a_server_match_the_expression() {
    let folder = with_lines();
    let pattern = "models.EncoderDecoderModel.predict_batch_with_aux.pattern";
    let infer =
        |pattern_of| folder.train("infer_tiny.gin").tool(&["infer"]).bind_text(pattern, pattern_of);
    infer("[0-9]{2}|é").succeeds();
    let results = folder.path("inferred/echo-predict.jsonl-00000-of-00001");
    let results = std::fs::read_to_string(results).expect("it is written");
    for line in results.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let text = line["prediction"].as_str().expect("a text");
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        assert!(is_number || text == "é", "{text}");
    }
    let long = infer("[0-9]{200}").arg("--dry_run").run();
    assert_eq!(long.status, Some(2), "{}", long.stderr);
    assert!(
        long.stderr.contains("has 201 tokens with its end, expected at most"),
        "{}",
        long.stderr
    );

    let server = Server::start(&folder, &["--checkpoint=pretrained"]);
    let ask = |body: Value| server.post("/v1/generate", &body.to_string());
    let (status, found) = ask(json!({"inputs": ["a", "b"], "choices": LINES, "temperature": 0}));
    assert_eq!(status, 200, "{found}");
    for result in found["results"].as_array().expect("a list") {
        assert!(LINES.contains(&answers(result)[0].0.as_str()), "{found}");
    }
    for (body, part) in [
        (json!({"inputs": "a", "choices": [], "temperature": 0}), "`choices` has no answers"),
        (json!({"inputs": "a", "choices": "a"}), "expected a sequence"),
        (json!({"inputs": "a", "pattern": "a(b"}), "unclosed group"),
        (json!({"inputs": "a", "pattern": "a", "choices": ["b"]}), "expected one of them"),
    ] {
        let (status, said) = ask(body);
        assert!(
            status == 400 && said["error"].as_str().is_some_and(|said| said.contains(part)),
            "{said}"
        );
    }
}

#[test]
fn a_set_that_cannot_be_decoded_is_refused() {
    let folder = with_lines();
    folder.write("gap.txt", "a\n\nb\n");
    for (words, part) in [
        (&["--choices=absent.txt"][..], "absent.txt"),
        (&["--choices=gap.txt"], "gap.txt:2 is empty, expected an answer"),
        (&["--choices=lines.txt", "--pattern=a"], "expected one of them"),
        (
            &["--choices=lines.txt", "--max_tokens=5"],
            "lines.txt:3 has 10 tokens with its end, expected at most 5",
        ),
        (&["--pattern=[a-"], "[a-\n    ^"),
        (&["--pattern=[0-9]{200}"], "the shortest answer of the set has 201 tokens"),
    ] {
        let words = [&["generate", "--checkpoint=pretrained", "a"][..], words].concat();
        let ended = gimlet(&folder, &words).run();
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "`{part}` is not in:\n{}", ended.stderr);
    }
}
