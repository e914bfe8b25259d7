//! Records through whole tasks that gin declares: nested fields, random steps, templates.

use std::path::Path;

use gimlet::data::{ExampleOptions, TaskProvider, Value, task_examples};
use gimlet::gin::{Request, load};
use gimlet::run::{GinTasks, Library, registry};

use super::*;

const PREAMBLE: &str = "
seqio.Feature.vocabulary = @seqio.ByteVocabulary()
seqio.JsonLinesDataSource.split_to_filepattern = {'train': 'FOLDER/*.jsonl'}
seqio.Task.output_features = {'inputs': @seqio.Feature(), 'targets': @seqio.Feature()}
seqio.Task.source = @seqio.JsonLinesDataSource()
";

/// The tasks of a task file over the JSON lines of a folder.
fn gin_tasks(folder: &Path, lines: &str, tasks: &str) -> GinTasks {
    std::fs::write(folder.join("a.jsonl"), lines).unwrap();
    let text = format!("{PREAMBLE}{tasks}").replace("FOLDER", folder.to_str().unwrap());
    std::fs::write(folder.join("my_tasks.gin"), text).unwrap();
    let request = Request {
        bindings: vec![("flag".to_string(), "import my_tasks".to_string())],
        search_paths: vec![folder.to_str().unwrap().to_string()],
        ..Request::default()
    };
    let loaded = load(&request, &Library, &registry());
    let loaded = loaded.unwrap_or_else(|diagnostics| panic!("{}", diagnostics.render(false)));
    GinTasks::new(loaded, registry())
}

fn bytes(text: &str) -> Vec<i32> {
    text.bytes().map(|byte| i32::from(byte) + 3).chain([1]).collect()
}

#[test]
fn a_nested_record_becomes_tokens_and_keeps_what_evaluation_needs() {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"{"id": "a1", "question": "Who?", "context": "It was he.", "answers": {"text": ["he", "He."], "answer_start": [7, 7]}}"#;
    let tasks = gin_tasks(
        folder.path(),
        line,
        "questions/seqio.Task.preprocessors = [
          @t5.data.preprocessors.squad(), @seqio.preprocessors.tokenize(),
          @seqio.preprocessors.append_eos()]",
    );
    let TaskOrMixture::Task(task) = tasks.get("questions").unwrap() else { panic!("a task") };
    let options = ExampleOptions { split: "train".to_string(), ..ExampleOptions::default() };
    let examples: Vec<_> = task_examples(&task, &options).unwrap().map(Result::unwrap).collect();
    let [example] = &examples[..] else { panic!("one record is one example") };
    let inputs = bytes("question: Who ? context: It was he . ");
    assert_eq!(example.ints("inputs"), Some(&inputs[..]));
    assert_eq!(example.ints("targets"), Some(&bytes("he")[..]));
    assert_eq!(example.text("targets_pretokenized"), Some("he"));
    assert_eq!(example.text("id"), Some("a1"));
    let answers = Value::Texts(vec!["he".to_string(), "He . ".to_string()]);
    assert_eq!(example.get("answers"), Some(&answers));
}

#[test]
fn random_text_steps_resume_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let line = |i: usize| {
        let words: Vec<String> = (0..5 + i % 9).map(|word| format!("w{i}x{word}.")).collect();
        serde_json::json!({ "text": words.join(" ") }).to_string() + "\n"
    };
    let lines: String = (0..60).map(line).collect();
    let end = "@seqio.preprocessors.tokenize(), @seqio.preprocessors.append_eos()]\n";
    let task = |name: &str, step: &str| {
        format!("{name}/seqio.Task.preprocessors = [@t5.data.preprocessors.{step}(), {end}")
    };
    let text = task("nsp", "next_sentence_prediction")
        + "next_sentence_prediction.buffer_size = 30\n"
        + &task("blanks", "fill_in_the_blank")
        + "nsp/seqio.Task.shuffle_buffer_size = 20\nblanks/seqio.Task.shuffle_buffer_size = 20\n";
    let tasks = gin_tasks(folder.path(), &lines, &text);
    for name in ["nsp", "blanks"] {
        let config = DatasetConfig { shuffle: true, ..config(name, (64, 48)) };
        resume::check(&config, &tasks);
    }
}

#[test]
fn a_template_and_its_choices_become_scored_examples() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "{\"premise\": \"P\", \"label\": 1}\n{\"premise\": \"Q\", \"label\": 0}\n\
                 {\"premise\": \"R\", \"label\": -1}\n";
    let tasks = gin_tasks(
        folder.path(),
        lines,
        "apply_template.template = \
         '{{premise}}? ||| {% if label >= 0 %}{{answer_choices[label]}}{% endif %}'
apply_template.answer_choices = 'Yes ||| No'
scored/seqio.Task.preprocessors = [
          @gimlet.preprocessors.apply_template(), @t5.data.preprocessors.rank_classification(),
          @seqio.preprocessors.tokenize(), @seqio.preprocessors.append_eos()]",
    );
    let TaskOrMixture::Task(task) = tasks.get("scored").unwrap() else { panic!("a task") };
    let options = ExampleOptions { split: "train".to_string(), ..ExampleOptions::default() };
    let found: Vec<_> = task_examples(&task, &options)
        .unwrap()
        .map(|example| {
            let example = example.unwrap();
            let text = |key: &str| example.text(key).unwrap().to_string();
            let correct = example.get("is_correct") == Some(&Value::Int(1));
            let idx = example.ints("idx").unwrap().to_vec();
            (text("inputs_pretokenized"), text("targets_pretokenized"), correct, idx)
        })
        .collect();
    let row = |inputs: &str, targets: &str, correct, idx: [i32; 2]| {
        (inputs.to_string(), targets.to_string(), correct, idx.to_vec())
    };
    let expected = [
        row("P?", "Yes", false, [0, 0]),
        row("P?", "No", true, [0, 1]),
        row("Q?", "Yes", true, [1, 0]),
        row("Q?", "No", false, [1, 1]),
        // T0's `<NO LABEL>` is none of the choices.
        row("R?", "Yes", false, [2, 0]),
        row("R?", "No", false, [2, 1]),
    ];
    assert_eq!(found, expected);
}
