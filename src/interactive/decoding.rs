//! The options of decoding that a flag or a request gives, over those of the model.

use clap::Args;
use serde::Deserialize;

use crate::models::decoding::{
    AnswerSet, BeamSearch, Choices, DecodeFn, Generate, Prediction, TemperatureSample,
};

/// The greatest number of sequences of one text.
const MAX_DECODES: usize = 64;

/// The greatest number of tokens of an answer of a server, unless the model's own is greater.
const MAX_TOKENS: usize = 2048;

/// Options of decoding. Those that are not given are the model's.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DecodingOptions {
    /// Number of answers to each text.
    #[arg(long = "num_decodes", value_name = "N")]
    pub num_decodes: Option<usize>,
    /// Sample from the distribution with its logits divided by this; 0 takes the most probable token of each step.
    #[arg(long = "temperature", value_name = "T")]
    pub temperature: Option<f64>,
    /// Sample from this many most probable tokens; 0 for all.
    #[arg(long = "topk", value_name = "K")]
    pub topk: Option<usize>,
    /// Sample from the most probable tokens that together have this probability.
    #[arg(long = "topp", value_name = "P")]
    pub topp: Option<f64>,
    /// Search with this many beams.
    #[arg(long = "beam", value_name = "N")]
    pub beam: Option<usize>,
    /// Preference of beam search for longer answers; 0 compares plain log-probabilities.
    #[arg(long = "alpha", value_name = "A")]
    pub alpha: Option<f64>,
    /// Greatest number of tokens of an answer.
    #[arg(long = "max_tokens", value_name = "N")]
    pub max_tokens: Option<usize>,
    /// A file with one answer a line: every answer is one of them.
    #[arg(long = "choices", value_name = "FILE")]
    pub choices: Option<Choices>,
    /// A regular expression that every answer matches as a whole.
    #[arg(long = "pattern", value_name = "REGEX")]
    pub pattern: Option<String>,
    /// Seed of samples.
    #[arg(long = "seed", value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<i64>,
}

/// A complete decoding of texts; those with equal ones may share a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoding {
    /// The model's options with those of the request.
    pub prediction: Prediction,
    /// Number of answers to each text: of a beam search, the best of its beams.
    pub num_answers: usize,
    /// Greatest number of tokens of an answer.
    pub max_tokens: usize,
    /// Seed of samples, if the request gives one; its texts are then decoded by themselves.
    pub seed: Option<i64>,
}

impl DecodingOptions {
    /// Fills in what is not given from the model's own options and its greatest number of tokens.
    ///
    /// # Errors
    /// Options that contradict each other, or values outside of their range: found, and expected.
    pub fn over(&self, model: &Prediction, max_tokens: usize) -> Result<Decoding, String> {
        self.check()?;
        let max_tokens = self.max_tokens.unwrap_or(max_tokens);
        let decode_fn = within(self.decode_fn(&model.decode_fn), max_tokens);
        let (num_answers, num_decodes) = match &decode_fn {
            DecodeFn::Generate(own) => (own.num_return_sequences, decode_fn.num_decodes(1)),
            _ => {
                let num_answers = self.num_decodes.unwrap_or(1);
                let beams = self.beam.unwrap_or(model.num_decodes);
                let is_search = decode_fn.searches();
                (num_answers, if is_search { beams.max(num_answers) } else { num_answers })
            }
        };
        match &decode_fn {
            DecodeFn::TemperatureSample(sample) => sample.check(max_tokens).map(drop),
            DecodeFn::Generate(own) => own.check(),
            DecodeFn::BeamSearch(_) => Ok(()),
        }
        .map_err(|error| error.to_string())?;
        let prediction = Prediction { decode_fn, num_decodes, ..model.clone() };
        // A search and the most probable tokens are the same with any seed.
        let seed = self.seed.filter(|_| prediction.decode_fn.draws());
        Ok(Decoding { prediction, num_answers, max_tokens, seed })
    }

    /// Whether options of sampling are given.
    fn samples(&self) -> bool {
        self.temperature.is_some() || self.topk.is_some() || self.topp.is_some()
    }

    /// Whether options of a search are given.
    fn searches(&self) -> bool {
        self.beam.is_some() || self.alpha.is_some()
    }

    /// Whether options of samples, of a search or of a set of answers are given.
    pub fn changes_decoding(&self) -> bool {
        self.samples() || self.searches() || self.choices.is_some() || self.pattern.is_some()
    }

    /// Returns the set of answers, if one is given.
    ///
    /// # Errors
    /// Two sets are given, or an expression is not valid.
    pub fn answers(&self) -> Result<Option<AnswerSet>, String> {
        AnswerSet::new(self.choices.clone(), self.pattern.clone())
            .map_err(|error| error.to_string())
    }

    /// Finds what is wrong with the options alone.
    ///
    /// # Errors
    /// Options that contradict each other, or values outside of their range.
    pub fn check(&self) -> Result<(), String> {
        if self.searches() && self.samples() {
            return Err("`beam` and `alpha` are of a search, `temperature`, `topk` and `topp` of samples: give \
                        those of one of both"
                .to_string());
        }
        if self.topk.is_some_and(|topk| topk > 0) && self.topp.is_some_and(|topp| topp > 0.0) {
            return Err("`topk` and `topp` are both given, expected one of them".to_string());
        }
        between("num_decodes", self.num_decodes, 1, MAX_DECODES)?;
        between("beam", self.beam, 1, MAX_DECODES)?;
        if self.max_tokens == Some(0) {
            return Err("`max_tokens` is 0, expected at least 1".to_string());
        }
        between("temperature", self.temperature, 0.0, 1e3)?;
        between("topp", self.topp, 0.0, 1.0)?;
        between("alpha", self.alpha, 0.0, 1e3)?;
        match self.answers()? {
            // Before the parameters of the model are read.
            Some(AnswerSet::Choices(choices)) => {
                choices.read().map(drop).map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }

    /// Checks the length of answers that a request asks of a server, whose own greatest is `max_tokens`.
    ///
    /// # Errors
    /// It is greater than that and than 2,048.
    pub fn check_room(&self, max_tokens: usize) -> Result<(), String> {
        let most = most_tokens(max_tokens);
        match self.max_tokens {
            Some(asked) if asked > most => Err(format!(
                "`max_tokens` is {asked}, expected 1 to {most}: memory for all tokens is taken before the first; for more, \
                 start the server with a TASK_FEATURE_LENGTHS whose \"targets\" are {asked}"
            )),
            _ => Ok(()),
        }
    }

    fn decode_fn(&self, model: &DecodeFn) -> DecodeFn {
        match model {
            DecodeFn::Generate(own) => DecodeFn::Generate(self.generate(own)),
            _ if self.samples() => DecodeFn::TemperatureSample(self.sample(model)),
            DecodeFn::TemperatureSample(own) if !self.searches() => {
                DecodeFn::TemperatureSample(own.clone())
            }
            DecodeFn::BeamSearch(own) => DecodeFn::BeamSearch(self.search(own.clone())),
            DecodeFn::TemperatureSample(_) => {
                DecodeFn::BeamSearch(self.search(BeamSearch::default()))
            }
        }
    }

    /// Changes only what is given: the changes to logits remain those of the model.
    fn generate(&self, own: &Generate) -> Generate {
        let mut own = own.clone();
        if self.samples() {
            own.num_beams = 1;
            own.do_sample = self.temperature.is_none_or(|temperature| temperature > 0.0);
            own.temperature = self.temperature.filter(|_| own.do_sample).unwrap_or(own.temperature);
            own.top_k = self.topk.unwrap_or(0);
            own.top_p = self.topp.filter(|topp| *topp > 0.0).unwrap_or(1.0);
        }
        if self.searches() {
            own.do_sample = false;
            own.num_beams = self.beam.unwrap_or(own.num_beams);
            own.length_penalty = self.alpha.unwrap_or(own.length_penalty);
        }
        own.num_return_sequences = self.num_decodes.unwrap_or(own.num_return_sequences);
        if own.num_beams > 1 {
            own.num_beams = own.num_beams.max(own.num_return_sequences);
        }
        own
    }

    fn search(&self, own: BeamSearch) -> BeamSearch {
        BeamSearch { alpha: self.alpha.unwrap_or(own.alpha), ..own }
    }

    /// Samples from all tokens, unless a cut is given: T5X's default of one token would make every temperature 0.
    fn sample(&self, model: &DecodeFn) -> TemperatureSample {
        let own = match model {
            DecodeFn::TemperatureSample(own) => own.clone(),
            _ => TemperatureSample::default(),
        };
        TemperatureSample {
            temperature: self.temperature.unwrap_or(match own.temperature {
                greedy if greedy <= 0.0 => 1.0,
                own => own,
            }),
            topk: self.topk.unwrap_or(0),
            topp: self.topp.unwrap_or(0.0),
            ..own
        }
    }
}

impl Decoding {
    /// Whether the tokens of an answer are final as they come, so that it can be shown while it grows.
    pub fn streams(&self) -> bool {
        !self.prediction.decode_fn.searches() && self.num_answers == 1
    }
}

/// The greatest number of tokens of an answer of a server with a model whose own greatest is `max_tokens`.
pub(super) fn most_tokens(max_tokens: usize) -> usize {
    max_tokens.max(MAX_TOKENS)
}

/// Lowers the limits of a decoding function to so many tokens.
fn within(decode_fn: DecodeFn, max_tokens: usize) -> DecodeFn {
    match decode_fn {
        DecodeFn::BeamSearch(search) => {
            DecodeFn::BeamSearch(BeamSearch { max_decode_len: None, ..search })
        }
        DecodeFn::TemperatureSample(sample) => {
            let own = sample.max_decode_steps.unwrap_or(max_tokens);
            let max_decode_steps = Some(own.min(max_tokens));
            DecodeFn::TemperatureSample(TemperatureSample { max_decode_steps, ..sample })
        }
        DecodeFn::Generate(own) => DecodeFn::Generate(own),
    }
}

fn between<T: PartialOrd + std::fmt::Display>(
    name: &str,
    value: Option<T>,
    least: T,
    most: T,
) -> Result<(), String> {
    match value {
        // Not a number is outside of every range.
        Some(value) if !(value >= least && value <= most) => {
            Err(format!("`{name}` is {value}, expected {least} to {most}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(decode_fn: DecodeFn, num_decodes: usize) -> Prediction {
        Prediction {
            decode_fn,
            num_decodes,
            bos_id: 0,
            eos_id: 1,
            prompt_with_targets: false,
            constraint: None,
        }
    }

    fn options(json: &str) -> DecodingOptions {
        serde_json::from_str(json).expect("well formed")
    }

    fn over(json: &str, decode_fn: DecodeFn) -> Result<Decoding, String> {
        options(json).over(&model(decode_fn, 4), 16)
    }

    #[test]
    fn without_options_the_model_decodes_as_gin_says() {
        let decoding = over("{}", DecodeFn::default()).expect("nothing contradicts");
        assert_eq!(decoding.prediction, model(DecodeFn::default(), 4));
        assert_eq!((decoding.num_answers, decoding.max_tokens, decoding.seed), (1, 16, None));
    }

    #[test]
    fn a_temperature_alone_samples_from_all_tokens() {
        let decoding = over(r#"{"temperature": 0.5, "seed": 3}"#, DecodeFn::default());
        let decoding = decoding.expect("nothing contradicts");
        let DecodeFn::TemperatureSample(sample) = decoding.prediction.decode_fn else {
            panic!("it samples")
        };
        assert_eq!((sample.temperature, sample.topk, decoding.seed), (0.5, 0, Some(3)));
        let cut = over(r#"{"topk": 7}"#, DecodeFn::default()).expect("nothing contradicts");
        assert!(matches!(
            cut.prediction.decode_fn,
            DecodeFn::TemperatureSample(TemperatureSample { topk: 7, temperature: 1.0, .. })
        ));
    }

    #[test]
    fn a_search_has_as_many_beams_as_answers() {
        let sampled = || DecodeFn::TemperatureSample(TemperatureSample::default());
        let decoding = over(r#"{"beam": 2, "num_decodes": 3, "seed": 1}"#, sampled());
        let decoding = decoding.expect("nothing contradicts");
        assert!(matches!(decoding.prediction.decode_fn, DecodeFn::BeamSearch(_)));
        assert_eq!((decoding.prediction.num_decodes, decoding.num_answers), (3, 3));
        assert_eq!(decoding.seed, None, "a search draws nothing");
    }

    #[test]
    fn a_server_has_a_greatest_length_of_answers() {
        let asked = options(r#"{"max_tokens": 3000}"#);
        let said = asked.check_room(16).expect_err("it is refused");
        assert!(said.contains("`max_tokens` is 3000, expected 1 to 2048: memory"), "{said}");
        assert_eq!(asked.check_room(4000), Ok(()));
    }

    fn generated(json: &str, own: Generate) -> Decoding {
        over(json, DecodeFn::Generate(own)).expect("nothing contradicts")
    }

    #[test]
    fn flags_win_over_the_file_of_transformers_and_its_filters_remain() {
        let own = Generate { num_beams: 4, no_repeat_ngram_size: 2, ..Generate::default() };
        let found = |json| {
            let decoding = generated(json, own.clone());
            let DecodeFn::Generate(found) = decoding.prediction.decode_fn else {
                panic!("it decodes as transformers does")
            };
            assert_eq!(found.no_repeat_ngram_size, 2);
            (
                found.num_beams,
                found.do_sample,
                decoding.prediction.num_decodes,
                decoding.num_answers,
            )
        };
        assert_eq!(found("{}"), (4, false, 4, 1));
        assert_eq!(found(r#"{"beam": 2, "num_decodes": 3}"#), (3, false, 3, 3));
        assert_eq!(found(r#"{"temperature": 0.5, "num_decodes": 2}"#), (1, true, 2, 2));
        assert_eq!(found(r#"{"temperature": 0}"#), (1, false, 1, 1));
        let sampled =
            generated(r#"{"beam": 3, "alpha": 2}"#, Generate { do_sample: true, ..own.clone() });
        assert!(matches!(
            &sampled.prediction.decode_fn,
            DecodeFn::Generate(Generate {
                do_sample: false,
                num_beams: 3,
                length_penalty: 2.0,
                ..
            })
        ));
        assert!(!sampled.streams() && generated(r#"{"beam": 1}"#, own.clone()).streams());
    }

    #[test]
    fn contradictions_and_ranges_are_told() {
        for (json, part) in [
            (r#"{"beam": 2, "topk": 1}"#, "give those of one of both"),
            (r#"{"topp": 0.5, "topk": 1}"#, "expected one of them"),
            (r#"{"num_decodes": 0}"#, "`num_decodes` is 0, expected 1 to 64"),
            (r#"{"topp": 1.5}"#, "`topp` is 1.5, expected 0 to 1"),
            (r#"{"choices": ["a"], "pattern": "b"}"#, "both given, expected one of them: drop"),
            (r#"{"choices": []}"#, "`choices` has no answers"),
            (r#"{"pattern": "a("}"#, "a(\n     ^\nerror: unclosed group"),
            (r#"{"max_tokens": 0}"#, "`max_tokens` is 0, expected at least 1"),
        ] {
            let said = over(json, DecodeFn::default()).expect_err("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }
}
