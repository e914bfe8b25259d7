//! Comparison with t5, seqio, promptsource and Unidecode, and with mT5 and T5's closed-book QA:
//! `text_preprocessors.py` and `multilingual_reference.py` in the tests' reference folder made the
//! expected values.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Value as Json, json};

use super::super::testing::{example, preprocessors, run};
use super::languages::english_name;
use super::print::lines_of;
use super::transliterate::unidecode;
use crate::example::Example;
use crate::value::Value;

static REFERENCE: LazyLock<Json> = LazyLock::new(|| reference("text_preprocessors.json"));

fn reference(file: &str) -> Json {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");
    serde_json::from_str(&std::fs::read_to_string(format!("{folder}/{file}")).unwrap()).unwrap()
}

fn rows(kind: &str) -> impl Iterator<Item = (&'static str, &'static Json)> {
    REFERENCE[kind].as_array().unwrap().iter().map(|row| (row["gin"].as_str().unwrap(), row))
}

fn examples(json: &Json) -> Vec<Example> {
    json.as_array().unwrap().iter().map(example).collect()
}

/// Features by name, with floats in TensorFlow's precision.
fn sorted(example: &Example) -> BTreeMap<String, Value> {
    let as_f32 = |value: &Value| match value {
        Value::Float(number) => Value::Float(f64::from(*number as f32)),
        // An empty list has no type.
        Value::Texts(none) if none.is_empty() => Value::Ints(Vec::new()),
        value => value.clone(),
    };
    example.iter().map(|(key, value)| (key.to_string(), as_f32(value))).collect()
}

#[test]
fn outputs_are_those_of_the_real_ones() {
    assert!(rows("cases").count() > 60);
    rows("cases").for_each(|(gin, row)| check_case(gin, row));
}

#[test]
fn outputs_are_those_of_mt5_and_closed_book_qa() {
    for row in reference("multilingual_preprocessors.json")["cases"].as_array().unwrap() {
        check_case(row["gin"].as_str().unwrap(), row);
    }
}

#[test]
fn an_answer_is_sampled_from_all() {
    let gin = "steps.preprocessors = [@t5_cbqa.preprocessors.sample_answer()]\n";
    let asked = json!({"inputs": "q", "targets": "a", "answers": ["a", "b", "c"]});
    let found = run(&preprocessors(gin), vec![example(&asked); 600]).unwrap();
    for answer in ["a", "b", "c"] {
        let count = found.iter().filter(|example| example.text("targets") == Some(answer)).count();
        // The expected count is a third of 600; four standard deviations are 46.
        assert!(count.abs_diff(200) < 46, "{answer}: {count}");
    }
    for example in &found {
        let Some(Value::Texts(answers)) = example.get("answers") else { panic!("{example:?}") };
        assert_eq!(answers.first().map(String::as_str), example.text("targets"));
        assert_eq!(BTreeSet::from_iter(answers.iter().map(String::as_str)).len(), 3);
    }
}

fn check_case(gin: &str, row: &Json) {
    let found = run(&preprocessors(gin), examples(&row["examples"]));
    let found: Vec<_> = found.unwrap_or_else(|e| panic!("{gin}{e}")).iter().map(sorted).collect();
    let expected: Vec<_> = examples(&row["outputs"]).iter().map(sorted).collect();
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{gin} output {i}");
    }
    assert_eq!(found.len(), expected.len(), "{gin}");
}

#[test]
fn what_the_real_ones_refuse_is_an_error() {
    assert!(rows("errors").count() > 30);
    for (gin, row) in rows("errors") {
        let found = run(&preprocessors(gin), vec![example(&row["example"])]);
        assert!(found.is_err(), "{gin}{row}: {found:?}");
    }
}

#[test]
fn random_outputs_come_as_often_as_those_of_the_real_ones() {
    const COUNT: usize = 20_000;
    assert!(rows("frequencies").count() > 6);
    for (gin, row) in rows("frequencies") {
        let found = run(&preprocessors(gin), vec![example(&row["example"]); COUNT]).unwrap();
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for example in &found {
            let key = format!("{:?}", sorted(example));
            *counts.entry(key).or_default() += 1.0 / COUNT as f64;
        }
        let entry =
            |row: &Json| (format!("{:?}", sorted(&example(&row[0]))), row[1].as_f64().unwrap());
        let expected: BTreeMap<String, f64> =
            row["outputs"].as_array().unwrap().iter().map(entry).collect();
        let keys: BTreeSet<&String> = counts.keys().chain(expected.keys()).collect();
        let share = |of: &BTreeMap<String, f64>, key: &str| of.get(key).copied().unwrap_or(0.0);
        let distance: f64 =
            keys.iter().map(|key| (share(&counts, key) - share(&expected, key)).abs()).sum();
        // Half the sum is the total variation; 6,000 draws of the reference deviate by at most 2%.
        let per_example = row["per_example"].as_f64().unwrap();
        assert!(
            distance / 2.0 < 0.03 * per_example,
            "{gin}: {distance}\n{counts:#?}\n{expected:#?}"
        );
    }
}

#[test]
fn unidecode_writes_every_code_point_as_python_does() {
    let expected = REFERENCE["unidecode"].as_object().unwrap();
    for block in 0..0x1100u32 {
        let points = (block << 8..(block + 1) << 8).filter_map(char::from_u32);
        let texts: Vec<String> = points.map(|c| unidecode(&c.to_string())).collect();
        let text = texts.join("\n");
        let mut crc = flate2::Crc::new();
        crc.update(text.as_bytes());
        let found = (!text.trim_matches('\n').is_empty()).then(|| json!(crc.sum()));
        let key = format!("{block:x}");
        assert_eq!(found.as_ref(), expected.get(&key), "block {key}: {texts:?}");
    }
}

#[test]
fn languages_have_the_names_of_babel() {
    for (code, name) in REFERENCE["languages"].as_object().unwrap() {
        assert_eq!(english_name(code), name.as_str(), "{code}");
    }
}

#[test]
fn examples_print_as_those_of_seqio() {
    for row in REFERENCE["printed"].as_array().unwrap() {
        let summarize = usize::try_from(row[1].as_i64().unwrap()).ok();
        assert_eq!(lines_of(&example(&row[0]), summarize), row[2].as_str().unwrap(), "{row}");
    }
}

fn check(gin: &str, record: Json, expected: &[Json]) {
    check_of("gimlet", gin, record, expected);
}

fn check_of(module: &str, gin: &str, record: Json, expected: &[Json]) {
    let gin = format!("steps.preprocessors = [@{module}.preprocessors.{gin}");
    let found: Vec<_> =
        run(&preprocessors(&gin), vec![example(&record)]).unwrap().iter().map(sorted).collect();
    let expected: Vec<_> = expected.iter().map(|json| sorted(&example(json))).collect();
    assert_eq!(found, expected, "{gin}");
}

#[test]
fn blocks_do_what_lambdas_do_in_python() {
    check(
        "filter()]\nfilter.key = 'n'\nfilter.values = [0, 1.0]",
        json!({"n": 1}),
        &[json!({"n": 1})],
    );
    check("filter()]\nfilter.key = 'n'\nfilter.values = ['1']", json!({"n": 1}), &[]);
    check(
        "filter()]\nfilter.key = 'n'\nfilter.values = [-1]\nfilter.negate = True",
        json!({"n": -1}),
        &[],
    );
    check(
        "set_features()]\nset_features.features = {'inputs': '', 'ids': [1, 2]}",
        json!({"inputs": "x", "n": 1}),
        &[json!({"inputs": "", "n": 1, "ids": [1, 2]})],
    );
    check(
        "label_names()]\nlabel_names.names = ['no', 'yes']\nlabel_names.default = '<unk>'",
        json!({"label": -1}),
        &[json!({"label": -1, "targets": "<unk>"})],
    );
    check(
        "format()]\nformat.formats = {'inputs': 'q: {a/b} {n} {x} {l}'}\nformat.keep = False",
        json!({"a/b": "B", "n": 3, "x": 1.0, "l": ["a", "b"]}),
        &[json!({"inputs": "q: B 3 1.0 a, b"})],
    );
    check(
        "replace()]\nreplace.old = ' '",
        json!({"text": " a b\u{a0}c "}),
        &[json!({"text": "ab\u{a0}c"})],
    );
    check(
        "unidecode()]",
        json!({"text": "Ștefan și ță, în câmp", "n": 1}),
        &[json!({"inputs": "Stefan si ta, in camp", "targets": "Ștefan și ță, în câmp", "n": 1})],
    );
    check(
        "unidecode()]\nunidecode.targets_key = 'text'",
        json!({"text": "ă"}),
        &[json!({"inputs": "a", "text": "ă"})],
    );
}

#[test]
fn what_t5_fails_on_for_no_reason_is_done() {
    check_of(
        "t5.data",
        "rank_classification_formatter()]\nrank_classification_formatter.mode = 'train'\n\
         rank_classification_formatter.inputs_formats = ['a {x}', 'b']\n\
         rank_classification_formatter.targets_formats = ['c', 'd {x}']",
        json!({"x": "X", "label": 1}),
        &[json!({"inputs": "b", "targets": "d X", "idx": [0, 1], "is_correct": 1})],
    );
    check_of(
        "t5.data",
        "parse_tsv()]\nparse_tsv.field_columns = [2, 0]",
        json!({"text": "a\tb\tc"}),
        &[json!({"inputs": "c", "targets": "a"})],
    );
    check_of(
        "t5.data",
        "fill_in_the_blank_sized()]\nfill_in_the_blank_sized.size_bins = [3]",
        json!({"text": "a b c"}),
        &[json!({"inputs": "fill: _3_", "targets": "a b c"})],
    );
}

#[test]
fn a_random_choice_of_a_template_is_uniform_and_repeats() {
    let gin = "steps.preprocessors = [@gimlet.preprocessors.apply_template()]\n\
               apply_template.template = '{{ words | choice }} ||| {{ words | choice }}'";
    let record = example(&json!({"words": ["a", "b", "c"]}));
    let all = preprocessors(gin);
    let found = run(&all, vec![record.clone(); 9000]).unwrap();
    for inputs in ["a", "b", "c"] {
        for targets in ["a", "b", "c"] {
            let same = |made: &&Example| {
                made.text("inputs") == Some(inputs) && made.text("targets") == Some(targets)
            };
            let count = found.iter().filter(same).count();
            assert!((850..1150).contains(&count), "{inputs} {targets}: {count}");
        }
    }
    assert_eq!(found, run(&all, vec![record; 9000]).unwrap());
}

#[test]
fn a_failing_template_says_why() {
    let gin = "steps.preprocessors = [@gimlet.preprocessors.apply_template()]\n\
               apply_template.template = ";
    for (template, expected) in [
        ("'{{ a.b.c }} ||| x'", "undefined"),
        ("'{{ text ||| x'", "`apply_template.template` is malformed"),
        ("'{{ text.index(\"z\") }} ||| x'", "substring not found"),
    ] {
        let all = preprocessors(&format!("{gin}{template}"));
        let error = run(&all, vec![example(&json!({"text": "t"}))]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// prompt-tuning's regular expression `^[^ ]* `: a first character that is a space is all that is removed.
#[test]
fn the_first_word_of_a_text_and_its_space_are_removed() {
    let step = "@prompt_tuning.data.preprocessors.remove_first_text_token()";
    let gin = format!("steps.preprocessors = [{step}]\n");
    for (text, expected) in
        [("sst2 sentence: a b", "sentence: a b"), (" a b", "a b"), ("alone", "alone"), ("", "")]
    {
        let found = run(&preprocessors(&gin), vec![example(&json!({"inputs": text}))]).unwrap();
        assert_eq!(found[0].text("inputs"), Some(expected), "{text:?}");
    }
}
