//! The task library: its tasks load, and equal those that the t5 library registers
//! (`reference/t5_tasks.py`).

use std::collections::{BTreeMap, BTreeSet};

use gimlet::data::{
    DataSource, Feature, Mixture, Preprocessor, Rate, Task, TaskOrMixture, TaskProvider,
};
use gimlet::gin::{FromGin, Request, Slot, load};
use gimlet::metrics::MetricFn;
use gimlet::run::{GinTasks, Library, registry};
use gimlet::vocab::VocabularySpec;
use serde_json::{Value, json};

use super::reference_json;

/// Returns the tasks of a module of the task library, with a run's own bindings.
fn library(module: &str, bindings: &[&str]) -> GinTasks {
    let import = format!("import {module}");
    let lines = [&import[..]].into_iter().chain(bindings.iter().copied());
    let bindings = lines.map(|line| ("--gin".to_string(), line.to_string())).collect();
    let request = Request { bindings, ..Request::default() };
    let loaded = load(&request, &Library, &registry());
    let tasks = GinTasks::new(loaded.map_err(|e| e.render(false)).unwrap(), registry());
    assert_eq!(tasks.mistakes(), Vec::<String>::new());
    tasks
}

fn task(tasks: &GinTasks, name: &str) -> std::sync::Arc<Task> {
    match tasks.get(name).unwrap_or_else(|error| panic!("{error}")) {
        TaskOrMixture::Task(task) => task,
        TaskOrMixture::Mixture(_) => panic!("{name} is a mixture"),
    }
}

fn mixture(tasks: &GinTasks, name: &str) -> std::sync::Arc<Mixture> {
    match tasks.get(name).unwrap_or_else(|error| panic!("{error}")) {
        TaskOrMixture::Mixture(mixture) => mixture,
        TaskOrMixture::Task(_) => panic!("{name} is a task"),
    }
}

fn keys(object: &Value) -> Vec<String> {
    object.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Describes a feature in the format of the script.
fn described(feature: &Feature) -> Value {
    let VocabularySpec::SentencePiece(vocabulary) = &feature.vocabulary else {
        panic!("t5's vocabularies are SentencePiece models")
    };
    let file = &vocabulary.sentencepiece_model_file;
    json!([feature.add_eos, feature.required, file, vocabulary.extra_ids])
}

/// Returns the name and arguments of a preprocessor in the format of the script.
fn step(preprocessor: &Preprocessor) -> Value {
    let arguments = match preprocessor {
        Preprocessor::Glue(spec) => json!({
            "benchmark_name": spec.benchmark_name, "label_names": spec.label_names,
            "feature_names": spec.feature_names,
        }),
        Preprocessor::Rekey(spec) => json!({"key_map": spec.key_map}),
        Preprocessor::Summarize(spec) => {
            json!({"article_key": spec.article_key, "summary_key": spec.summary_key})
        }
        Preprocessor::Translate(spec) => json!({
            "source_language": spec.source_language, "target_language": spec.target_language,
        }),
        Preprocessor::Squad(spec) if !spec.include_context => json!({"include_context": false}),
        Preprocessor::WscSimple(spec) => {
            json!({"correct_referent_only": spec.correct_referent_only})
        }
        _ => json!({}),
    };
    json!([preprocessor.schema_of().short_name(), arguments])
}

fn check_task(task: &Task, expected: &Value, default_features: &Value) {
    let name = task.task_name();
    let DataSource::TfdsDataSource(source) = &task.source else { panic!("{name} reads TFDS") };
    assert_eq!(json!(source.tfds_name), expected["tfds_name"], "{name}");
    let splits = source
        .splits
        .as_ref()
        .map(|splits| splits.0.iter().map(|(split, _)| split.clone()).collect::<BTreeSet<_>>());
    assert_eq!(json!(splits), expected["splits"], "{name}");
    let steps: Vec<Value> = task.preprocessors.iter().map(step).collect();
    assert_eq!(json!(steps), expected["preprocessors"], "{name}");
    let features: BTreeMap<&String, Value> =
        task.output_features.iter().map(|(name, feature)| (name, described(feature))).collect();
    let expected_features = expected.get("features").unwrap_or(default_features);
    assert_eq!(json!(features), *expected_features, "{name}");
    let postprocess_fn = task.postprocess_fn.as_ref().map(|spec| spec.schema_of().short_name());
    assert_eq!(json!(postprocess_fn), expected["postprocess_fn"], "{name}");
    let metrics = task.metric_fns.iter().map(|metric| match metric.name() {
        // In t5 it is one of scikit-learn's.
        "mean_multiclass_f1" => "sklearn_metrics_wrapper",
        name => name,
    });
    assert_eq!(json!(metrics.collect::<Vec<_>>()), expected["metric_fns"], "{name}");
}

#[test]
fn t5s_tasks_are_those_of_the_t5_library() {
    let reference = reference_json("t5_tasks.json");
    let tasks = library("t5.data.mixtures", &[]);
    assert_eq!(tasks.task_names(), keys(&reference["tasks"]));
    for (name, expected) in reference["tasks"].as_object().unwrap() {
        check_task(&task(&tasks, name), expected, &reference["default_features"]);
    }
}

#[test]
fn t5s_mixtures_are_those_of_the_t5_library() {
    let reference = reference_json("t5_tasks.json");
    let tasks = library("t5.data.mixtures", &[]);
    assert_eq!(tasks.mixture_names(), keys(&reference["mixtures"]));
    for (name, expected) in reference["mixtures"].as_object().unwrap() {
        let mixture = mixture(&tasks, name);
        let rate = |rate: Option<&Rate>| match rate.expect("every entry has a rate") {
            Rate::Number(rate) => json!(rate),
            Rate::Function(function) => json!(function.schema_of().short_name()),
            Rate::Steps(_) => panic!("theirs do not change"),
        };
        let entries = mixture.tasks.0.iter().map(|entry| {
            let own = entry.rate.as_ref().or(mixture.default_rate.as_ref());
            (entry.name.clone(), rate(own))
        });
        assert_eq!(json!(entries.collect::<BTreeMap<_, _>>()), *expected, "{name}");
    }
}

/// Describes a preprocessor in the format of `reference/multilingual_tasks.py`.
fn multilingual_step(preprocessor: &Preprocessor) -> Value {
    let arguments = match preprocessor {
        Preprocessor::ProcessXnli(spec) => json!({"target_languages": spec.target_languages}),
        Preprocessor::FilterTydiqaByLanguage(spec) => json!({"lang": spec.lang}),
        Preprocessor::Glue(spec) => json!({"benchmark_name": spec.benchmark_name}),
        Preprocessor::SpanCorruption(spec) if spec.mean_noise_span_length != 3.0 => {
            json!({"mean_noise_span_length": spec.mean_noise_span_length as u64})
        }
        _ => return step(preprocessor),
    };
    json!([preprocessor.schema_of().short_name(), arguments])
}

/// Returns the TFDS name and splits of a task, or those of the sources that it concatenates.
fn data_of(source: &DataSource) -> Value {
    match source {
        DataSource::TfdsDataSource(source) => {
            let splits = source
                .splits
                .as_ref()
                .map(|splits| splits.0.iter().cloned().collect::<BTreeMap<String, String>>());
            json!([source.tfds_name, splits])
        }
        DataSource::ConcatenatedDataSource(source) => {
            let of_each = source.sources.iter().map(|source| data_of(&source.0));
            let named = of_each.map(|data| {
                let name = data[0].as_str().unwrap().split('/').next().unwrap().to_string();
                let splits: Vec<String> = keys(&data[1]);
                (
                    format!(
                        "{}_all_langs_dataset_fn",
                        name.trim_end_matches("_wiki").replace("paws_x", "pawsx")
                    ),
                    splits,
                )
            });
            let named: BTreeSet<_> = named.collect();
            assert_eq!(named.len(), 1, "{named:?}");
            json!(named.first())
        }
        other => panic!("{other:?}"),
    }
}

fn check_multilingual(name: &str, task: &Task, expected: &Value, reference: &Value) {
    assert_eq!(data_of(&task.source), json!([expected[0], expected[1]]), "{name}");
    let shape = &reference["shapes"][expected[2].as_u64().unwrap() as usize];
    let steps: Vec<Value> = task.preprocessors.iter().map(multilingual_step).collect();
    assert_eq!(json!(steps), shape["preprocessors"], "{name}");
    let postprocess_fn = task.postprocess_fn.as_ref().map(|spec| spec.schema_of().short_name());
    assert_eq!(json!(postprocess_fn), shape["postprocess_fn"], "{name}");
    let metrics = task.metric_fns.iter().map(|metric| match &metric.0 {
        MetricFn::Mlqa(spec) => format!("mlqa {}", spec.lang.as_str()),
        MetricFn::MeanMulticlassF1(_) => "sklearn_metrics_wrapper".to_string(),
        other => other.name().to_string(),
    });
    assert_eq!(json!(metrics.collect::<Vec<_>>()), shape["metric_fns"], "{name}");
    let described = |feature: &Feature| match &feature.vocabulary {
        VocabularySpec::SentencePiece(vocabulary) => {
            json!([feature.add_eos, feature.required, vocabulary.sentencepiece_model_file])
        }
        VocabularySpec::Byte(_) => json!([feature.add_eos, feature.required, "ByteVocabulary"]),
        other => panic!("{other:?}"),
    };
    let features: BTreeMap<&String, Value> =
        task.output_features.iter().map(|(name, feature)| (name, described(feature))).collect();
    let expected_features = &reference["features"][expected[3].as_u64().unwrap() as usize];
    assert_eq!(json!(features), *expected_features, "{name}");
}

#[test]
fn mt5s_and_byt5s_tasks_are_those_of_their_libraries() {
    let reference = reference_json("multilingual_tasks.json");
    let tasks = library("byt5.tasks", &[]);
    let of_t5 = library("t5.data.mixtures", &[]).task_names();
    // `wiki.*` is the old name of Wikipedia in mT5's library.
    let is_other = |name: &String| !of_t5.contains(name) && !name.starts_with("wiki.");
    let names: Vec<String> = tasks.task_names().into_iter().filter(is_other).collect();
    assert_eq!(names, keys(&reference["tasks"]));
    for (name, expected) in reference["tasks"].as_object().unwrap() {
        check_multilingual(name, &task(&tasks, name), expected, &reference);
    }
}

#[test]
fn mt5s_and_byt5s_mixtures_are_those_of_their_libraries() {
    let reference = reference_json("multilingual_tasks.json");
    let tasks = library("byt5.tasks", &[]);
    let mixtures = reference["mixtures"].as_object().unwrap();
    for (name, expected) in mixtures {
        let mixture = mixture(&tasks, name);
        let rate = |rate: Option<&Rate>| match rate.expect("every entry has a rate") {
            Rate::Number(rate) => json!(rate),
            Rate::Function(function) => json!(function.schema_of().short_name()),
            Rate::Steps(_) => panic!("theirs do not change"),
        };
        let found = mixture.tasks.0.iter().map(|entry| {
            (entry.name.clone(), rate(entry.rate.as_ref().or(mixture.default_rate.as_ref())))
        });
        let expected: BTreeMap<String, Value> = match expected["tasks"].as_array() {
            Some(names) => names
                .iter()
                .map(|name| (name.as_str().unwrap().to_string(), expected["rate"].clone()))
                .collect(),
            None => expected.as_object().unwrap().clone().into_iter().collect(),
        };
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "{name}");
    }
    let of_t5 = library("t5.data.mixtures", &[]).mixture_names();
    let is_other = |name: &String| !of_t5.contains(name) && name != "wiki";
    let names: Vec<String> = tasks.mixture_names().into_iter().filter(is_other).collect();
    assert_eq!(names, keys(&reference["mixtures"]));
}

/// Evaluates all tasks and mixtures of a module.
fn check_loads(module: &str, bindings: &[&str]) -> GinTasks {
    let tasks = library(module, bindings);
    for name in tasks.task_names() {
        let task = task(&tasks, &name);
        assert_eq!(task.task_name(), name);
        assert!(!task.preprocessors.is_empty(), "{name}");
    }
    for name in tasks.mixture_names() {
        for entry in &mixture(&tasks, &name).tasks.0 {
            let found = tasks.get(&entry.name);
            assert!(found.is_ok(), "{name}: {}", found.unwrap_err());
        }
    }
    tasks
}

#[test]
fn the_whole_library_loads() {
    let files = Library::files();
    let modules = files.iter().filter_map(|(name, _)| {
        Some(name.strip_prefix("<gimlet>/tasks/")?.strip_suffix(".gin")?.replace('/', "."))
    });
    let modules: Vec<String> = modules.collect();
    assert!(modules.contains(&"t5.data.mixtures".to_string()), "{modules:?}");
    for module in modules {
        check_loads(&module, &[&promptsource()]);
    }
}

/// Returns the binding of a run's folder of templates: made-up ones, in promptsource's layout.
fn promptsource() -> String {
    format!("t0.PromptSource.dir = '{}'", super::reference("promptsource").display())
}

#[test]
fn t0_has_a_task_for_each_template_and_one_more_where_answers_can_be_ranked() {
    let tasks = library("t0.seqio_tasks", &[&promptsource()]);
    let expected = [
        "amazon_polarity_choose_a_word",
        "amazon_polarity_choose_a_word_score_eval",
        "amazon_polarity_is_it_good",
        "amazon_polarity_is_it_good_score_eval",
        "amazon_polarity_title",
        "anli_true_or_not_1__r1",
        "anli_true_or_not_1__r1_score_eval",
        "anli_true_or_not_1__r2",
        "anli_true_or_not_1__r2_score_eval",
        "anli_true_or_not_1__r3",
        "anli_true_or_not_1__r3_score_eval",
        "gigaword_summarize_",
        "super_glue_cb_does_it_follow_",
        "super_glue_cb_does_it_follow__score_eval",
        "super_glue_cb_write_a_premise",
    ];
    assert_eq!(tasks.task_names(), expected);
    let ranked = task(&tasks, "super_glue_cb_does_it_follow__score_eval");
    assert!(format!("{:?}", ranked.metric_fns).contains("num_classes: Some(3)"));
    let follows = task(&tasks, "super_glue_cb_does_it_follow_");
    let Preprocessor::ApplyTemplate(template) = &follows.preprocessors[0] else {
        panic!("templates come first")
    };
    assert!(template.template.contains("follow? \nYes, no, or maybe?"), "{}", template.template);
    assert!(!follows.output_features["inputs"].add_eos);
    let varying = task(&tasks, "amazon_polarity_choose_a_word_score_eval");
    assert!(format!("{:?}", varying.metric_fns).contains("num_classes: None"));
}

#[test]
fn t0s_mixtures_cap_large_data_sets_and_leave_tasks_out() {
    let tasks = library("t0.seqio_tasks", &[&promptsource()]);
    let entries = |name: &str| -> Vec<(String, Option<Rate>)> {
        let mixture = mixture(&tasks, name);
        mixture.tasks.0.iter().map(|entry| (entry.name.clone(), entry.rate.clone())).collect()
    };
    // 3,600,000 examples and three templates. `gigaword_summarize_` is not trained on.
    let rate = || Some(Rate::Number(166_666.0));
    let expected = ["choose_a_word", "is_it_good", "title"];
    let expected = expected.map(|name| (format!("amazon_polarity_{name}"), rate()));
    assert_eq!(entries("t0_train"), expected);
    assert_eq!(entries("t0+_train"), expected);
    assert_eq!(entries("t0_train_all_og_prompts"), expected[..2]);
    assert_eq!(entries("t0_train_one_og_prompt"), expected[..1]);
    let names: Vec<String> =
        entries("t0_eval_score_eval").into_iter().map(|(name, _)| name).collect();
    let rounds = ["r1", "r2", "r3"].map(|r| format!("anli_true_or_not_1__{r}_score_eval"));
    assert_eq!(
        names,
        [vec!["super_glue_cb_does_it_follow__score_eval".to_string()], rounds.into()].concat()
    );
    assert!(entries("t0_train_score_eval").is_empty());
}

#[test]
fn t0_without_templates_says_what_to_bind() {
    let request = Request {
        bindings: vec![("--gin".to_string(), "import t0.seqio_tasks".to_string())],
        ..Request::default()
    };
    let loaded = load(&request, &Library, &registry()).map_err(|e| e.render(false)).unwrap();
    let error = GinTasks::new(loaded, registry()).get("t0_train").unwrap_err().to_string();
    assert!(error.contains("bind `t0.PromptSource.dir`"), "{error}");
}

#[test]
fn a_runs_bindings_reach_the_rates_of_a_mixture() {
    let bindings = ["rate_num_examples.maximum = 524288", "t5.data.rate_unsupervised.value = 5"];
    let tasks = library("t5.data.mixtures", &bindings);
    let all_mix = mixture(&tasks, "all_mix");
    let Some(Rate::Function(rate)) = &all_mix.default_rate else { panic!("a function") };
    assert!(format!("{rate:?}").contains("maximum: Some(524288.0)"), "{rate:?}");
    let c4 = all_mix.tasks.0.iter().find(|entry| entry.name == "c4_v020_unsupervised").unwrap();
    assert!(format!("{:?}", c4.rate).contains("value: 5.0"), "{c4:?}");
}

#[test]
fn an_unknown_task_is_answered_with_the_nearest_name() {
    let tasks = library("t5.data.mixtures", &[]);
    let error = tasks.get("glue_kola_v002").unwrap_err().to_string();
    assert!(error.contains("did you mean `glue_cola_v002`?"), "{error}");
}

#[test]
fn rates_are_floats_by_step_or_functions() {
    let expected = "a float, a dict from training steps to floats, or one of @rate_num_examples";
    assert!(Rate::expected().starts_with(expected));
}
