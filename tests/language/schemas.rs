//! Configurations as gin-config runs them: what is bound, and what running the root reaches. The
//! goldens were made by gin-config with functions that do the calls which a schema declares
//! (reference.py); the T5X run's are those of our own registry.

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

#[test]
fn our_registry_reads_back_from_its_own_schema_file() {
    let text = gimlet::gin::registry_to_json(&registry()).to_string();
    let read = registry_of([("schema.json", text.as_str())]).expect("we write what we read");
    let names = |registry: &Registry| registry.iter().map(|s| s.name).collect::<Vec<_>>();
    assert_eq!(names(&read), names(&registry()));
}
