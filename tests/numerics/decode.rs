//! Compares decoding with caches with decoding without, and the algorithms with slow ones.

use std::sync::Arc;

use gimlet::models::decoding::{
    AnswerSet, BeamSearch, Constraint, DecodeFn, Decodes, NextLogits, Prediction, Prompt, Target,
    TemperatureSample,
};
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::{Batch, PredictingNetwork, feature};
use gimlet::nn::{Dropout, Params};
use gimlet::vocab::{PartialCodepointVocabulary, VocabularySpec};
use tch::{Device, Kind, Tensor};

use crate::fixture;

const LENGTH: usize = 9;
const EOS: i64 = 1;

fn inputs() -> Vec<Vec<i64>> {
    vec![vec![5, 9, 3, 7, 12, 1], vec![4, 4, 8, 1, 0, 0], vec![19, 1, 0, 0, 0, 0]]
}

fn predict(decode_fn: DecodeFn, num_decodes: usize) -> (T5, Params, Decodes) {
    let (t5, params) = fixture::tiny(2);
    let decodes = predict_with(&t5, &params, decode_fn, num_decodes);
    (t5, params, decodes)
}

fn predict_with(t5: &T5, params: &Params, decode_fn: DecodeFn, num_decodes: usize) -> Decodes {
    let batch = fixture::batch(&inputs(), &vec![vec![2; LENGTH]; 3]);
    let prediction = Prediction {
        decode_fn,
        num_decodes,
        bos_id: 0,
        eos_id: EOS,
        prompt_with_targets: false,
        constraint: None,
    };
    t5.predict_batch_with_aux(params, &batch, &prediction).expect("nothing contradicts")
}

/// Log-probabilities of the token after `prefix`, by a pass over the whole prefix.
fn next_log_probs(t5: &T5, params: &Params, row: usize, prefix: &[i64]) -> Vec<f64> {
    // The decoder's mask reads targets, so nonzero targets mark real positions; their values have
    // no effect.
    let targets = Tensor::full([1, prefix.len() as i64], 2, (Kind::Int64, Device::Cpu));
    let batch = Batch::new([
        (feature::ENCODER_INPUT_TOKENS, Tensor::from_slice(&inputs()[row]).unsqueeze(0)),
        (feature::DECODER_INPUT_TOKENS, Tensor::from_slice(prefix).unsqueeze(0)),
        (feature::DECODER_TARGET_TOKENS, targets),
    ]);
    let logits = t5.logits(params, &batch, Dropout::off()).get(0).get(prefix.len() as i64 - 1);
    Vec::try_from(logits.log_softmax(-1, Kind::Double)).expect("one axis")
}

/// Beam search over lists, one input at a time: `(score, tokens)`, worst to best.
fn slow_beam_search(t5: &T5, params: &Params, row: usize, beams: usize) -> Vec<(f64, Vec<i64>)> {
    let penalty = |length: usize| ((5.0 + length as f64) / 6.0).powf(0.6);
    let descending = |list: &mut Vec<(f64, Vec<i64>)>| list.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut live = vec![(0.0, vec![0])];
    let mut finished: Vec<(f64, Vec<i64>)> = Vec::new();
    for length in 1..=LENGTH {
        let mut candidates = Vec::new();
        for (log_prob, tokens) in &live {
            let next = next_log_probs(t5, params, row, tokens);
            candidates.extend(next.iter().enumerate().map(|(token, next)| {
                let tokens = [&tokens[..], &[token as i64]].concat();
                (log_prob + next, tokens)
            }));
        }
        descending(&mut candidates);
        candidates.truncate(2 * beams);
        let (ended, going_on): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|(_, tokens)| tokens.last() == Some(&EOS));
        finished.extend(ended.into_iter().map(|(score, tokens)| (score / penalty(length), tokens)));
        descending(&mut finished);
        finished.truncate(beams);
        live = going_on.into_iter().take(beams).collect();
        let best_possible = live[0].0 / penalty(LENGTH + 1);
        if finished.len() == beams && finished[beams - 1].0 > best_possible {
            break;
        }
    }
    finished.reverse();
    finished
}

#[test]
fn beam_search_finds_what_a_search_over_lists_finds() {
    let beams = 4;
    let (t5, params, decodes) = predict(DecodeFn::BeamSearch(BeamSearch::default()), beams);
    for row in 0..inputs().len() {
        let expected = slow_beam_search(&t5, &params, row, beams);
        assert_eq!(expected.len(), beams, "the reference finishes all of its beams");
        for (beam, (score, tokens)) in expected.iter().enumerate() {
            let index = [row as i64, beam as i64];
            let found = decodes.scores.double_value(&index);
            assert!((found - score).abs() < 1e-4, "row {row}: score {found}, expected {score}");
            let mut expected = tokens[1..].to_vec();
            expected.resize(LENGTH, 0);
            let found = decodes.sequences.get(index[0]).get(index[1]);
            assert_eq!(Vec::<i64>::try_from(found).expect("one axis"), expected);
        }
    }
}

/// The answers of a set of letters, the tokens from 3 on.
fn letters(set: AnswerSet) -> Arc<Constraint> {
    let codepoints = ('a'..='q').map(u64::from).collect();
    let letters = PartialCodepointVocabulary { codepoints, extra_ids: 0 };
    let letters = VocabularySpec::PartialCodepoint(letters).build().expect("it needs no file");
    let target = Target { vocabulary: &*letters, ends: &[EOS] };
    Arc::new(Constraint::new(&set, &target).expect("it can be decoded"))
}

#[test]
fn a_search_ranks_the_choices_by_the_models_own_likelihoods() {
    let (t5, params) = fixture::tiny(2);
    let choices = ["ab", "abc", "pq", "kk"];
    let set = AnswerSet::Choices(choices.map(str::to_string).to_vec().into());
    let batch = fixture::batch(&inputs(), &vec![vec![2; LENGTH]; 3]);
    let decode = |decode_fn, num_decodes| {
        let constraint = Some(letters(set.clone()));
        let (bos_id, eos_id, prompt_with_targets) = (0, EOS, false);
        let prediction =
            Prediction { decode_fn, num_decodes, bos_id, eos_id, prompt_with_targets, constraint };
        t5.predict_batch_with_aux(&params, &batch, &prediction).expect("nothing contradicts")
    };
    let greedy = TemperatureSample {
        temperature: 0.0,
        rescale_log_probs: false,
        ..TemperatureSample::default()
    };
    let greedy = decode(DecodeFn::TemperatureSample(greedy), 1);
    // A search with room for more finds all of them, and nothing else.
    let found = decode(DecodeFn::BeamSearch(BeamSearch { alpha: 0.0, ..BeamSearch::default() }), 6);
    for row in 0..inputs().len() {
        let mut expected: Vec<(f64, Vec<i64>)> = choices
            .map(|text| {
                let tokens: Vec<i64> =
                    text.bytes().map(|byte| i64::from(byte - b'a') + 3).chain([EOS]).collect();
                let log_prob = |at: usize| {
                    let prefix = [&[0], &tokens[..at]].concat();
                    next_log_probs(&t5, &params, row, &prefix)[tokens[at] as usize]
                };
                let mut padded = tokens.clone();
                padded.resize(LENGTH, 0);
                ((0..tokens.len()).map(log_prob).sum(), padded)
            })
            .into();
        expected.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sequences = found.sequences.get(row as i64);
        let tokens = |at: i64| Vec::<i64>::try_from(sequences.get(at)).expect("one axis");
        for (beam, (score, expected)) in (2..).zip(&expected) {
            let found = found.scores.double_value(&[row as i64, beam]);
            assert!((found - score).abs() < 1e-4, "row {row}: score {found}, expected {score}");
            assert_eq!(tokens(beam), *expected);
        }
        let missing = found.scores.get(row as i64).narrow(0, 0, 2);
        let missing = Vec::<f64>::try_from(missing.to_kind(Kind::Double)).expect("one axis");
        assert!(missing.into_iter().all(|score| !Decodes::is_answer(score)));
        let (sequence, score) = (greedy.sequences.get(row as i64).get(0), &greedy.scores);
        let sequence = Vec::<i64>::try_from(sequence).expect("one axis");
        let (expected, _) =
            expected.iter().find(|(_, tokens)| *tokens == sequence).expect("it is a choice");
        assert!((score.double_value(&[row as i64, 0]) - expected).abs() < 1e-4);
    }
}

#[test]
fn cached_greedy_decoding_equals_teacher_forcing() {
    let (t5, params) = fixture::tiny(2);
    check_greedy(&t5, &params);
    let scaled = T5Config { scale_attn_logits: true, ..fixture::tiny_config() };
    check_greedy(&T5::new(scaled.transformer()), &params);
    let with_memory = T5Config { num_memory_tokens: 3, ..fixture::tiny_config() };
    let with_cdq = T5Config { num_cdq_heads: 1, ..with_memory.clone() };
    for config in [with_memory, with_cdq] {
        let (t5, params) = fixture::drawn(2, config);
        check_greedy(&t5, &params);
    }
}

fn check_greedy(t5: &T5, params: &Params) {
    let greedy = TemperatureSample {
        temperature: 0.0,
        rescale_log_probs: false,
        ..TemperatureSample::default()
    };
    let decodes = predict_with(t5, params, DecodeFn::TemperatureSample(greedy), 1);
    let (best, scores) = decodes.best();
    for row in 0..inputs().len() {
        let (mut prefix, mut score) = (vec![0], 0.0);
        while prefix.len() <= LENGTH && prefix.last() != Some(&EOS) {
            let next = next_log_probs(t5, params, row, &prefix);
            let token = (0..next.len()).max_by(|&a, &b| next[a].total_cmp(&next[b])).expect("some");
            score += next[token];
            prefix.push(token as i64);
        }
        prefix.resize(LENGTH + 1, 0);
        assert_eq!(Vec::<i64>::try_from(best.get(row as i64)).expect("one axis"), prefix[1..]);
        assert!((scores.double_value(&[row as i64]) - score).abs() < 1e-4);
    }
}

#[test]
fn a_prompt_is_kept_and_its_end_token_dropped() {
    let (t5, params) = fixture::tiny(2);
    let targets = vec![vec![7, EOS, 6, 0, 0, 0]];
    let batch = fixture::batch(&inputs()[..1], &targets);
    for decode_fn in [
        DecodeFn::default(),
        DecodeFn::TemperatureSample(TemperatureSample { topk: 0, ..TemperatureSample::default() }),
    ] {
        let prediction = Prediction {
            decode_fn,
            num_decodes: 2,
            bos_id: 0,
            eos_id: EOS,
            prompt_with_targets: true,
            constraint: None,
        };
        let decodes =
            t5.predict_batch_with_aux(&params, &batch, &prediction).expect("nothing contradicts");
        let first = decodes.sequences.narrow(2, 0, 1);
        assert!(first.eq(7).all().int64_value(&[]) != 0);
    }
}

/// A model whose logits never change.
struct Fixed(Tensor);

impl NextLogits for Fixed {
    fn next_logits(&mut self, tokens: &Tensor) -> Tensor {
        self.0.unsqueeze(0).repeat([tokens.size()[0], 1])
    }

    fn reorder(&mut self, _: &Tensor) {}
}

/// The tokens that 400 samples of one position draw from probabilities .4 .3 .2 .1, and their scores.
fn sample(spec: TemperatureSample) -> (Vec<i64>, f64) {
    let _held = fixture::generator();
    tch::manual_seed(0);
    let mut model = Fixed(Tensor::from_slice(&[0.4f32, 0.3, 0.2, 0.1]).log());
    let inputs = Tensor::zeros([1, 1], (Kind::Int64, Device::Cpu));
    let prompt = Prompt {
        inputs,
        bos_id: 0,
        eos_id: 9,
        num_decodes: 400,
        start: 0,
        encoder_inputs: None,
        constraint: None,
    };
    let decode_fn = DecodeFn::TemperatureSample(spec);
    let decodes = decode_fn.decode(&prompt, &mut model).expect("nothing contradicts");
    let counts = decodes.sequences.view(-1).bincount::<&Tensor>(None, 4);
    let best = decodes.best().1.double_value(&[0]);
    (Vec::try_from(counts).expect("one axis"), best)
}

#[test]
fn cuts_leave_the_most_probable_tokens() {
    let base = TemperatureSample { topk: 0, ..TemperatureSample::default() };
    let (all, best) = sample(base.clone());
    assert!((all[0] - 160).abs() < 40 && (all[3] - 40).abs() < 20, "{all:?}");
    assert!((best - 0.4f64.ln()).abs() < 1e-5);
    let (two, best) = sample(TemperatureSample { topk: 2, ..base.clone() });
    assert!(two[0] > 0 && two[1] > 0 && two[2..] == [0, 0], "{two:?}");
    assert!((best - (0.4f64 / 0.7).ln()).abs() < 1e-5);
    // 0.4 + 0.3 falls short of 0.75.
    let (three, _) = sample(TemperatureSample { topp: 0.75, ..base.clone() });
    assert!(three[2] > 0 && three[3] == 0, "{three:?}");
    let (_, best) = sample(TemperatureSample { topk: 2, rescale_log_probs: false, ..base });
    assert!((best - 0.4f64.ln()).abs() < 1e-5);
}
