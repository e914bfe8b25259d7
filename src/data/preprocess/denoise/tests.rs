//! Comparison of masks and replacements with real t5, and tests of their properties.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value as Json;

use super::super::reference_tests::{features, preprocessor, reference, steps_of};
use super::mask::Mask;
use super::*;
use crate::preprocess::Preprocessor;
use crate::random::{Draw, StageSeed};
use gimlet_vocab::{SentencePieceVocabulary, VocabularySpec};

fn draw(counter: u64) -> Draw {
    StageSeed::new(1, "noise").draw(counter)
}

/// The function `@preprocessors.name`, with parameters bound by these lines.
fn noise_fn(name: &str, lines: &[&str]) -> NoiseFn {
    let denoise = denoise(&format!("inputs_fn = @preprocessors.{name}"), lines);
    denoise.inputs_fn.0
}

fn mask_fn(name: &str, lines: &[&str]) -> NoiseMaskFn {
    let denoise = denoise(&format!("noise_mask_fn = @preprocessors.{name}"), lines);
    denoise.noise_mask_fn.0
}

fn denoise(changed: &str, lines: &[&str]) -> Denoise {
    let defaults = [
        "denoise.noise_density = 0.15",
        "denoise.noise_mask_fn = @preprocessors.iid_noise_mask",
        "denoise.inputs_fn = @preprocessors.drop_noise_tokens",
    ];
    let changed = format!("denoise.{changed}");
    let all = defaults.iter().copied().chain([&*changed]).chain(lines.iter().copied());
    let lines: Vec<String> = all.map(str::to_string).collect();
    match preprocessor("denoise", &lines) {
        Preprocessor::Denoise(denoise) => denoise,
        other => panic!("{other:?}"),
    }
}

fn ints(json: &Json) -> Vec<i32> {
    serde_json::from_value(json.clone()).unwrap()
}

#[test]
fn noise_becomes_what_t5_makes_of_it() {
    let cases = reference("noise_functions");
    for case in cases.as_array().unwrap() {
        let tokens = ints(&case["tokens"]);
        let mask = Mask::of(ints(&case["mask"]).iter().map(|&bit| bit == 1));
        for (name, expected) in case["outputs"].as_object().unwrap() {
            let noisy = Noisy { tokens: &tokens, mask: &mask, num_ids: 1000 };
            let found = noise_fn(name, &[]).apply(noisy, &mut draw(0));
            assert_eq!(found, ints(expected), "{name} {case}");
        }
    }
}

#[test]
fn the_sentinel_can_be_set_for_all_who_use_it() {
    let (tokens, mask) = ([10, 11, 12, 13], Mask::of([true, false, true, true]));
    let noisy = Noisy { tokens: &tokens, mask: &mask, num_ids: 1000 };
    for (name, expected) in [
        ("noise_token_to_sentinel", &[50, 11, 50, 50][..]),
        ("noise_span_to_sentinel", &[50, 11, 50]),
        ("nonnoise_span_to_sentinel", &[10, 50, 12, 13]),
        ("noise_span_to_unique_sentinel", &[50, 11, 49]),
        ("nonnoise_span_to_unique_sentinel", &[10, 50, 12, 13]),
    ] {
        let function = noise_fn(name, &["sentinel_id.return_value = 50"]);
        assert_eq!(function.apply(noisy, &mut draw(0)), expected, "{name}");
    }
}

#[test]
fn random_replacements_leave_the_rest_and_are_as_likely_as_promised() {
    let tokens: Vec<i32> = (100..140).collect();
    let mask: Vec<bool> = (0..40).map(|i| i % 3 != 0).collect();
    let noisy = Noisy { tokens: &tokens, mask: &Mask::of(mask.clone()), num_ids: 60 };
    let (mut drawn, mut sentinels) = (BTreeMap::new(), 0);
    let random = noise_fn("noise_token_to_random_token", &[]);
    let line = "noise_token_to_random_token_or_sentinel.random_prob = 0.25";
    let either = noise_fn("noise_token_to_random_token_or_sentinel", &[line]);
    let permute = noise_fn("permute_noise_tokens", &[]);
    let gather = noise_fn("noise_token_to_gathered_token", &[]);
    let mut moved = BTreeSet::new();
    for counter in 0..1000 {
        let draw = &mut draw(counter);
        let outputs = [&random, &either, &permute, &gather].map(|f| f.apply(noisy, draw));
        for output in &outputs {
            let kept = (0..40).filter(|i| !mask[*i]).all(|i| output[i] == tokens[i]);
            assert!(kept && output.len() == 40, "{output:?}");
        }
        let noise = |output: &[i32]| -> Vec<i32> {
            (0..40).filter(|i| mask[*i]).map(|i| output[i]).collect()
        };
        noise(&outputs[0]).into_iter().for_each(|id| *drawn.entry(id).or_insert(0) += 1);
        sentinels += noise(&outputs[1]).iter().filter(|&&id| id == 59).count();
        let mut permuted = noise(&outputs[2]);
        moved.insert(permuted[0]);
        permuted.sort_unstable();
        assert_eq!(permuted, noise(&tokens), "the same tokens in another order");
        assert!(outputs[3].iter().all(|id| tokens.contains(id)));
    }
    // Each of the masks has 26 noise tokens, over the ids from 3 to 59.
    assert_eq!(drawn.keys().copied().collect::<Vec<_>>(), (3..60).collect::<Vec<_>>());
    assert!(drawn.values().all(|&n| (350..570).contains(&n)), "{drawn:?}");
    let expected = 26_000.0 * (0.75 + 0.25 / 57.0);
    assert!((sentinels as f64 - expected).abs() < 300.0, "{sentinels} of {expected}");
    assert_eq!(moved.len(), 26, "any of them can be the first");
}

#[test]
fn what_is_drawn_for_noise_comes_as_often_as_with_t5() {
    const COUNT: u64 = 20_000;
    for case in reference("frequencies").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let bindings = case["bindings"].as_object().unwrap().iter();
        let lines: Vec<String> =
            bindings.map(|(key, value)| format!("{name}.{key} = {value}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (function, tokens) = (noise_fn(name, &lines), ints(&case["tokens"]));
        let mask = Mask::of(ints(&case["mask"]).iter().map(|&bit| bit == 1));
        let num_ids = case["num_ids"].as_u64().unwrap() as i32;
        let noisy = Noisy { tokens: &tokens, mask: &mask, num_ids };
        let mut shares: BTreeMap<Vec<i32>, f64> = BTreeMap::new();
        for counter in 0..COUNT {
            let made = function.apply(noisy, &mut draw(counter));
            *shares.entry(made).or_default() += 1.0 / COUNT as f64;
        }
        let mut distance = 0.0;
        for row in case["outputs"].as_array().unwrap() {
            let found = shares.remove(&ints(&row[0])).unwrap_or(0.0);
            distance += (found - row[1].as_f64().unwrap()).abs() / 2.0;
        }
        assert!(shares.is_empty(), "{name} of t5 makes none of {shares:?}");
        // Both count 20,000 of up to 64 outcomes, which puts equal ones 0.03 apart.
        assert!(distance < 0.05, "{name}: {distance}");
    }
}

#[test]
fn random_spans_have_as_many_tokens_and_spans_as_those_of_t5() {
    for case in reference("masks")["random_spans"].as_array().unwrap() {
        let (density, mean) = (case["density"].as_f64().unwrap(), case["mean"].as_f64().unwrap());
        let line = format!("random_spans_noise_mask.mean_noise_span_length = {mean}");
        let function = mask_fn("random_spans_noise_mask", &[&line]);
        for counts in case["counts"].as_array().unwrap() {
            let [length, noise, spans] = serde_json::from_value(counts.clone()).unwrap();
            for counter in 0..5 {
                let mask = function.draw(length, density, &mut draw(counter));
                assert_eq!(seen(&mask), (length, noise, spans), "{density} {mean}");
            }
        }
    }
}

/// Tokens, noise tokens and spans of noise.
fn seen(mask: &Mask) -> (usize, usize, usize) {
    let noise: Vec<usize> = mask.runs().filter(|run| run.1).map(|run| run.0).collect();
    (mask.tokens().count(), noise.iter().sum(), noise.len())
}

#[test]
fn random_prefixes_are_as_short_and_as_long_as_those_of_t5() {
    let function = mask_fn("random_prefix_noise_mask", &[]);
    for case in reference("masks")["random_prefix"].as_array().unwrap() {
        let number = |key: &str| case[key].as_u64().unwrap() as usize;
        let density = case["density"].as_f64().unwrap();
        let prefixes = (0..4000).map(|counter| {
            let mask = function.draw(number("length"), density, &mut draw(counter));
            let prefix = mask.tokens().take_while(|is_noise| *is_noise).count();
            assert_eq!(seen(&mask).1, prefix, "noise comes first");
            prefix
        });
        let prefixes: BTreeSet<usize> = prefixes.collect();
        let expected: BTreeSet<usize> = (number("fewest")..=number("most")).collect();
        assert_eq!(prefixes, expected, "{case}");
    }
}

#[test]
fn regular_masks_are_those_of_t5() {
    for case in reference("masks")["regular"].as_array().unwrap() {
        let lines = [("min", "low"), ("max", "high")]
            .map(|(name, key)| format!("regular_noise_mask.{name}_span_length = {}", case[key]));
        let function = mask_fn("regular_noise_mask", &[&lines[0], &lines[1]]);
        let density = case["density"].as_f64().unwrap();
        let shown = |mask: Mask| -> String {
            mask.tokens().map(|is_noise| if is_noise { 'x' } else { '.' }).collect()
        };
        let found: BTreeSet<String> = (0..3000)
            .map(|counter| shown(function.draw(12, density, &mut draw(counter))))
            .collect();
        let expected: BTreeSet<String> = serde_json::from_value(case["masks"].clone()).unwrap();
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn independent_noise_is_as_dense_as_asked() {
    let function = mask_fn("iid_noise_mask", &[]);
    let mask = function.draw(100_000, 0.15, &mut draw(0));
    let noise = seen(&mask).1;
    assert!((14_600..15_400).contains(&noise), "{noise}");
}

#[test]
fn every_mask_of_random_spans_is_equally_likely_and_rolling_reaches_all_places() {
    let plain =
        mask_fn("random_spans_noise_mask", &["random_spans_noise_mask.random_roll = False"]);
    let rolled =
        mask_fn("random_spans_noise_mask", &["random_spans_noise_mask.random_roll = True"]);
    // 4 of 10 tokens in 1 span are always at the end; 5 in 2 spans have 4 times 4 masks.
    for (density, ways, rolled_ways) in [(0.4, 1, 10), (0.5, 16, 80)] {
        let count = |function: &NoiseMaskFn| {
            let mut counts = BTreeMap::new();
            for counter in 0..16_000 {
                let mask = function.draw(10, density, &mut draw(counter));
                assert_eq!(seen(&mask).1, (10.0 * density) as usize);
                *counts.entry(mask).or_insert(0) += 1;
            }
            counts
        };
        let counts = count(&plain);
        assert_eq!(counts.len(), ways);
        let expected = 16_000.0 / ways as f64;
        assert!(counts.values().all(|&n| (f64::from(n) - expected).abs() < 0.15 * expected));
        let counts = count(&rolled);
        assert!(counts.len() >= rolled_ways, "{}", counts.len());
    }
}

#[test]
fn impossible_parameters_are_refused() {
    for (changed, lines, expected) in [
        ("noise_density = 1.5", &[][..], "`noise_density` lies between 0 and 1, found 1.5"),
        (
            "noise_mask_fn = @random_prefix_noise_mask",
            &["denoise.noise_density = 0.6"],
            "`random_prefix_noise_mask` needs a noise density of at most 0.5, found 0.6",
        ),
        (
            "noise_mask_fn = @regular_noise_mask",
            &["regular_noise_mask.min_span_length = 7"],
            "`regular_noise_mask` needs a noise density above 0 and 1 <= min_span_length <= \
             max_span_length, found 0.15, 7 and 5",
        ),
        (
            "inputs_fn = @noise_token_to_random_token",
            &["noise_token_to_random_token.num_reserved_tokens = 1000"],
            "`noise_token_to_random_token.num_reserved_tokens` is less than the vocabulary's 1000 \
             ids, found 1000",
        ),
        (
            "passthrough_feature_keys = ['targets']",
            &[],
            "`denoise.passthrough_feature_keys` has 'targets', which `denoise` makes",
        ),
    ] {
        let spec = Preprocessor::Denoise(denoise(changed, lines));
        let error = steps_of(&spec, &features(true, 1), &[]).err().unwrap();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn inputs_and_targets_may_each_bring_their_copy_of_a_vocabulary() {
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.model").display().to_string();
    std::fs::copy(format!("{reference}/sentencepiece.model"), &copy).unwrap();
    let denoise = Preprocessor::Denoise(denoise("noise_density = 0.15", &[]));
    let mut features = features(true, 1);
    for (model, fits) in [("sentencepiece.model", true), ("sentencepiece/bpe.model", false)] {
        let paths = [("inputs", copy.clone()), ("targets", format!("{reference}/{model}"))];
        for (key, sentencepiece_model_file) in paths {
            let feature = features.get_mut(key).unwrap();
            feature.vocabulary_spec = VocabularySpec::SentencePiece(SentencePieceVocabulary {
                sentencepiece_model_file,
                extra_ids: 0,
                reverse_extra_ids: true,
                normalizer_spec_overrides: None,
            });
        }
        assert_eq!(steps_of(&denoise, &features, &[]).is_ok(), fits, "{model}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn inputs_and_targets_restore_the_tokens(
        tokens in prop::collection::vec(3i32..900, 1..600), density in 0.01f64..0.6, counter: u64,
        random_roll: bool,
    ) {
        let mask = RandomSpansNoiseMask { mean_noise_span_length: 3.0, random_roll };
        let mask = NoiseMaskFn::RandomSpansNoiseMask(mask).draw(tokens.len(), density, &mut draw(counter));
        let noisy = Noisy { tokens: &tokens, mask: &mask, num_ids: 10_000 };
        let inputs = NoiseFn::NoiseSpanToUniqueSentinel(NoiseSpanToUniqueSentinel::default());
        let targets = NoiseFn::NonnoiseSpanToUniqueSentinel(NonnoiseSpanToUniqueSentinel::default());
        let inputs = inputs.apply(noisy, &mut draw(0));
        let targets = targets.apply(noisy, &mut draw(0));
        prop_assert_eq!(reassemble(&inputs, &targets), tokens);
    }
}

/// Puts each span of the targets at the position of its sentinel in the inputs.
fn reassemble(inputs: &[i32], targets: &[i32]) -> Vec<i32> {
    let is_sentinel = |token: &i32| *token > 5000;
    let runs = |tokens: &[i32]| -> Vec<Vec<i32>> {
        let runs = tokens.split(is_sentinel).filter(|run| !run.is_empty());
        runs.map(<[i32]>::to_vec).collect()
    };
    let (mut kept, mut noise) = (runs(inputs).into_iter(), runs(targets).into_iter());
    let mut noise_is_next = inputs.first().is_some_and(is_sentinel);
    let mut tokens = Vec::new();
    while let Some(run) = if noise_is_next { noise.next() } else { kept.next() } {
        tokens.extend(run);
        noise_is_next = !noise_is_next;
    }
    tokens
}
