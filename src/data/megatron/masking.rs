//! The masked tokens of a sample: words, or several in a row. Source: `create_masked_lm_predictions` of
//! `megatron/data/dataset_utils.py`; unlike `gimlet.preprocessors.bert_masking`, draw for draw.

use super::numpy_random::{RandomState, choice_sums};
use super::segments::Marks;

/// Most words in a row; n of them are chosen with a probability in proportion to 1/n.
const MAX_NGRAM: usize = 3;

/// The masking of a vocabulary.
#[derive(Debug)]
pub(super) struct Masking {
    /// Share of the tokens that are masked.
    pub prob: f64,
    pub marks: Marks,
    /// `[MASK]`
    pub mask_id: i32,
    /// Whether the piece of each id begins a word: it has no leading `##`.
    pub begins_word: Vec<bool>,
}

impl Masking {
    /// Masks tokens in place, which are ids of the vocabulary, for a sample that was cut to `length` tokens without special ones. Returns the places and the
    /// original tokens, in ascending order.
    pub(super) fn mask(
        &self,
        tokens: &mut [i32],
        length: usize,
        random: &mut RandomState,
    ) -> Vec<(usize, i32)> {
        if self.prob == 0.0 {
            return Vec::new();
        }
        let most = self.most_masked(tokens.len(), length);
        let words = self.words(tokens);
        let mut firsts: Vec<usize> = (0..words.len()).collect();
        random.shuffle(&mut firsts);
        let weights: Vec<f64> = (1..=MAX_NGRAM).map(|n| 1.0 / n as f64).collect();
        let sums = choice_sums(&weights);
        let counts: Vec<usize> = firsts.iter().map(|_| 1 + random.choice(&sums)).collect();
        let mut original: Vec<Option<i32>> = vec![None; tokens.len()];
        let mut num_masked = 0;
        for (first, count) in firsts.into_iter().zip(counts) {
            if num_masked as f64 >= most {
                break;
            }
            let fits = |places: &Vec<usize>| (num_masked + places.len()) as f64 <= most;
            let run = |count: usize| words[first..(first + count).min(words.len())].concat();
            let Some(places) = (1..=count).rev().map(run).find(fits) else { continue };
            if places.iter().any(|place| original[*place].is_some()) {
                continue;
            }
            for place in places {
                original[place] = Some(tokens[place]);
                tokens[place] = self.replacement(tokens[place], random);
                num_masked += 1;
            }
        }
        let places = original.into_iter().enumerate();
        places.filter_map(|(place, token)| Some((place, token?))).collect()
    }

    /// Upper limit of the masked tokens: a share of the cut length, below one if that is short, and of all tokens, at least
    /// one.
    fn most_masked(&self, num_tokens: usize, length: usize) -> f64 {
        let share = (num_tokens as f64 * self.prob).round_ties_even().max(1.0);
        share.min(self.prob * length as f64)
    }

    /// The places of the tokens of each word. Marks belong to no word and do not end one.
    fn words(&self, tokens: &[i32]) -> Vec<Vec<usize>> {
        let mut words: Vec<Vec<usize>> = Vec::new();
        for (place, token) in tokens.iter().enumerate() {
            if [self.marks.begin, self.marks.end].contains(token) {
                continue;
            }
            let begins = self.begins_word[*token as usize];
            match words.last_mut().filter(|_| !begins) {
                Some(word) => word.push(place),
                None => words.push(vec![place]),
            }
        }
        words
    }

    /// The mask in eight of ten cases, else the token itself or, in half of the cases, any id.
    fn replacement(&self, token: i32, random: &mut RandomState) -> i32 {
        if random.random() < 0.8 {
            self.mask_id
        } else if random.random() < 0.5 {
            token
        } else {
            random.randint(0, self.begins_word.len() as u32) as i32
        }
    }
}
