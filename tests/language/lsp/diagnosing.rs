//! The diagnostics of the server, with their severity.

use serde_json::Value as Json;

use crate::golden::folder;

use super::client::Client;
use super::place;

/// `severity place first line of the message` of each; severities are those of the protocol: 1 is an
/// error, 2 a warning, 4 a hint.
fn said(diagnostics: &[Json]) -> Vec<String> {
    let one = |diagnostic: &Json| {
        let message = diagnostic["message"].as_str().expect("a text");
        let line = message.lines().next().expect("said");
        format!("{} {} {line}", diagnostic["severity"], place(&diagnostic["range"]))
    };
    diagnostics.iter().map(one).collect()
}

#[test]
fn mistakes_come_and_go_as_one_types() {
    let mut editor = Client::new(&[]);
    assert_eq!(said(&editor.open("a.gin", "A = 1\n")), [""; 0]);
    let wrong = editor.edit("a.gin", "A = 𝒳𝒳\nutils.DatasetConfig.batch_sise = 1\n");
    let unknown = "`DatasetConfig` has no parameter `batch_sise`";
    assert_eq!(
        said(&wrong),
        ["1 0:4-8 `𝒳𝒳` is not a valid value", &format!("1 1:20-30 {unknown}")]
    );
    let help = wrong[1]["message"].as_str().expect("a text");
    assert!(help.ends_with("help: did you mean `batch_size`?"), "{help}");
    let fixed = editor.edit("a.gin", "A = 'x'\r\nutils.DatasetConfig.batch_size = 1\r\n");
    assert_eq!(said(&fixed), [""; 0]);
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn what_a_part_lacks_is_a_hint_and_what_a_run_lacks_is_not() {
    let part =
        "utils.DatasetConfig.batch_size = %SIZE\nutils.DatasetConfig.split = %gin.REQUIRED\n";
    let mut editor = Client::new(&[("part.gin", part)]);
    let hints =
        ["4 0:33-38 macro `SIZE` is not defined", "4 1:20-25 `DatasetConfig.split` is required"];
    assert_eq!(said(&editor.open("part.gin", part)), hints);
    let run = "include 'part.gin'\ntrain.total_steps = %STEPS\n";
    let found = said(&editor.open("run.gin", run));
    assert!(found.contains(&"1 1:20-26 macro `STEPS` is not defined".to_string()), "{found:?}");
    let required = "2 0:8-18 part.gin:2: `DatasetConfig.split` is required".to_string();
    assert!(found.contains(&required), "{found:?}");
}

#[test]
fn a_run_that_others_include_is_a_part() {
    let base = "train.total_steps = %STEPS\n";
    let mut editor = Client::new(&[("run.gin", "include 'base.gin'\nSTEPS = 1\n")]);
    assert_eq!(said(&editor.open("base.gin", base)), ["4 0:20-26 macro `STEPS` is not defined"]);
}

#[test]
fn a_file_that_asks_for_values_is_a_part() {
    let text = "STEPS = %gin.REQUIRED\ntrain:\n  total_steps = %STEPS\n  model = %MODEL\n";
    let mut editor = Client::new(&[]);
    let hints = ["4 0:0-5 `STEPS` is required", "4 3:10-16 macro `MODEL` is not defined"];
    assert_eq!(said(&editor.open("run.gin", text)), hints);
}

#[test]
fn what_a_run_does_not_read_is_said() {
    let mut editor = Client::new(&[]);
    let text = "train.total_steps = 1\nnone/utils.DatasetConfig.seed = 1\n";
    let found = said(&editor.open("run.gin", text));
    assert_eq!(found, ["2 1:25-29 `DatasetConfig.seed` is never read"]);
}

#[test]
fn another_project_s_schema_is_taken() {
    let schema = folder("schemas").join("mesh.json");
    let mut editor = Client::with_flags(&[], &[&format!("--schema={}", schema.display())]);
    let found = said(&editor.open("a.gin", "utils.run.mode = 'train'\nutils.run.mod = 1\n"));
    assert_eq!(found, ["1 1:10-13 `run` has no parameter `mod`"]);
}

#[test]
fn a_comment_says_how_a_file_is_run() {
    let model = "train.model_dir = %DIR\ntrain.total_steps = %STEPS\n";
    let command = "# gimlet train --gin_file=model.gin --gin_file=run.gin --gin.DIR=\"'/x'\"\n";
    let mut editor = Client::new(&[("run.gin", "STEPS = 10\n")]);
    let undefined = ["DIR", "STEPS"].map(|name| format!("macro `{name}` is not defined"));
    let found = said(&editor.open("model.gin", model));
    assert!(undefined.iter().all(|said| found.iter().any(|f| f.ends_with(said))), "{found:?}");
    assert_eq!(said(&editor.edit("model.gin", &format!("{command}{model}"))), [""; 0]);
    // A command that does not read the file says nothing about it.
    let other = command.replace("model.gin", "run.gin");
    assert_eq!(said(&editor.edit("model.gin", &format!("{other}{model}"))).len(), found.len());
}

#[test]
fn mistakes_of_included_files_show_at_the_include() {
    let mut editor = Client::new(&[("sub/b.gin", "B = x\n")]);
    let found = editor.open("a.gin", "# é\ninclude 'sub/b.gin'\n");
    assert_eq!(said(&found), ["1 1:8-19 sub/b.gin:1: `x` is not a valid value"]);
    let related = &found[0]["relatedInformation"][0]["location"];
    assert_eq!(related["uri"], editor.uri("sub/b.gin"));
    assert_eq!(place(&related["range"]), "0:4-5");
}

#[test]
fn unsaved_changes_reach_the_files_that_include_them() {
    let mut editor = Client::new(&[("b.gin", "B = 1\n")]);
    editor.open("b.gin", "B = 1\n");
    assert_eq!(said(&editor.open("a.gin", "include 'b.gin'\n")), [""; 0]);
    editor.edit("b.gin", "B = x\n");
    let found = editor.edit("a.gin", "include 'b.gin'\nA = %B\n");
    assert_eq!(said(&found), ["1 0:8-15 b.gin:1: `x` is not a valid value"]);
}

#[test]
fn changes_may_be_parts_of_the_text() {
    let mut editor = Client::new(&[]);
    editor.open("a.gin", "A = 'é𝒳'\nB = 1\n");
    // The character in the quotes takes two units.
    let range = serde_json::json!({
        "start": {"line": 0, "character": 9}, "end": {"line": 1, "character": 4},
    });
    let found = editor.change("a.gin", serde_json::json!({"range": range, "text": "\nB = x"}));
    assert_eq!(said(&found), ["1 1:4-6 `x1` is not a valid value"]);
}

#[test]
fn search_paths_lead_to_includes() {
    let files = [("lib/c.gin", "C = 1\n")];
    let mut editor = Client::with_flags(&files, &["--gin_search_paths=lib"]);
    assert_eq!(said(&editor.open("a.gin", "include 'c.gin'\n")), [""; 0]);
    let found = said(&editor.edit("a.gin", "include 'd.gin'\n"));
    assert_eq!(found, ["1 0:8-15 there is no gin file `d.gin`"]);
}
