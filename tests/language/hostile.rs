//! Configurations made to exhaust memory, stack or time are loaded or refused, in time that grows
//! with their size.

use std::collections::HashMap;
use std::io;

use gimlet::gin::{
    Configurable, Diagnostics, Evaluator, Loaded, Registry, Request, Source, config_str,
    load_anyway, reach, tree, untyped,
};
use gimlet::run::registry;
use gimlet::train::Train;

use crate::growth::check_growth;

/// Texts by their names.
struct Texts(HashMap<String, String>);

impl Source for Texts {
    fn read(&self, path: &str) -> io::Result<Option<String>> {
        Ok(self.0.get(path).cloned())
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

fn loaded(texts: impl IntoIterator<Item = (String, String)>, registry: &Registry) -> Loaded {
    let request =
        Request { files: vec!["0.gin".to_string()], fragment: true, ..Request::default() };
    load_anyway(&request, &Texts(texts.into_iter().collect()), registry)
}

fn shown(loaded: &Loaded) -> String {
    let list = loaded.diagnostics.clone();
    Diagnostics { sources: loaded.sources.clone(), list }.render(false)
}

/// Loads, follows and evaluates one text on a small stack; returns the errors.
fn run(text: String) -> String {
    let all = move || {
        let registry = registry();
        let loaded = loaded([("0.gin".to_string(), text)], &registry);
        reach(&loaded.config, &registry, [(Vec::new(), Train::schema())]);
        tree(&loaded.config, &registry, Train::schema());
        let mut evaluator = Evaluator::new(&loaded.config, &registry);
        let _ = evaluator.evaluate_in::<Train>("");
        evaluator.into_diagnostics();
        shown(&loaded)
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(all);
    thread.expect("a thread starts").join().expect("neither panic nor overflow")
}

#[test]
fn files_that_include_each_other_without_end_are_refused() {
    let texts = (0..1000).map(|i| (format!("{i}.gin"), format!("include '{}.gin'\n", i + 1)));
    let shown = shown(&loaded(texts, &registry()));
    assert!(shown.contains("more than 100 levels deep"), "{shown}");
}

#[test]
fn macros_that_lead_on_and_on_are_refused() {
    let chain: String = (0..100_000).map(|i| format!("M{i} = %M{}\n", i + 1)).collect();
    let shown = run(chain + "train.total_steps = %M0\n");
    assert!(shown.contains("deeper than 200 levels"), "{shown}");
}

#[test]
fn macros_that_double_each_other_cost_their_number() {
    let doubled = |value: fn(usize) -> String| -> String {
        (1..60).map(|i| format!("M{i} = {}\n", value(i - 1))).collect()
    };
    run(doubled(|i| format!("[%M{i}, %M{i}]")) + "M0 = 1\ntrain.model_dir = %M59\n");
    let shown = run(doubled(|i| format!("%(M{i} * M{i})")) + "M0 = 2\ntrain.total_steps = %M59\n");
    assert!(shown.contains("too many digits"), "{shown}");
    let shown =
        run(doubled(|i| format!("f'{{M{i}}}{{M{i}}}'")) + "M0 = 'a'\ntrain.model_dir = %M59\n");
    assert!(shown.contains("longer than"), "{shown}");
}

#[test]
fn references_through_a_thousand_scopes_are_refused() {
    let scopes: String = (0..1000)
        .map(|i| {
            format!("s{i}/utils.CheckpointConfig.save = @s{}/utils.CheckpointConfig()\n", i + 1)
        })
        .collect();
    let shown = run(scopes + "train.checkpoint_cfg = @s0/utils.CheckpointConfig()\n");
    assert!(shown.contains("error"), "{shown}");
}

#[test]
fn time_is_proportional_to_the_number_of_statements() {
    let rebound = |size| "train.total_steps = 1\n".repeat(size);
    let unknown = |size| (0..size).map(|i| format!("f{i}.x = 1\n")).collect::<String>();
    let unread =
        |size| (0..size).map(|i| format!("s{i}/train.total_steps = 1\n")).collect::<String>();
    let texts: [&dyn Fn(usize) -> String; 3] = [&rebound, &unknown, &unread];
    for text in texts {
        check_growth(1_000, &|size| drop(run(text(size))));
    }
    check_growth(1_000, &|size| {
        let text: String = (0..size).map(|i| format!("a{i}.b.c{i}.x = @d{i}.e()\n")).collect();
        let registry = untyped([text.as_str()]);
        config_str(&loaded([("0.gin".to_string(), text)], &registry).config, &registry);
    });
}
