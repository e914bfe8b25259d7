//! Configurations as gin-config runs them: their bindings, and the configurables that a run of the
//! root reaches. The goldens were made by gin-config with functions that make the calls in a schema
//! (reference.py); those of the T5X run belong to Gimlet's own registry.

use std::fs;

use gimlet::gin::{
    Loaded, Registry, Request, config_str, configurable, load, operative_config_str, reach,
    registry_of,
};
use gimlet::run::{Library, registry};

use crate::golden::folder;

fn check(name: &str, root: &str) {
    let path = |ending: &str| folder("schemas").join(format!("{name}.{ending}"));
    let registry = match fs::read_to_string(path("json")) {
        Ok(text) => registry_of([(name, text.as_str())]).unwrap_or_else(|error| panic!("{error}")),
        Err(_) => registry(),
    };
    let loaded = loaded(&path("gin").display().to_string(), &registry);
    let expected = |ending| fs::read_to_string(path(ending)).expect("made by reference.py");
    assert_eq!(config_str(&loaded.config, &registry), expected("config.golden"), "{name}");
    let root = configurable(root, &loaded, &registry).expect("the root is known");
    let reached = reach(&loaded.config, &registry, [(Vec::new(), root)]);
    let operative = operative_config_str(&loaded.config, &reached, &registry);
    assert_eq!(operative, expected("golden"), "{name}");
}

fn loaded(path: &str, registry: &Registry) -> Loaded {
    let request = Request { files: vec![path.to_string()], ..Request::default() };
    match load(&request, &Library, registry) {
        Ok(loaded) => loaded,
        Err(diagnostics) => panic!("{}", diagnostics.render(false)),
    }
}

#[test]
fn a_t5x_run_reaches_what_gin_config_reaches() {
    check("t5x", "t5x.train.train");
}

#[test]
fn factories_that_a_module_calls_later_run_in_their_own_scope() {
    check("flaxformer", "t5x.train.train");
}

#[test]
fn scopes_that_a_caller_enters_hold_for_what_it_calls() {
    check("mesh", "mesh_tensorflow.transformer.utils.run");
}

#[test]
fn a_schema_dumped_from_python_stands_for_the_project() {
    check("zoo", "zoo.open_zoo");
}

/// A file of the farm with the schema that was dumped after gin-config had read it: printed as
/// gin-config prints it, and read back.
fn check_farm(name: &str) {
    let path = |ending: &str| folder("schemas").join(format!("{name}.{ending}"));
    let read = |ending: &str| fs::read_to_string(path(ending)).expect("made by reference.py");
    let registry = registry_of([(name, read("json").as_str())]).expect("it is a schema");
    let golden = read("config.golden");
    for file in [path("gin"), path("config.golden")] {
        let request = Request {
            files: vec![file.display().to_string()],
            search_paths: vec![folder("schemas").display().to_string()],
            fragment: true,
            ..Request::default()
        };
        let loaded = load(&request, &Library, &registry);
        let loaded = loaded.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        assert_eq!(config_str(&loaded.config, &registry), golden, "{}", file.display());
    }
}

#[test]
fn names_lead_through_the_imports_of_another_project() {
    check_farm("farm");
}

#[test]
fn names_that_gin_config_has_itself_are_printed_with_their_module() {
    check_farm("field");
}

/// Returns the error for a statement under the project's schema, if it is a mistake.
fn told(schema: &str, statement: &str) -> Option<String> {
    let text = fs::read_to_string(folder("schemas").join(schema)).expect("made by reference.py");
    let registry = registry_of([(schema, text.as_str())]).expect("it is a schema");
    let bindings = vec![("flag".to_string(), statement.to_string())];
    let request = Request { bindings, fragment: true, ..Request::default() };
    load(&request, &Library, &registry).err().map(|mistakes| mistakes.render(false))
}

#[test]
fn a_name_that_gin_config_finds_ambiguous_is_so_here() {
    for (statement, candidates) in [
        ("constant.rate = 1", ["`farm.constant`", "`gin.constant`"]),
        ("x/macro.steps = 1", ["`farm.macro`", "`gin.macro`"]),
    ] {
        let message = told("field.json", statement).expect("it is ambiguous");
        for candidate in candidates {
            assert!(message.contains(candidate), "{message}");
        }
    }
    assert_eq!(told("field.json", "farm.constant.rate = 1"), None);
}

#[test]
fn a_name_is_printed_through_the_import_that_it_was_written_with() {
    let text = "from __gin__ import dynamic_registration\nimport optax\nfrom t5x import optimizers\n\
                OPTIMIZER = @optax.adamw()\noptax.adamw.weight_decay = 0.1\n";
    let bindings = vec![("text".to_string(), text.to_string())];
    let request = Request { bindings, fragment: true, ..Request::default() };
    let registry = registry();
    let loaded = load(&request, &Library, &registry).expect("nothing is wrong with it");
    let printed = config_str(&loaded.config, &registry);
    for line in ["import optax", "OPTIMIZER = @optax.adamw()", "optax.adamw.weight_decay = 0.1"] {
        assert!(printed.lines().any(|found| found == line), "no `{line}` in:\n{printed}");
    }
}

#[test]
fn our_registry_reads_back_from_its_own_schema_file() {
    let text = gimlet::gin::registry_to_json(&registry()).to_string();
    let read = registry_of([("schema.json", text.as_str())]).expect("we write what we read");
    let names = |registry: &Registry| registry.iter().map(|s| s.name).collect::<Vec<_>>();
    assert_eq!(names(&read), names(&registry()));
}
