//! Punkt's knowledge of a language: its abbreviations, and words seen at the beginning of sentences and within them.

use std::collections::{HashMap, HashSet};

use crate::error::{DataError, file_error};
use gimlet_storage::Path;

/// Bits of a word's uses: with a capital at the beginning of a sentence, within one, or unknown where; the same with a small
/// letter.
const CAPITAL_WITHIN: u32 = 1 << 2;
const CAPITAL: u32 = 1 << 1 | CAPITAL_WITHIN | 1 << 3;
const SMALL_AT_BEGINNING: u32 = 1 << 4;
pub(super) const SMALL: u32 = SMALL_AT_BEGINNING | 1 << 5 | 1 << 6;

/// Abbreviations of English that rarely end a sentence.
const ABBREVIATIONS: &str = "adj adm adv al apr approx apt assn assoc asst aug ave bldg blvd bros brig ca calif capt cf \
    ch cie cmdr co col colo comdr conn corp cos cpl ct dec del dept dist div dr ed eds e.g elev eq esp est etc ex ext \
    feb ff fig figs fla fr fri ft ga gen gov hon hr hwy i.e inc ind insp jan jr jul jun kan kg ky lb lbs lib \
    lt ltd m maj mfg mgr mich min minn misc mon mr mrs ms mt mts nat nebr nev nov nr oct okla op \
    ore oz p pa ph.d pl pp pres prof pt rd ref rep reps rev rt sec sen sens sep sept sgt sq sr st ste \
    supt tel temp tenn tex thu tue u univ va vol vols vs vt wed wis wk yd yr a.m p.m b.c a.d d.c u.k u.n u.s \
    u.s.a j.r m.d b.a m.a";
/// Words of English that often begin a sentence.
const STARTERS: &str = "a after all although an and as at because before both but during each for from he her here his \
    how however i if in it its last many most mr mrs my no on one only other others our she since so some such that the \
    their then there these they this those though to under until we what when where while who why with yet you";

/// Punkt's knowledge of a language.
#[derive(Debug, Default)]
pub struct Parameters {
    abbreviations: HashSet<String>,
    /// Pairs of words that a period between them does not part.
    pairs: HashSet<(String, String)>,
    starters: HashSet<String>,
    /// The uses of words.
    seen: HashMap<String, u32>,
}

impl Parameters {
    /// English without a trained model: lists of abbreviations and of words that begin sentences. Unlike NLTK's model it has
    /// no pairs, and has seen no words: after an abbreviation only those words begin a sentence, and a name after an initial
    /// never does.
    pub fn english() -> Self {
        let words = |list: &str| list.split_whitespace().map(String::from).collect::<HashSet<_>>();
        let mut abbreviations = words(ABBREVIATIONS);
        // Dots with spaces between them, without the last one.
        abbreviations.insert(". . ".to_string());
        Self { abbreviations, starters: words(STARTERS), ..Self::default() }
    }

    /// Reads the model in a folder of NLTK's data, `tokenizers/punkt_tab/english`.
    ///
    /// # Errors
    /// A file is missing, or is not as NLTK writes it.
    pub fn read(folder: &Path) -> Result<Self, DataError> {
        let lines = |name: &str| -> Result<Vec<String>, DataError> {
            let text = folder.join(name).read_to_string()?;
            Ok(text.split('\n').filter(|line| !line.is_empty()).map(String::from).collect())
        };
        let pairs = |name: &str| -> Result<Vec<(String, String)>, DataError> {
            let pair = |line: String| {
                let (first, second) = line.split_once('\t')?;
                Some((first.to_string(), second.to_string()))
            };
            let found = lines(name)?.into_iter().map(pair).collect::<Option<_>>();
            found.ok_or_else(|| unfit(folder, name))
        };
        let uses = |(word, uses): (String, String)| Some((word, uses.trim().parse().ok()?));
        let seen = pairs("ortho_context.tab")?.into_iter().map(uses).collect::<Option<_>>();
        Ok(Self {
            abbreviations: lines("abbrev_types.txt")?.into_iter().collect(),
            pairs: pairs("collocations.tab")?.into_iter().collect(),
            starters: lines("sent_starters.txt")?.into_iter().collect(),
            seen: seen.ok_or_else(|| unfit(folder, "ortho_context.tab"))?,
        })
    }

    /// Whether a word in small letters, without its period, or its part after the last hyphen is an abbreviation.
    pub(super) fn is_abbreviation(&self, word: &str) -> bool {
        let last = word.rsplit('-').next().unwrap_or(word);
        self.abbreviations.contains(word) || self.abbreviations.contains(last)
    }

    /// Whether a period between two words does not part them.
    pub(super) fn go_together(&self, first: &str, second: &str) -> bool {
        !self.pairs.is_empty() && self.pairs.contains(&(first.to_string(), second.to_string()))
    }

    /// Whether a word often begins a sentence.
    pub(super) fn starts_sentences(&self, word: &str) -> bool {
        self.starters.contains(word)
    }

    /// The uses of a word, as bits.
    pub(super) fn seen(&self, word: &str) -> u32 {
        self.seen.get(word).copied().unwrap_or(0)
    }

    /// Whether the first letter of a text shows that its word begins a sentence, or does not.
    pub(super) fn begins_sentence(&self, word: &str, text: &str) -> Option<bool> {
        let seen = self.seen(word);
        if text.starts_with(char::is_uppercase) && seen & SMALL != 0 && seen & CAPITAL_WITHIN == 0 {
            return Some(true);
        }
        let is_small = text.starts_with(char::is_lowercase);
        (is_small && (seen & CAPITAL != 0 || seen & SMALL_AT_BEGINNING == 0)).then_some(false)
    }
}

fn unfit(folder: &Path, name: &str) -> DataError {
    file_error(&folder.join(name), "it is not a file of punkt as NLTK writes it")
}
