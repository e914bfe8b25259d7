//! Printed configurations, against goldens that gin-config made.

use std::io;

use gimlet::gin::{Configurable, Loaded, Registry, Request, Source, config_str, load};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::golden;
use crate::values::any_value;

// The same as in reference.py; the parameters have no effect, so that they accept any value.

/// A model.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "lib.models.Model", ignored(emb_dim = "", module = "", vocabulary = "", Rate = ""))]
struct Model {}

/// An encoder.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "lib.models.Encoder", ignored(layers = "", scale = "", names = ""))]
struct Encoder {}

/// Another encoder of that name.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "lib.other.models.Encoder", ignored(layers = ""))]
struct OtherEncoder {}

/// A run.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "lib.train.train",
    ignored(model = "", steps = "", options = "", _hidden = "", text = "", seed = "")
)]
struct Train {}

/// A vocabulary.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "solo.Vocabulary", ignored(path = "", extra_ids = ""))]
struct Vocabulary {}

/// An encoder whose full name is a suffix of the other ones'.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "models.Encoder", ignored(layers = ""))]
struct BareEncoder {}

fn registry() -> Registry {
    Registry::default()
        .with::<Model>()
        .with::<Encoder>()
        .with::<OtherEncoder>()
        .with::<Train>()
        .with::<Vocabulary>()
        .with::<BareEncoder>()
}

/// The one text of a case.
struct Text<'a>(&'a str);

impl Source for Text<'_> {
    fn read(&self, path: &str) -> io::Result<Option<String>> {
        Ok((path == "case.gin").then(|| self.0.to_string()))
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

fn loaded(text: &str, registry: &Registry) -> Loaded {
    let request = Request { files: vec!["case.gin".to_string()], ..Request::default() };
    match load(&request, &Text(text), registry) {
        Ok(loaded) => loaded,
        Err(diagnostics) => panic!("{}", diagnostics.render(false)),
    }
}

#[test]
fn configurations_print_as_gin_config_prints_them_and_read_back() {
    let registry = registry();
    for case in golden::cases("config_str") {
        let text = std::fs::read_to_string(&case).expect("the case is readable");
        let printed = config_str(&loaded(&text, &registry).config, &registry);
        let expected = std::fs::read_to_string(case.with_extension("golden"));
        assert_eq!(printed, expected.expect("made by reference.py"), "{}", case.display());
        let again = config_str(&loaded(&printed, &registry).config, &registry);
        assert_eq!(again, printed, "{} read back", case.display());
    }
}

#[test]
fn what_gin_config_loses_reads_back() {
    let registry = registry();
    let text = "lib.train.train.seed = [1e999, -1e999]\nX = ''\n";
    let printed = config_str(&loaded(text, &registry).config, &registry);
    assert!(printed.contains("train.seed = [1e999, -1e999]\n"), "{printed}");
    assert_eq!(config_str(&loaded(&printed, &registry).config, &registry), printed);
}

/// Generates one statement of a random configuration. Macros are plain values and referenced
/// configurables have no references, so that there are no cycles.
fn statement() -> impl Strategy<Value = String> {
    let scope = || prop::sample::select(vec!["", "a/", "b/a/", "train/"]);
    let key = prop::sample::select(vec![
        "Model.emb_dim",
        "lib.models.Model.Rate",
        "models.Encoder.layers",
        "other.models.Encoder.layers",
        "train.options",
        "train._hidden",
    ]);
    let special = prop::sample::select(vec![
        "%SIZE",
        "%a/SIZE",
        "@Vocabulary",
        "@a/Vocabulary()",
        "%(SIZE * 2 // -3)",
        "f'{SIZE}/{{b}}'",
        "[@solo.Vocabulary(), {'x': %SIZE}]",
        "(%gin.REQUIRED,)",
    ]);
    let value =
        prop_oneof![any_value().prop_map(|value| value.to_string()), special.prop_map(Into::into)];
    prop_oneof![
        4 => (scope(), key, value).prop_map(|(scope, key, value)| format!("{scope}{key} = {value}\n")),
        1 => (scope(), any_value()).prop_map(|(scope, value)| format!("{scope}NAME = {value}\n")),
        1 => (scope(), -100i32..100).prop_map(|(scope, size)| format!("{scope}SIZE = {size}\n")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0), failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_printed_configuration_reads_back(statements in prop::collection::vec(statement(), 0..12)) {
        let registry = registry();
        let text = format!("SIZE = 4\na/SIZE = 5\n{}", statements.concat());
        let printed = config_str(&loaded(&text, &registry).config, &registry);
        let again = config_str(&loaded(&printed, &registry).config, &registry);
        prop_assert_eq!(again, printed);
    }
}
