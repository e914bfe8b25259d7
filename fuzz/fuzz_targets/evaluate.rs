//! No configuration makes loading, checking, following or evaluating it panic or hang, and what is
//! printed of it loads as the same.

#![no_main]

use std::io;
use std::sync::LazyLock;

use gimlet::gin::{
    Configurable, Evaluator, Loaded, Registry, Request, Severity, Source, config_str, load_anyway,
    operative_config_str, reach, tree,
};
use gimlet::run::{Library, registry};
use gimlet::train::Train;
use libfuzzer_sys::fuzz_target;

static REGISTRY: LazyLock<Registry> = LazyLock::new(registry);

/// One text, which may include itself and the library, and nothing of the disk.
struct Text<'a>(&'a str);

impl Source for Text<'_> {
    fn read(&self, path: &str) -> io::Result<Option<String>> {
        match path {
            "a.gin" => Ok(Some(self.0.to_string())),
            path if path.starts_with("<gimlet>") => Library.read(path),
            _ => Ok(None),
        }
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

fuzz_target!(|text: &str| {
    let mut loaded = loaded(text);
    let root = Train::schema();
    let reached = reach(&loaded.config, &REGISTRY, [(Vec::new(), root)]);
    operative_config_str(&loaded.config, &reached, &REGISTRY);
    tree(&loaded.config, &REGISTRY, root);
    let running = [(String::new(), root)];
    loaded.unbound(&running, &REGISTRY);
    if is_wrong(&loaded) {
        loaded.settle(&running, &REGISTRY);
        return;
    }
    let printed = config_str(&loaded.config, &REGISTRY);
    let again = self::loaded(&printed);
    assert!(!is_wrong(&again), "{printed}");
    assert_eq!(config_str(&again.config, &REGISTRY), printed);
    let mut evaluator = Evaluator::new(&loaded.config, &REGISTRY);
    let evaluated = evaluator.evaluate_in::<Train>("");
    assert!(evaluated.is_ok() || !evaluator.into_diagnostics().is_empty(), "an error says why");
});

fn loaded(text: &str) -> Loaded {
    let files = vec!["a.gin".to_string()];
    let request = Request { files, fragment: true, ..Request::default() };
    load_anyway(&request, &Text(text), &REGISTRY)
}

fn is_wrong(loaded: &Loaded) -> bool {
    loaded.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}
