//! Modules named by values, such as `MIXTURE_OR_TASK_MODULE` in T5X's runs.

use std::fs;

use gimlet::gin::{Diagnostics, Request, load_anyway};
use gimlet::run::{GinTasks, Library, registry};

const MODULE: &str = "utils.DatasetConfig.module = %MIXTURE_OR_TASK_MODULE\n";
const TASK: &str = "my_task/seqio.Task.source = @seqio.TextLineDataSource()\n";

/// The tasks that a configuration declares, of which the folder `labs/romanian` has one; else its mistakes.
fn check(text: &str, flags: &[&str], expected: Result<&[&str], &str>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let module = folder.path().join("labs/romanian");
    fs::create_dir_all(&module).expect("the folder can be written");
    fs::write(module.join("tasks.gin"), TASK).expect("the folder can be written");
    let file = folder.path().join("run.gin");
    fs::write(&file, text).expect("the folder can be written");
    let flag = |text: &&str| ("--gin_bindings".to_string(), text.to_string());
    let request = Request {
        files: vec![file.display().to_string()],
        bindings: flags.iter().map(flag).collect(),
        search_paths: vec![folder.path().display().to_string()],
        fragment: true,
        ..Request::default()
    };
    let loaded = load_anyway(&request, &Library, &registry());
    let expected = match expected {
        Err(message) => {
            let (sources, list) = (loaded.sources, loaded.diagnostics);
            let shown = Diagnostics { sources, list }.render(false);
            return assert!(shown.contains(message), "{text}{flags:?}: {shown}");
        }
        Ok(expected) => expected,
    };
    let messages: Vec<&String> =
        loaded.diagnostics.iter().map(|mistake| &mistake.message).collect();
    assert!(messages.is_empty(), "{text}{flags:?}: {messages:?}");
    assert_eq!(GinTasks::new(loaded, registry()).task_names(), expected, "{text}{flags:?}");
}

#[test]
fn a_module_that_a_value_names_is_imported() {
    let named = |value: &str| format!("{MODULE}MIXTURE_OR_TASK_MODULE = {value}\n");
    check(&named("'labs.romanian.tasks'"), &[], Ok(&["my_task"]));
    check("train/utils.DatasetConfig.module = 'labs.romanian.tasks'\n", &[], Ok(&["my_task"]));
    // The last binding counts, at any place.
    let flag = "MIXTURE_OR_TASK_MODULE = 'labs.romanian.tasks'";
    check(&named("'no.such.tasks'"), &[flag], Ok(&["my_task"]));
    let imported = format!("import labs.romanian.tasks\n{}", named("'labs.romanian.tasks'"));
    check(&imported, &[], Ok(&["my_task"]));
    for none in ["None", "''", "'t5x.utils'"] {
        check(&named(none), &[], Ok(&[]));
    }
}

#[test]
fn a_module_that_is_not_there_is_told_with_its_place() {
    let text = format!("{MODULE}MIXTURE_OR_TASK_MODULE = 'labs.romanian.taks'\n");
    check(&text, &[], Err("no module or task file is named `labs.romanian.taks`"));
    check(&text, &[], Err("run.gin:2:26"));
    check(&text, &[], Err("searched for labs/romanian/taks.gin and labs/romanian/taks.py in"));
    let flag = "MIXTURE_OR_TASK_MODULE = 'taks'";
    check(&text, &[flag], Err("--gin_bindings"));
    check(
        "utils.DatasetConfig.module = 3\n",
        &[],
        Err("expected a str for `DatasetConfig.module`"),
    );
}
