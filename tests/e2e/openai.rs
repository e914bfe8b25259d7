//! OpenAI's interface of `gimlet serve`: the form of answers, streams and refusals, and its clients.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::command::sources;
use crate::folder::Folder;
use crate::generate::gimlet;
use crate::serve::Server;

const TOLERANCE: f64 = 1e-3;

/// Text with the given fields for the model `t5`, or others in place of its own.
fn body(fields: Value) -> String {
    let mut body = json!({"model": "t5", "temperature": 0, "max_tokens": 12});
    let fields = fields.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    body.to_string()
}

fn complete(server: &Server, fields: Value) -> Value {
    let (status, answer) = server.post("/v1/completions", &body(fields));
    assert_eq!(status, 200, "{answer}");
    answer
}

fn texts(answer: &Value) -> Vec<&str> {
    let choices = answer["choices"].as_array().expect("a list");
    choices.iter().map(|choice| choice["text"].as_str().expect("a text")).collect()
}

fn t5() -> String {
    format!("--checkpoint={}", sources("hugging_face").join("t5").display())
}

/// The first texts with transformers' answers and scores.
fn expected() -> Vec<Value> {
    let file = sources("hugging_face").join("t5/outputs.jsonl");
    let lines = fs::read_to_string(file).expect("it is committed");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn completions_have_openai_s_form() {
    let server = Server::start(&Folder::new(), &[&t5()[..], "--max_wait_ms=1"]);
    let (status, models) = server.get("/v1/models");
    let models: Value = serde_json::from_str(&models).expect("JSON");
    assert_eq!(
        (status, &models["object"], &models["data"][0]["id"]),
        (200, &json!("list"), &json!("t5"))
    );
    assert!(
        server
            .get("/")
            .1
            .contains("<p id=\"model\">t5, step 0: 512 tokens of inputs, 12 of targets</p>")
    );

    let expected = expected();
    let (inputs, answer) =
        (&expected[0]["inputs"], expected[0]["answer"].as_str().expect("a text"));
    let found = complete(&server, json!({"prompt": [inputs, expected[1]["inputs"]], "user": "u"}));
    assert_eq!(texts(&found), [answer, expected[1]["answer"].as_str().expect("a text")]);
    let first = json!({"text": answer, "index": 0, "logprobs": null, "finish_reason": "length"});
    assert_eq!((&found["choices"][0], &found["object"]), (&first, &json!("text_completion")));
    let usage = json!({"prompt_tokens": 40, "completion_tokens": 24, "total_tokens": 64});
    assert_eq!((&found["usage"], &found["model"]), (&usage, &json!("t5")));
    assert!(found["id"].as_str().is_some_and(|id| id.starts_with("cmpl-")), "{found}");
    assert!(found["created"].as_u64().is_some_and(|created| created > 1 << 30), "{found}");

    let stopped =
        complete(&server, json!({"prompt": [100], "stop": [&answer[3..5], &answer[4..6]]}));
    assert_eq!(texts(&stopped), [&answer[..3]]);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    streams_are_the_whole(&server, answer);
    refusals_have_openai_s_form(&server);
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("{path=\"/v1/completions\",status=\"404\"} 1"), "{metrics}");
    assert_eq!(server.ends().status, Some(0));
}

/// The data of a stream of events.
fn events(server: &Server, fields: Value) -> Vec<String> {
    let header = "Content-Type: application/json\r\n";
    let (status, head, sent) =
        server.request("POST /v1/completions", header, body(fields).as_bytes());
    assert!(status == 200 && head.contains("text/event-stream"), "{head}");
    sent.lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_string)).collect()
}

fn streams_are_the_whole(server: &Server, answer: &str) {
    let fields = json!({
        "prompt": "a", "n": 2, "stream": true, "echo": true, "stop": "{",
        "stream_options": {"include_usage": true}
    });
    let mut events = events(server, fields);
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let parts: Vec<Value> =
        events.iter().map(|event| serde_json::from_str(event).expect("JSON")).collect();
    let whole = format!("a{}", answer.split('{').next().expect("split yields one part"));
    for index in [0, 1] {
        let own =
            parts.iter().map(|part| &part["choices"][0]).filter(|choice| choice["index"] == index);
        let own: Vec<&Value> = own.collect();
        let text: String = own.iter().filter_map(|choice| choice["text"].as_str()).collect();
        assert_eq!(text, whole);
        let reasons: Vec<&Value> = own.iter().map(|choice| &choice["finish_reason"]).collect();
        assert_eq!(reasons.last(), Some(&&json!("stop")));
        assert!(reasons.len() > 2 && reasons[0].is_null(), "it comes in parts: {parts:?}");
    }
    let (last, others) = parts.split_last().expect("there are parts");
    assert_eq!((&last["choices"], &last["usage"]["prompt_tokens"]), (&json!([]), &json!(1)));
    assert!(others.iter().all(|part| part["usage"].is_null() && part["id"] == last["id"]));
}

fn refusals_have_openai_s_form(server: &Server) {
    let refused = |fields: Value, status: u16, [param, code]: [Value; 2], part: &str| {
        let (found, answer) = server.post("/v1/completions", &body(fields));
        let error = &answer["error"];
        assert_eq!((found, &error["param"], &error["code"]), (status, &param, &code), "{answer}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(part)), "{answer}");
    };
    let other = json!({"model": "gpt", "prompt": "a"});
    refused(
        other,
        404,
        [json!("model"), json!("model_not_found")],
        "`gpt` does not exist, expected `t5`",
    );
    let param = |name: &str| [json!(name), Value::Null];
    refused(json!({"prompt": "a", "suffix": "b"}), 400, param("suffix"), "does not support");
    refused(json!({"prompt": "a", "max_tokens": 3000}), 400, param("max_tokens"), "1 to 2048");
    refused(
        json!({"prompt": ["a", [384]]}),
        400,
        param("prompt"),
        "`prompt`[1]: the prompt has the id 384",
    );
    let long = json!({"prompt": "a".repeat(600)});
    let said = "the inputs of the prompt has 601 tokens, expected at most 512";
    refused(long, 400, [json!("prompt"), json!("context_length_exceeded")], said);
    let (status, answer) = server.get("/v1/completions");
    assert!(status == 405 && answer.contains("\"type\":\"invalid_request_error\""), "{answer}");
}

/// The sum of the log-probabilities from a place on.
fn sum(choice: &Value, from: usize) -> f64 {
    let column = choice["logprobs"]["token_logprobs"].as_array().expect("a list");
    column[from..].iter().map(|number| number.as_f64().expect("a number")).sum()
}

#[test]
fn an_echo_scores_the_answer_after_the_end_of_the_inputs() {
    let server = Server::start(&Folder::new(), &[&t5()[..], "--max_wait_ms=1"]);
    for row in &expected()[..2] {
        let [inputs, targets] =
            ["inputs", "targets"].map(|name| row[name].as_str().expect("a text"));
        let ids = |text: &str| text.bytes().map(|byte| i64::from(byte) + 3).collect::<Vec<_>>();
        let prompt = [ids(inputs), vec![1], ids(targets), vec![1]].concat();
        let asked = json!({"prompt": prompt, "echo": true, "logprobs": 1, "max_tokens": 0});
        let found = complete(&server, asked);
        let (choice, score) = (&found["choices"][0], row["score"].as_f64().expect("a number"));
        assert!((sum(choice, inputs.len()) - score).abs() < TOLERANCE, "{choice} {score}");
        let columns = &choice["logprobs"];
        for column in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(columns[column].as_array().map(Vec::len), Some(prompt.len()), "{choice}");
        }
        assert_eq!(columns["token_logprobs"][0], Value::Null);
        assert_eq!(columns["tokens"][inputs.len()], "</s>");
        assert_eq!(columns["text_offset"][inputs.len() + 1], inputs.len() + 4);
        assert_eq!(choice["text"], format!("{inputs}</s>{targets}</s>"));

        // As lm_eval asks: the text, with one token more, which is not of the answer.
        let text = format!("{inputs}</s>{targets}");
        let asked = json!({"prompt": text, "echo": true, "logprobs": 1, "max_tokens": 1});
        let found = complete(&server, asked);
        let longer = &found["choices"][0];
        let tokens = longer["logprobs"]["tokens"].as_array().map(Vec::len);
        assert_eq!(tokens, Some(text.len() - 3 + 1));
        let of_targets = |choice: &Value| {
            let all = choice["logprobs"]["token_logprobs"].as_array().expect("a list");
            json!(all[inputs.len() + 1..][..targets.len()])
        };
        assert_eq!(of_targets(longer), of_targets(choice));
    }
    the_best_samples_are_the_answers(&server);
}

fn the_best_samples_are_the_answers(server: &Server) {
    let fields = json!({
        "prompt": "a", "temperature": 1, "seed": 3, "n": 4, "logprobs": 5, "max_tokens": 6
    });
    let means = |answer: &Value| -> Vec<f64> {
        let choices = answer["choices"].as_array().expect("a list");
        let length = |choice: &Value| choice["logprobs"]["tokens"].as_array().map_or(0, Vec::len);
        choices.iter().map(|choice| sum(choice, 0) / length(choice) as f64).collect()
    };
    let all = complete(server, fields.clone());
    let mut expected = means(&all);
    assert_eq!(expected, means(&complete(server, fields.clone())), "a seed decides");
    assert!(texts(&all).iter().any(|text| *text != texts(&all)[0]), "samples differ: {all}");
    expected.sort_by(|one, other| other.total_cmp(one));
    let mut best = fields;
    best["n"] = json!(2);
    best["best_of"] = json!(4);
    let best = complete(server, best);
    assert_eq!(means(&best), expected[..2]);
    let top = best["choices"][0]["logprobs"]["top_logprobs"][0].as_object().expect("an object");
    assert!((5..=6).contains(&top.len()), "{top:?}");
}

#[test]
fn a_decoder_alone_scores_and_continues_its_prompt() {
    let folder = Folder::once("decoder_alone", |folder| {
        let train = folder.train("decoder_tiny.gin").bind_text("MODEL_DIR", "pretrained");
        train.bind("TRAIN_STEPS", 4).bind("train.eval_period", 0).succeeds();
    });
    let words = ["score", "--checkpoint=pretrained", "ab", "cd"];
    let score = gimlet(&folder, &words).succeeds().stdout;
    let score: f64 = score.trim().parse().expect("a number");
    let words = ["generate", "--checkpoint=pretrained", "--temperature=0", "--max_tokens=5", "ab"];
    let answer = gimlet(&folder, &words).succeeds().stdout;

    let server = Server::start(&folder, &["--checkpoint=pretrained"]);
    let of_text = json!({"model": "pretrained", "prompt": "ab", "max_tokens": 5});
    assert_eq!(texts(&complete(&server, of_text)), [answer.trim_end_matches('\n')]);
    let ids: Vec<i64> = b"abcd".iter().map(|byte| i64::from(*byte) + 3).chain([1]).collect();
    let asked = json!({
        "model": "pretrained", "prompt": ids, "echo": true, "logprobs": 0, "max_tokens": 0
    });
    let found = complete(&server, asked);
    let choice = &found["choices"][0];
    assert!((sum(choice, 2) - score).abs() < TOLERANCE, "{choice} {score}");
    assert!(sum(choice, 1) < sum(choice, 2), "the prompt is predicted: {choice}");
}

#[test]
#[ignore = "takes a minute, and needs a Python with openai, lm_eval, transformers and torch: `GIMLET_PYTHON=python3 make soak`"]
fn openai_s_client_and_lm_eval_find_what_transformers_do() {
    let Some(python) = std::env::var_os("GIMLET_PYTHON") else {
        eprintln!("skipped: GIMLET_PYTHON names no Python with openai and lm_eval");
        return;
    };
    let folder = Folder::new();
    folder.write("token", "secret\n");
    let server = Server::start(&folder, &[&t5()[..], "--token_file=token"]);
    let asked = Command::new(python)
        .arg(sources("openai").join("clients.py"))
        .arg(format!("http://{}", server.address))
        .arg(sources("hugging_face").join("t5"))
        .env("OPENAI_API_KEY", "secret")
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{said}");
    assert_eq!(server.ends().status, Some(0));
}
