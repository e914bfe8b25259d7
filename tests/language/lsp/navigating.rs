//! Navigation from a name: hover, definitions, references, renaming.

use serde_json::{Value as Json, json};

use super::client::Client;
use super::{marked, place};

const BASE: &str = "SIZE = 1\nutils.DatasetConfig.batch_size = %SIZE\n";
const RUN: &str =
    "include 'base.gin'\nSIZE = 2\nOTHER = [%SIZE, %(2 * SIZE), f'é{SIZE}x']\nSIZE_2 = 1\n";
const FILES: [(&str, &str); 4] = [
    ("base.gin", BASE),
    ("runs/a.gin", RUN),
    ("runs/b.gin", "include 'base.gin'\nSIZE/macro.value = 3\nB = @SIZE/macro()\n"),
    ("unrelated.gin", "SIZE = 4\n"),
];

/// Returns the hover text at the mark of a text that is open as `name`.
fn hover(editor: &mut Client, name: &str, text: &str) -> String {
    let (text, at) = marked(text);
    editor.open(name, &text);
    let shown = editor.at("hover", name, at, json!({})).expect("answered");
    shown["contents"]["value"].as_str().unwrap_or_default().to_string()
}

/// `file place` of each location.
fn places(editor: &Client, locations: &Json) -> Vec<String> {
    let root = editor.uri("");
    let one = |location: &Json| {
        let uri = location["uri"].as_str().expect("a text").replace(&root, "");
        format!("{uri} {}", place(&location["range"]))
    };
    locations.as_array().expect("a list").iter().map(one).collect()
}

/// Asks for places at the mark of a text that is open as `name`.
fn found(editor: &mut Client, method: &str, name: &str, text: &str) -> Vec<String> {
    let (text, at) = marked(text);
    editor.open(name, &text);
    let more = json!({"context": {"includeDeclaration": true}});
    let locations = editor.at(method, name, at, more).expect("answered");
    places(editor, &locations)
}

/// Renames the name at the mark of a text that is open as `name`: `file place` of each edit.
fn renamed(editor: &mut Client, name: &str, text: &str, to: &str) -> Result<Vec<String>, String> {
    let (text, at) = marked(text);
    editor.open(name, &text);
    let edit = editor.at("rename", name, at, json!({"newName": to}))?;
    let mut out = Vec::new();
    for (uri, edits) in edit["changes"].as_object().expect("by file") {
        for edit in edits.as_array().expect("a list") {
            assert_eq!(edit["newText"], to);
            out.push(format!("{} {}", uri.replace(&editor.uri(""), ""), place(&edit["range"])));
        }
    }
    out.sort();
    Ok(out)
}

#[test]
fn a_parameter_shows_its_schema_and_where_its_value_comes_from() {
    let mut editor = Client::new(&FILES);
    let text = "include 'base.gin'\nutils.DatasetConfig:\n  batch_|size = %(SIZE + 1)\n";
    let shown = hover(&mut editor, "c.gin", text);
    let (head, now) = shown.split_once("\n---\n").expect("bound here");
    assert!(head.starts_with("**t5x.utils.DatasetConfig.batch_size**: "), "{head}");
    let base = editor.uri("base.gin");
    let own = editor.uri("c.gin");
    assert_eq!(
        now,
        format!(
            "now: `%(SIZE + 1)` = `2`  \nset in [c.gin:3]({own}#L3)  \n\
             replaces `%SIZE` of [base.gin:2]({base}#L2)"
        )
    );
}

#[test]
fn macros_configurables_and_files_are_shown() {
    let mut editor = Client::new(&FILES);
    let shown = hover(&mut editor, "runs/a.gin", &RUN.replace("[%SI", "[%S|I"));
    assert!(shown.starts_with("**%SIZE**\n\n---\nnow: `2`"), "{shown}");
    assert!(shown.contains("replaces `1` of [base.gin:1]"), "{shown}");
    let shown = hover(&mut editor, "d.gin", "A = @s/utils.Dataset|Config()\n");
    assert!(shown.contains("\n- `batch_size`: "), "{shown}");
    let text = "s/utils.Dataset|Config:\n  seed = 7\n";
    let shown = hover(&mut editor, "d.gin", text);
    assert!(shown.contains("; required; now `7`\n"), "{shown}");
    let shown = hover(&mut editor, "e.gin", "A = %UNKN|OWN\n");
    assert!(shown.contains("not defined here"), "{shown}");
    let shown = hover(&mut editor, "f.gin", "include 't5x/configs/|runs/pretrain.gin'\n");
    assert_eq!(shown, "`<gimlet>/gin/t5x/configs/runs/pretrain.gin`");
    assert_eq!(hover(&mut editor, "g.gin", "A = |1\n"), "");
}

#[test]
fn a_macro_s_definition_that_counts_comes_first() {
    let mut editor = Client::new(&FILES);
    let text = RUN.replace("[%SI", "[%S|I");
    let expected = ["runs/a.gin 1:0-4", "base.gin 0:0-4"];
    assert_eq!(found(&mut editor, "definition", "runs/a.gin", &text), expected);
}

#[test]
fn what_a_part_does_not_define_is_found_in_files_that_include_it() {
    let part = "A = %DEFINED_L|ATER\n";
    let run = "include 'part.gin'\nDEFINED_LATER = 1\n";
    let mut editor = Client::new(&[("part.gin", "A = %DEFINED_LATER\n"), ("run.gin", run)]);
    assert_eq!(found(&mut editor, "definition", "part.gin", part), ["run.gin 1:0-13"]);
}

#[test]
fn includes_imports_bindings_and_tasks_have_definitions() {
    let task = "my_task/seqio.Task.source = @seqio.TextLineDataSource()\n";
    let files = [FILES[0], ("my_tasks.gin", task)];
    let mut editor = Client::new(&files);
    let definition = |editor: &mut Client, text| found(editor, "definition", "run.gin", text);
    assert_eq!(definition(&mut editor, "include 'ba|se.gin'\n"), ["base.gin 0:0-0"]);
    assert_eq!(definition(&mut editor, "import my_|tasks\n"), ["my_tasks.gin 0:0-0"]);
    let text = "utils.DatasetConfig.module = %MODULE\nMODULE = 'my_|tasks'\n";
    assert_eq!(definition(&mut editor, text), ["my_tasks.gin 0:0-0"]);
    let text = "import my_tasks\nMIXTURE_OR_TASK_NAME = 'my_|task'\n";
    assert_eq!(definition(&mut editor, text), ["my_tasks.gin 0:19-25"]);
    let text = "include 'base.gin'\nutils.DatasetConfig.batch_|size = 2\n";
    assert_eq!(definition(&mut editor, text), ["run.gin 1:20-30", "base.gin 1:20-30"]);
    let text =
        "include 'base.gin'\ntrain/utils.DatasetConfig.seed = 1\nA = @train/utils.|DatasetConfig\n";
    assert_eq!(definition(&mut editor, text), ["run.gin 1:26-30", "base.gin 1:20-30"]);
}

#[test]
fn library_files_are_put_where_the_editor_can_open_them() {
    let mut editor = Client::new(&[]);
    let (text, at) = marked("include 't5x/examples/t5/t5_1_1/|base.gin'\n");
    editor.open("run.gin", &text);
    let found = editor.at("definition", "run.gin", at, json!({})).expect("answered");
    let uri = found[0]["uri"].as_str().expect("a place").to_string();
    let name = uri.strip_prefix(&editor.uri("")).expect("the cache is in the workspace here");
    let shown = std::fs::read_to_string(editor.path(name)).expect("it is there");
    assert!(shown.starts_with("# T5 1.1 base"), "{shown}");
    // Its own includes and macros are found as the library's.
    let wrong = editor.open(name, &shown);
    assert!(wrong.iter().all(|diagnostic| diagnostic["severity"] == 4), "{wrong:?}");
}

#[test]
fn references_are_found_in_all_files_that_are_loaded_together() {
    let mut editor = Client::new(&FILES);
    let all = [
        "base.gin 0:0-4",
        "base.gin 1:33-38",
        "runs/a.gin 1:0-4",
        "runs/a.gin 2:9-14",
        "runs/a.gin 2:22-26",
        "runs/a.gin 2:33-37",
        "runs/b.gin 1:0-4",
        "runs/b.gin 2:4-17",
    ];
    let text = BASE.replace("SIZE = ", "SI|ZE = ");
    assert_eq!(found(&mut editor, "references", "base.gin", &text), all);
    let text = RUN.replace("[%SI", "[%S|I");
    assert_eq!(found(&mut editor, "references", "runs/a.gin", &text), all);
    let text = "utils.DatasetConfig.batch_s|ize = %SIZE\n";
    assert_eq!(found(&mut editor, "references", "base.gin", text), ["base.gin 0:20-30"]);
}

#[test]
fn a_macro_is_renamed_wherever_it_is_shared() {
    let mut editor = Client::new(&FILES);
    let text = RUN.replace("[%SI", "[%S|I");
    let expected = [
        "base.gin 0:0-4",
        "base.gin 1:34-38",
        "runs/a.gin 1:0-4",
        "runs/a.gin 2:10-14",
        "runs/a.gin 2:22-26",
        "runs/a.gin 2:33-37",
        "runs/b.gin 1:0-4",
        "runs/b.gin 2:5-9",
    ];
    assert_eq!(renamed(&mut editor, "runs/a.gin", &text, "LENGTH").expect("possible"), expected);
}

#[test]
fn names_that_are_taken_or_not_ours_are_refused() {
    let mut editor = Client::new(&FILES);
    let text = RUN.replace("[%SI", "[%S|I");
    let mut refusal =
        |name, text: &str, to| renamed(&mut editor, name, text, to).expect_err("refused");
    assert_eq!(refusal("runs/a.gin", &text, "SIZE_2"), "runs/a.gin has a macro `SIZE_2` already");
    assert_eq!(refusal("runs/a.gin", &text, "2 x"), "`2 x` is not a valid name for a macro");
    assert_eq!(refusal("runs/a.gin", &text, "x.y"), "`x.y` is not a valid name for a macro");
    assert_eq!(refusal("c.gin", "utils.DatasetConfig.s|eed = 1\n", "x"), "only macros are renamed");
    let library = "include 't5x/configs/runs/pretrain.gin'\nTRAIN|_STEPS = 1\n";
    let found = refusal("d.gin", library, "STEPS");
    assert_eq!(
        found,
        "<gimlet>/gin/t5x/configs/runs/pretrain.gin uses this name too, and comes with Gimlet"
    );
}

#[test]
fn the_name_alone_is_offered_for_renaming() {
    let mut editor = Client::new(&FILES);
    let (text, at) = marked("s/A = 1\nB = [%s/|A]\n");
    editor.open("c.gin", &text);
    let range = editor.at("prepareRename", "c.gin", at, json!({})).expect("possible");
    assert_eq!(place(&range), "1:8-9");
}
