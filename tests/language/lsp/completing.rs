//! The proposals of the server.

use serde_json::{Value as Json, json};

use super::client::Client;
use super::{marked, place};

const DYNAMIC: &str = "from __gin__ import dynamic_registration\nfrom t5x import utils\n";

/// The proposals at the mark of a text that is open as `a.gin`.
fn proposals(editor: &mut Client, text: &str) -> Vec<Json> {
    let (text, at) = marked(text);
    editor.open("a.gin", &text);
    let found = editor.at("completion", "a.gin", at, json!({})).expect("answered");
    found.as_array().expect("a list").clone()
}

/// The proposal of that label.
#[track_caller]
fn proposal(editor: &mut Client, text: &str, label: &str) -> Json {
    let found = proposals(editor, text);
    let labels: Vec<_> = found.iter().map(|item| item["label"].clone()).collect();
    let item = found.into_iter().find(|item| item["label"] == label);
    item.unwrap_or_else(|| panic!("`{label}` is not among {labels:?}"))
}

/// Returns the range that the text of a proposal replaces.
fn replaced(item: &Json) -> String {
    place(&item["textEdit"]["range"])
}

#[test]
fn selectors_complete_as_the_file_s_imports_name_them() {
    let mut editor = Client::new(&[]);
    let item = proposal(&mut editor, "train/utils.Data|", "DatasetConfig");
    assert_eq!(
        (item["detail"].as_str(), replaced(&item)),
        (Some("t5x.utils.DatasetConfig"), "0:6-16".into())
    );
    let text = format!("{DYNAMIC}A = [@s/ut|]\n");
    let item = proposal(&mut editor, &text, "utils.DatasetConfig");
    assert_eq!((item.get("additionalTextEdits"), replaced(&item)), (None, "2:8-10".into()));
    let item = proposal(&mut editor, &text, "trainer.Trainer");
    let import = &item["additionalTextEdits"][0];
    assert_eq!(import["newText"], "from t5x import trainer\n");
    assert_eq!(place(&import["range"]), "2:0-0");
}

#[test]
fn arguments_complete_after_a_selector_and_in_a_block() {
    let mut editor = Client::new(&[]);
    let text = format!("{DYNAMIC}train/utils.DatasetConfig.ba|");
    let item = proposal(&mut editor, &text, "utils.DatasetConfig.batch_size");
    assert!(item["detail"].as_str().is_some_and(|detail| detail.ends_with("; required")), "{item}");
    let text = format!("{DYNAMIC}utils.DatasetConfig:\n  seed = 1\n  |\nA = 1\n");
    let item = proposal(&mut editor, &text, "batch_size");
    assert_eq!(replaced(&item), "4:2-2");
    assert!(proposals(&mut editor, "no.such.thing:\n  |").is_empty());
}

#[test]
fn macros_complete_where_they_are_used_and_defined() {
    let mut editor = Client::new(&[("b.gin", "SIZE = 12\nX = %MISSING\n")]);
    for text in ["A = %SI|", "A = %(1 + S|)", "A = f'{S|}'", "SI|"] {
        let item = proposal(&mut editor, &format!("include 'b.gin'\n{text}\n"), "SIZE");
        assert_eq!(item["detail"], "12", "{text}");
        proposal(&mut editor, &format!("include 'b.gin'\n{text}\n"), "MISSING");
    }
    proposal(&mut editor, "A = %|", "gin.REQUIRED");
}

#[test]
fn modules_complete_where_a_value_imports_them() {
    let mut editor = Client::new(&[]);
    for text in [
        "MIXTURE_OR_TASK_MODULE = |\n",
        "utils.DatasetConfig.module = |\n",
        "utils.DatasetConfig.module = %MODULE\nMODULE = |\n",
    ] {
        proposal(&mut editor, text, "\"t5.data.mixtures\"");
    }
    let found = proposals(&mut editor, "MODULE = |\n");
    assert!(found.iter().all(|item| item["label"] != "\"t5.data.mixtures\""));
}

#[test]
fn task_names_complete_where_one_may_stand() {
    let task = "my_task/seqio.Task.source = @seqio.TextLineDataSource()\n";
    let mut editor = Client::new(&[("my_tasks.gin", task)]);
    let text = "import my_tasks\nMIXTURE_OR_TASK_NAME = |\n";
    let item = proposal(&mut editor, text, "\"my_task\"");
    assert_eq!(item.get("additionalTextEdits"), None);
    let text = "import my_tasks\nTASK = 'my|'\nutils.DatasetConfig.mixture_or_task_name = %TASK\n";
    assert_eq!(replaced(&proposal(&mut editor, text, "my_task")), "1:8-10");
    let text = "mix/seqio.Mixture:\n  tasks = [('c4|', 1)]\n";
    let item = proposal(&mut editor, text, "c4_v220_span_corruption");
    assert_eq!(item["additionalTextEdits"][0]["newText"], "import t5.data.mixtures\n");
    let other = proposals(&mut editor, "import my_tasks\nOTHER = '|'\n");
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn values_complete_from_the_schema() {
    let mut editor = Client::new(&[]);
    for (text, label) in [
        ("utils.DatasetConfig.shuffle = |", "True"),
        ("train.trainer_cls = |", "@Trainer"),
        ("train.train_dataset_cfg = |", "@DatasetConfig()"),
    ] {
        proposal(&mut editor, text, label);
    }
}

#[test]
fn includes_and_imports_complete() {
    let mut editor = Client::new(&[("sub/b.gin", "B = 1\n"), ("c.gin", "C = 1\n")]);
    assert_eq!(replaced(&proposal(&mut editor, "include 'su|'\n", "sub/b.gin")), "0:9-11");
    proposal(&mut editor, "include '|", "t5x/configs/runs/pretrain.gin");
    proposal(&mut editor, "import |", "t5.data.mixtures");
    proposal(&mut editor, "from t5x import |", "utils");
    proposal(&mut editor, "from __gin__ import |", "dynamic_registration");
    let own = proposals(&mut editor, "include '|'\n");
    assert!(own.iter().all(|item| item["label"] != "a.gin"), "a file does not include itself");
}
