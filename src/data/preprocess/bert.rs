//! Masked language modelling as BERT does it (Devlin et al. 2019, arXiv:1810.04805), over n-grams of
//! whole words (Megatron-LM `dataset_utils.py`).
//!
//! ```text
//! [CLS] the play ##er won [SEP]  ->  inputs [CLS] the [MASK] [MASK] won [SEP], targets 0 0 play ##er 0 0
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use super::{BuiltFeature, Context, ExamplePosition, MapStep, Preprocess, Step, ids_of};
use crate::error::DataError;
use crate::example::Example;
use crate::random::Draw;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;
use gimlet_vocab::PAD_ID;

/// Chooses words, one or several in a row, hides most of their tokens from the inputs, and asks for
/// them in the targets (Devlin et al. 2019, arXiv:1810.04805; n-grams from Megatron-LM).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.bert_masking")]
pub struct BertMasking {
    /// The feature that is masked in place.
    #[gin(default = "inputs".to_string())]
    pub feature_key: String,
    /// The feature that gets the original tokens at the chosen positions.
    #[gin(default = "targets".to_string())]
    pub target_feature_key: String,
    /// Share of tokens that are chosen, at least one and no more than the share.
    #[gin(default = 0.15)]
    pub noise_density: f64,
    /// Maximum number of tokens chosen in one example.
    #[gin(default = None)]
    pub max_predictions: Option<usize>,
    /// Maximum number of consecutive words; n words are chosen with a probability in proportion to
    /// 1/n.
    #[gin(default = 3)]
    pub max_ngram: usize,
    /// Chooses all tokens of a word or none; otherwise each token is a word.
    #[gin(default = true)]
    pub whole_words: bool,
    /// Share of the chosen tokens that become the mask.
    #[gin(default = 0.8)]
    pub mask_prob: f64,
    /// Share of the chosen tokens that become a random one; the rest stays unchanged.
    #[gin(default = 0.1)]
    pub random_prob: f64,
    /// The piece that replaces masked tokens.
    #[gin(default = "[MASK]".to_string())]
    pub mask_piece: String,
    /// The id that replaces masked tokens, instead of a piece; for example a sentinel.
    #[gin(default = None)]
    pub mask_id: Option<i32>,
    /// Pieces that are never chosen; neither is padding.
    #[gin(default = vec!["[CLS]".to_string(), "[SEP]".to_string()])]
    pub special_pieces: Vec<String>,
    /// The target of tokens that were not chosen: 0, which has no weight in the loss.
    #[gin(default = 0)]
    pub ignored_label: i32,
}

impl BertMasking {
    fn check(&self) -> Result<(), DataError> {
        let Self { noise_density, mask_prob, random_prob, max_ngram, .. } = *self;
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if [noise_density, mask_prob, random_prob, mask_prob + random_prob]
            .into_iter()
            .all(is_share)
            && max_ngram > 0
        {
            return Ok(());
        }
        Err(DataError::Config(format!(
            "`bert_masking` needs noise_density and mask_prob + random_prob between 0 and 1, and \
             max_ngram >= 1, found {noise_density}, {mask_prob} + {random_prob} and {max_ngram}"
        )))
    }

    fn masker(&self, feature: &BuiltFeature) -> Result<Masker, DataError> {
        let vocabulary = &feature.vocabulary;
        let num_ids = i32::try_from(vocabulary.vocab_size()).unwrap_or(i32::MAX);
        let pieces: Vec<String> = (0..num_ids).map(|id| vocabulary.piece(id)).collect();
        let id_of = |piece: &String| pieces.iter().position(|known| known == piece);
        let mask = self.mask_id.or_else(|| id_of(&self.mask_piece).map(|id| id as i32));
        let Some(mask) = mask else {
            return Err(DataError::Config(format!(
                "{} has no piece '{}'; set `bert_masking.mask_piece` or `bert_masking.mask_id`",
                vocabulary.name(),
                self.mask_piece
            )));
        };
        let specials = self.special_pieces.iter().filter_map(id_of).map(|id| id as i32);
        let specials = specials.chain([PAD_ID, mask]).collect();
        let starts = if self.whole_words { word_starts(&pieces) } else { Vec::new() };
        Ok(Masker {
            spec: self.clone(),
            feature: feature.key.clone(),
            targets: self.target_feature_key.as_str().into(),
            mask,
            num_ids,
            specials,
            starts,
        })
    }
}

/// Whether each piece begins a word: pieces without a leading `##`, or if any piece has
/// SentencePiece's leading `▁`, the pieces with it.
fn word_starts(pieces: &[String]) -> Vec<bool> {
    let marks_starts = pieces.iter().any(|piece| piece.starts_with('▁'));
    let starts = |piece: &String| match marks_starts {
        true => piece.starts_with('▁'),
        false => !piece.starts_with("##"),
    };
    pieces.iter().map(starts).collect()
}

impl Preprocess for BertMasking {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        self.check()?;
        Ok(vec![Step::Map(Box::new(self.masker(cx.feature(&self.feature_key)?)?))])
    }
}

/// [`BertMasking`] for a vocabulary.
struct Masker {
    spec: BertMasking,
    feature: Key,
    targets: Key,
    mask: i32,
    num_ids: i32,
    /// Ids that are never chosen.
    specials: BTreeSet<i32>,
    /// Whether each id begins a word; true for ids beyond the list.
    starts: Vec<bool>,
}

impl Masker {
    /// The words as runs of tokens.
    fn words(&self, tokens: &[i32]) -> Vec<Range<usize>> {
        let mut words: Vec<Range<usize>> = Vec::new();
        for (i, id) in tokens.iter().enumerate() {
            let begins = *self.starts.get(*id as usize).unwrap_or(&true);
            match words.last_mut() {
                _ if self.specials.contains(id) => {}
                Some(word) if !begins && word.end == i => word.end = i + 1,
                _ => words.push(i..i + 1),
            }
        }
        words
    }

    fn num_chosen(&self, num_tokens: usize) -> usize {
        let share = (num_tokens as f64 * self.spec.noise_density).round_ties_even() as usize;
        share.max(1).min(self.spec.max_predictions.unwrap_or(usize::MAX))
    }

    /// The tokens to predict.
    fn choose(&self, tokens: &[i32], draw: &mut Draw) -> Vec<usize> {
        let words = self.words(tokens);
        let most = self.num_chosen(tokens.len());
        let mut firsts: Vec<usize> = (0..words.len()).collect();
        draw.shuffle(&mut firsts);
        let mut is_chosen = vec![false; words.len()];
        let mut chosen = Vec::with_capacity(most);
        for first in firsts {
            if chosen.len() >= most {
                break;
            }
            let room = most - chosen.len();
            let mut n = ngram(self.spec.max_ngram.min(words.len() - first), draw);
            while words[first..first + n].iter().map(Range::len).sum::<usize>() > room {
                n -= 1;
            }
            let run = first..first + n;
            if is_chosen[run.clone()].contains(&true) {
                continue;
            }
            is_chosen[run.clone()].fill(true);
            chosen.extend(words[run].iter().cloned().flatten());
        }
        chosen
    }

    fn replacement(&self, token: i32, draw: &mut Draw) -> i32 {
        let share = draw.unit();
        if share < self.spec.mask_prob {
            self.mask
        } else if share < self.spec.mask_prob + self.spec.random_prob {
            draw.between(0, self.num_ids.into()) as i32
        } else {
            token
        }
    }
}

/// A number from 1 to `most`, n with a probability in proportion to 1/n.
fn ngram(most: usize, draw: &mut Draw) -> usize {
    let total: f64 = (1..=most).map(|n| 1.0 / n as f64).sum();
    let mut rest = draw.unit() * total;
    for n in 1..most {
        rest -= 1.0 / n as f64;
        if rest < 0.0 {
            return n;
        }
    }
    most
}

impl MapStep for Masker {
    fn apply(
        &self,
        mut example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        let tokens = ids_of(&example, &self.feature)?;
        let mut draw = place.draw();
        let (mut inputs, mut targets) =
            (tokens.to_vec(), vec![self.spec.ignored_label; tokens.len()]);
        for i in self.choose(tokens, &mut draw) {
            targets[i] = tokens[i];
            inputs[i] = self.replacement(tokens[i], &mut draw);
        }
        example.set(self.feature.clone(), Value::Ints(inputs));
        example.set(self.targets.clone(), Value::Ints(targets));
        Ok(Some(example))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::StageSeed;

    /// `[PAD] [CLS] [SEP] [MASK]`, then words of one, two and three pieces.
    const PIECES: [&str; 10] =
        ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "##a", "three", "##b", "##c"];

    fn masker(change: impl FnOnce(&mut BertMasking)) -> Masker {
        let mut spec = BertMasking {
            feature_key: "inputs".to_string(),
            target_feature_key: "targets".to_string(),
            noise_density: 0.3,
            max_predictions: None,
            max_ngram: 3,
            whole_words: true,
            mask_prob: 0.8,
            random_prob: 0.1,
            mask_piece: "[MASK]".to_string(),
            mask_id: None,
            special_pieces: vec!["[CLS]".to_string(), "[SEP]".to_string()],
            ignored_label: 0,
        };
        change(&mut spec);
        let pieces = PIECES.map(str::to_string);
        let starts = if spec.whole_words { word_starts(&pieces) } else { Vec::new() };
        Masker {
            spec,
            feature: "inputs".into(),
            targets: "targets".into(),
            mask: 3,
            num_ids: 10,
            specials: [0, 1, 2, 3].into(),
            starts,
        }
    }

    /// `[CLS] one two ##a three ##b ##c one [SEP] two ##a one one [SEP] [PAD]`
    const TOKENS: [i32; 15] = [1, 4, 5, 6, 7, 8, 9, 4, 2, 5, 6, 4, 4, 2, 0];

    fn chosen(masker: &Masker, counter: u64) -> Vec<usize> {
        let mut draw = StageSeed::new(3, "bert").draw(counter);
        let mut chosen = masker.choose(&TOKENS, &mut draw);
        chosen.sort_unstable();
        chosen
    }

    #[test]
    fn words_are_whole_and_never_special() {
        let words = masker(|_| {}).words(&TOKENS);
        assert_eq!(words, [1..2, 2..4, 4..7, 7..8, 9..11, 11..12, 12..13]);
        let tokens = masker(|spec| spec.whole_words = false).words(&TOKENS);
        assert_eq!(tokens.len(), 11);
        let pieces = ["▁a", "b", "▁", "<s>"].map(str::to_string);
        assert_eq!(word_starts(&pieces), [true, false, true, false]);
    }

    #[test]
    fn whole_words_are_chosen_up_to_the_share() {
        let masker = masker(|_| {});
        let words = masker.words(&TOKENS);
        let mut full = 0;
        for counter in 0..500 {
            let chosen = chosen(&masker, counter);
            // 0.3 of 15 tokens, halves to even.
            assert!(!chosen.is_empty() && chosen.len() <= 4);
            full += usize::from(chosen.len() == 4);
            for word in &words {
                let of_word = word.clone().filter(|i| chosen.contains(i)).count();
                assert!(of_word == 0 || of_word == word.len(), "{word:?} in {chosen:?}");
            }
        }
        assert!(full > 400, "{full} of 500 reach the share");
    }

    #[test]
    fn one_in_ten_is_random_and_one_in_ten_stays() {
        let masker = masker(|spec| spec.whole_words = false);
        let seed = StageSeed::new(4, "bert");
        let mut draw = seed.draw(0);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[masker.replacement(7, &mut draw) as usize] += 1);
        // The random tenth falls on all ten ids.
        let near = |found: i32, expected: i32| (found - expected).abs() < 250;
        assert!(near(counts[3], 8100) && near(counts[7], 1100), "{counts:?}");
        assert!([0, 1, 2, 4, 5, 6, 8, 9].iter().all(|&id| counts[id] > 50), "{counts:?}");
        let example = Example::of("inputs".into(), Value::Ints(TOKENS.to_vec()));
        let made =
            masker.apply(example, ExamplePosition { seed: &seed, counter: 5 }).unwrap().unwrap();
        let (inputs, targets) = (made.ints("inputs").unwrap(), made.ints("targets").unwrap());
        let restored: Vec<i32> =
            inputs.iter().zip(targets).map(|(&i, &t)| if t == 0 { i } else { t }).collect();
        assert_eq!(restored, TOKENS);
        assert_eq!(targets.iter().filter(|&&target| target != 0).count(), 4);
    }

    #[test]
    fn ngrams_are_likely_in_proportion_to_one_over_n() {
        let seed = StageSeed::new(5, "ngrams");
        let mut counts = [0; 4];
        (0..11_000).for_each(|counter| counts[ngram(3, &mut seed.draw(counter))] += 1);
        let near = |found: i32, expected: i32| (found - expected).abs() < 250;
        assert!(
            near(counts[1], 6000) && near(counts[2], 3000) && near(counts[3], 2000),
            "{counts:?}"
        );
        assert_eq!(ngram(1, &mut seed.draw(0)), 1);
    }

    #[test]
    fn no_more_is_chosen_than_can_be_predicted() {
        let masker = masker(|spec| (spec.noise_density, spec.max_predictions) = (1.0, Some(2)));
        assert!((0..200).all(|counter| chosen(&masker, counter).len() <= 2));
    }
}
