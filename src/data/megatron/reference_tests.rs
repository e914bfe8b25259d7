//! Comparison with the mappings, samples and draws of the real programs
//! (`tests/pipeline/data/reference/megatron_reference.py`).

#![cfg(test)]

use serde_json::Value as Json;

use super::blend::Blend;
use super::mapping::{MappingOptions, SampleRow, build_mapping};
use super::numpy_random::{RandomState, choice_sums};
use super::samples::{BertOptions, BertSamples};
use super::*;
use crate::example::Example;
use gimlet_vocab::{BertWordPieceVocabulary, VocabularySpec};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");
const NUM_IDS: usize = 128;

fn reference(part: &str) -> Json {
    let text = std::fs::read_to_string(format!("{FOLDER}/megatron.json")).unwrap();
    serde_json::from_str::<Json>(&text).unwrap()[part].take()
}

fn items(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().unwrap().iter()
}

fn numbers<T: serde::de::DeserializeOwned>(json: &Json) -> T {
    serde_json::from_value(json.clone()).unwrap()
}

fn options(json: &Json, max_length: u32, min_sentences: u64) -> MappingOptions {
    // Upstream's numbers that stand for no limit.
    let limit = |name: &str, none: u64| json[name].as_u64().filter(|count| *count != none);
    MappingOptions {
        num_epochs: limit("num_epochs", 2_147_483_646).map(|count| count as u32),
        num_samples: limit("max_num_samples", 9_223_372_036_854_775_806),
        max_length,
        short_seq_prob: json["short_seq_prob"].as_f64().unwrap(),
        seed: numbers(&json["seed"]),
        min_sentences,
    }
}

#[test]
fn draws_are_those_of_numpy() {
    let weights = [1.0, 1.0 / 2.0, 1.0 / 3.0];
    for expected in items(&reference("draws")) {
        let mut random = RandomState::new(numbers(&expected["seed"]));
        for number in items(&expected["random"]) {
            assert_eq!(random.random(), number.as_f64().unwrap());
        }
        for (number, high) in items(&expected["randint"]).zip(2..) {
            assert_eq!(u64::from(random.randint(1, high)), number.as_u64().unwrap());
        }
        let mut shuffled: Vec<u64> = (0..50).collect();
        random.shuffle(&mut shuffled);
        assert_eq!(shuffled, numbers::<Vec<u64>>(&expected["shuffle"]));
        let sums = choice_sums(&weights);
        for number in items(&expected["choice"]) {
            assert_eq!(1 + random.choice(&sums) as u64, number.as_u64().unwrap());
        }
        assert_eq!(random.random(), expected["after"].as_f64().unwrap());
    }
}

#[test]
fn mappings_are_those_of_the_compiled_helper() {
    let documents: Vec<u64> = numbers(&reference("documents"));
    let lengths: Vec<u32> = numbers(&reference("lengths"));
    for case in items(&reference("mappings")) {
        let least = case["min_num_sent"].as_u64().unwrap();
        let options = options(case, numbers(&case["max_seq_length"]), least);
        let expected: Vec<SampleRow> = numbers(&case["mapping"]);
        let mapping = build_mapping(&options, |each| {
            for document in documents.windows(2) {
                each(document[0], &lengths[document[0] as usize..document[1] as usize]);
            }
            Ok::<_, ()>(())
        });
        assert_eq!(mapping, Ok(expected), "{options:?}");
    }
}

/// The files of sentences in a folder of their own, without the mapping's file, and the samples of a case.
fn samples(case: &Json) -> (tempfile::TempDir, BertSamples) {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["bin", "idx"] {
        let name = format!("train_text_sentence.{ending}");
        std::fs::copy(format!("{FOLDER}/megatron/{name}"), folder.path().join(name)).unwrap();
    }
    let prefix = Path::try_from(folder.path()).unwrap().join("train_text_sentence");
    let samples = BertSamples::new(bert_options(case, prefix));
    (folder, samples)
}

/// The description of the samples of a case in files with this prefix.
fn bert_options(case: &Json, prefix: Path) -> BertOptions {
    let use_nsp = case["binary_head"] == 1;
    let input_seq_len: usize = numbers(&case["max_seq_length"]);
    let max_length = input_seq_len as u32 - if use_nsp { 3 } else { 2 };
    BertOptions {
        prefix,
        name: String::new(),
        mapping: options(case, max_length, if use_nsp { 2 } else { 1 }),
        input_seq_len,
        mlm_prob: case["masked_lm_prob"].as_f64().unwrap(),
        use_nsp,
        vocabulary: VocabularySpec::BertWordPiece(BertWordPieceVocabulary::of(&format!(
            "{FOLDER}/megatron/vocab.txt"
        ))),
        num_ids: NUM_IDS,
    }
}

/// A position is saved with the place of its samples.
#[test]
fn samples_of_other_settings_have_other_places() {
    let made = |change: fn(&mut BertOptions)| {
        let mut options =
            bert_options(&reference("settings")[0], Path::parse("absent/one").unwrap());
        change(&mut options);
        BertSamples::new(options)
    };
    let same = || made(|_| {});
    let other = || made(|options| options.prefix = Path::parse("s3://absent/two").unwrap());
    let place = |samples: Samples| samples.place().to_string();
    let one = |change| place(Samples::one(made(change)));
    let shares = |weights: [f64; 2]| Proportions::Shares(weights.to_vec());
    let blend =
        |first, second, proportions| place(Samples::blended(vec![first, second], proportions));
    let places = [
        one(|_| {}),
        one(|options| options.mapping.num_epochs = Some(3)),
        one(|options| options.mapping.num_samples = Some(100)),
        one(|options| options.mapping.max_length -= 1),
        one(|options| options.mapping.short_seq_prob = 0.101),
        one(|options| options.mapping.seed += 1),
        one(|options| options.mapping.min_sentences -= 1),
        one(|options| options.input_seq_len += 1),
        one(|options| options.mlm_prob = 0.151),
        one(|options| options.use_nsp = !options.use_nsp),
        one(|options| options.num_ids -= 1),
        blend(same(), other(), shares([1.0, 2.0])),
        blend(other(), same(), shares([1.0, 2.0])),
        blend(same(), other(), shares([1.0, 2.5])),
        blend(same(), same(), shares([1.0, 2.0])),
        blend(same(), other(), Proportions::Multiples(vec![1.0, 2.0])),
        place(Samples::blended(vec![same()], Proportions::Shares(vec![1.0]))),
    ];
    let different: std::collections::BTreeSet<&String> = places.iter().collect();
    assert_eq!(different.len(), places.len(), "{places:?}");
    assert_eq!(places[0], one(|_| {}));
    // The name is a part of that of a file of the same samples.
    assert_eq!(places[0], one(|options| options.name = "more".to_string()));
    assert_eq!(places[11], blend(same(), other(), shares([1.0, 2.0])));
    assert!(places[0].starts_with("absent/one.bin#"), "{}", places[0]);
    assert!(places[12].starts_with("s3://absent/two.bin+1#"), "{}", places[12]);
    // The files may move to another folder.
    let moved = one(|options| options.prefix = Path::parse("elsewhere/one").unwrap());
    assert_eq!(places[0].rsplit('/').next(), moved.rsplit('/').next());
}

/// The one file beside those of the sentences.
fn written(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut written = files.filter(|path| path.extension().unwrap() == "npy");
    let found = written.next().unwrap();
    assert_eq!(written.next(), None);
    found
}

/// Compares an example with a sample of upstream, whose labels are -100 where nothing is masked.
fn check(example: &Example, expected: &Json, length: usize) {
    let padded = |mut ids: Vec<i32>| {
        ids.resize(length, 0);
        ids
    };
    let tokens: Vec<i32> = numbers(&expected["text"]);
    let first = expected["first"].as_u64().unwrap() as usize;
    let types = (0..tokens.len()).map(|place| i32::from(place >= first)).collect();
    let (mut targets, mut weights) = (vec![0; length], vec![0; length]);
    for (place, label) in expected["labels"].as_object().unwrap() {
        let place: usize = place.parse().unwrap();
        (targets[place], weights[place]) = (numbers(label), 1);
    }
    assert_eq!(example.ints("encoder_input_tokens"), Some(&padded(tokens)[..]));
    assert_eq!(example.ints("encoder_token_types"), Some(&padded(types)[..]));
    assert_eq!(example.ints("encoder_target_tokens"), Some(&targets[..]));
    assert_eq!(example.ints("encoder_loss_weights"), Some(&weights[..]));
}

#[test]
fn samples_are_those_of_the_real_data_set() {
    for case in items(&reference("settings")) {
        let (folder, samples) = samples(case);
        let mapping: Vec<SampleRow> = numbers(&case["mapping"]);
        assert_eq!(samples.num_samples().unwrap(), mapping.len() as u64);
        let saved = std::fs::read(written(&folder)).unwrap();
        let rows: Vec<u8> =
            mapping.as_flattened().iter().flat_map(|number| number.to_le_bytes()).collect();
        assert!(saved.ends_with(&rows) && saved.len() == 128 + rows.len());
        for (number, expected) in items(&case["first_samples"]).enumerate() {
            let example = Example::from_iter(samples.features(number as u64).unwrap());
            check(&example, expected, numbers(&case["max_seq_length"]));
            let label = (case["binary_head"] == 1).then(|| [numbers(&expected["is_random"])]);
            assert_eq!(example.ints("next_sentence_label"), label.as_ref().map(|label| &label[..]));
        }
    }
}

#[test]
fn the_file_of_samples_is_as_numpy_writes_it_and_named_after_its_content() {
    let case = &reference("settings")[0];
    let upstream = "train_text_sentence__indexmap_2ep_45msl_0.10ssp_42s";
    let (folder, samples) = samples(case);
    samples.num_samples().unwrap();
    let expected = std::fs::read(format!("{FOLDER}/megatron/{upstream}.npy")).unwrap();
    assert_eq!(std::fs::read(written(&folder)).unwrap(), expected);
    let name = written(&folder).file_name().unwrap().to_str().unwrap().to_string();
    assert!(name.starts_with(&format!("{upstream}_")) && name.ends_with(".npy"), "{name}");
}

#[test]
fn files_of_samples_are_read_if_they_can_be_of_these_data() {
    let case = &reference("settings")[0];
    let name = "train_text_sentence__indexmap_2ep_45msl_0.10ssp_42s.npy";
    let whole = std::fs::read(format!("{FOLDER}/megatron/{name}")).unwrap();
    let check = |bytes: &[u8], expected: u64| {
        let (folder, samples) = samples(case);
        std::fs::write(folder.path().join(name), bytes).unwrap();
        assert_eq!(samples.num_samples().unwrap(), expected);
    };
    // Two samples that are possible: it is read.
    let header = String::from_utf8_lossy(&whole[..128]).into_owned();
    let two = whole[..128].iter().copied().map(char::from).collect::<String>();
    let two = two.replace("(282, 3), }", "(2, 3), }  ");
    assert!(header.contains("(282, 3)"));
    let two: Vec<u8> = two.chars().map(|c| c as u8).chain(whole[128..152].to_vec()).collect();
    check(&two, 2);
    // A sample that ends behind its document, and a file that is not complete.
    let mut other = two.clone();
    other[132] = 255;
    check(&other, 282);
    check(&whole[..1000], 282);
}

#[test]
fn samples_of_other_settings_have_files_of_other_names() {
    let case = &reference("settings")[0];
    let mut names = std::collections::BTreeSet::new();
    for (use_nsp, short_seq_prob) in [(1, 0.1), (0, 0.1), (1, 0.003), (1, 0.0034)] {
        let mut case = case.clone();
        case["binary_head"] = use_nsp.into();
        case["short_seq_prob"] = short_seq_prob.into();
        let (folder, samples) = samples(&case);
        samples.num_samples().unwrap();
        names.insert(written(&folder).file_name().unwrap().to_owned());
    }
    assert_eq!(names.len(), 4);
}

#[test]
fn blends_and_mixtures_take_samples_in_the_order_of_upstream() {
    for case in items(&reference("blends")) {
        let lengths: Vec<u64> = numbers(&case["lengths"]);
        let weights: Vec<f64> = numbers(&case["weights"]);
        let blends = [
            ("blend", Blend::of_shares(&lengths, &weights)),
            ("mixture", Blend::of_multiples(&lengths, &weights)),
        ];
        for (kind, blend) in blends {
            let datasets: Vec<usize> = numbers(&case[format!("{kind}_dataset")]);
            let samples: Vec<u64> = numbers(&case[format!("{kind}_sample")]);
            assert_eq!(blend.len(), case[format!("{kind}_len")].as_u64().unwrap());
            for (number, (dataset, sample)) in (0..).zip(datasets.into_iter().zip(samples)) {
                // Upstream fails at samples after the last one of a data set.
                assert_eq!(
                    blend.get(number),
                    (dataset, sample % lengths[dataset]),
                    "{kind} {number}"
                );
            }
        }
    }
}
