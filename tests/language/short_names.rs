//! Short names: the configurables that they mean, and the errors for ambiguous ones.

use std::collections::BTreeMap;
use std::io;

use gimlet::gin::{Configurable, Registry, Request, Source, load};

/// An encoder.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "lib.text.Encoder", ignored(layers = ""))]
struct TextEncoder {}

/// Another one.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "lib.image.Encoder", ignored(layers = ""))]
struct ImageEncoder {}

/// A third one.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "other.image.Encoder", ignored(layers = ""))]
struct OtherEncoder {}

struct NoFiles;

impl Source for NoFiles {
    fn read(&self, _: &str) -> io::Result<Option<String>> {
        Ok(None)
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Returns the message to the user about a flag, if there is one.
fn told(flag: &str, statement: &str) -> Option<String> {
    let registry =
        Registry::default().with::<TextEncoder>().with::<ImageEncoder>().with::<OtherEncoder>();
    let bindings = vec![(flag.to_string(), statement.to_string())];
    let request = Request { bindings, ..Request::default() };
    load(&request, &NoFiles, &registry).err().map(|diagnostics| diagnostics.render(false))
}

#[test]
fn a_name_of_several_configurables_is_refused_with_all_of_them() {
    let told_of = |name: &str| told(&format!("--gin.{name}.layers"), &format!("{name}.layers = 1"));
    let message = told_of("Encoder").expect("three are named so");
    for part in [
        "`Encoder` could be any of",
        "`lib.text.Encoder`",
        "`lib.image.Encoder`",
        "`other.image.Encoder`",
        "write more of its dotted name",
        "--gin.Encoder.layers",
    ] {
        assert!(message.contains(part), "`{part}` is not in:\n{message}");
    }
    let message = told_of("image.Encoder").expect("two are named so");
    assert!(!message.contains("lib.text.Encoder"), "{message}");
    assert_eq!(told_of("text.Encoder"), None);
}

/// Modules whose functions share names: `squad` is a preprocessor and a metric of t5, and files
/// write `preprocessors.squad`. `python` runs a function of the user's as any of the three.
const SHARING_MODULES: [&str; 8] = [
    "gimlet.metrics.",
    "gimlet.postprocessors.",
    "gimlet.preprocessors.",
    "t5.data.postprocessors.",
    "t5.data.preprocessors.",
    "t5.evaluation.metrics.",
    "t5_cbqa.metrics.",
    "t5_cbqa.postprocessors.",
];

/// Methods that T5X's models share; files write the model before them.
const SHARED_METHODS: [&str; 2] = ["predict_batch_with_aux", "score_batch"];

/// Classes of prompt-tuning; its files import their modules under two names.
const SHARED_CLASSES: [&str; 2] = ["Prompt", "prompts.Prompt"];

/// Published files write short names. A name that becomes ambiguous breaks them, unless real T5X
/// has both too: then `tests/e2e/bad_input/configuration.rs` is the place for it.
#[test]
fn every_short_name_of_the_shipped_registry_means_one_configurable() {
    let registry = gimlet::run::registry();
    let mut meanings: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for schema in registry.iter() {
        for name in schema.names() {
            let suffixes = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
            suffixes.for_each(|suffix| meanings.entry(suffix).or_default().push(schema.name));
        }
    }
    assert!(meanings.contains_key("T5Config"));
    let is_shared = |name: &&str| SHARING_MODULES.iter().any(|module| name.starts_with(module));
    for (suffix, mut names) in meanings {
        names.dedup();
        // A module that yields changes the meaning of no short name.
        if let [one] = registry.meant_by(suffix)[..] {
            names.retain(|name| *name == one.name);
        }
        let is_shared = !suffix.contains('.') && names.iter().all(is_shared)
            || [SHARED_METHODS, SHARED_CLASSES].concat().contains(&suffix);
        assert!(names.len() == 1 || is_shared, "`{suffix}` means {names:?}");
    }
}
