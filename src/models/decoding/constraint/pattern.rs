//! A regular expression as an automaton over the pieces of a vocabulary.
//!
//! `regex-automata` has the automaton over bytes, which it determinizes where a text leads. Before decoding, all states
//! that pieces reach are explored once, along a trie of the pieces, so that those without a way to an end are never
//! entered and the shortest way of the others is known. outlines-core and llguidance do similar.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

use super::pieces::Pieces;
use super::spec::{ConstraintError, State, Target, parse};
use crate::vocab::PAD_ID;

/// Greatest size in bytes of the automaton without determinism, which is as large as the expression without repetitions.
const MAX_NFA_BYTES: usize = 1 << 24;

/// Greatest size in bytes of the automaton over bytes.
const MAX_BYTES: usize = 1 << 26;

/// Greatest number of nodes of the trie of pieces that the exploration visits: some seconds.
const MAX_VISITS: usize = 1 << 28;

/// The distance of a state without a way to an end.
const NEVER: u32 = u32::MAX;

/// The texts of pieces, which depend on those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// At the beginning: a first space is dropped.
    First,
    /// After a space that was dropped. Vocabularies differ in the treatment of a second one, which is not allowed.
    AfterSilent,
    Later,
}

/// A state over pieces.
#[derive(Clone, Copy, Debug)]
struct Explored {
    bytes: LazyStateID,
    phase: Phase,
    /// The least number of tokens to an end, the end token included.
    distance: u32,
}

/// The automaton over bytes, and its states so far.
struct ByteAutomaton {
    dfa: DFA,
    cache: Mutex<Cache>,
}

/// The automaton over pieces.
pub(super) struct PatternAutomaton {
    bytes: ByteAutomaton,
    pieces: Pieces,
    states: Vec<Explored>,
    numbers: HashMap<(LazyStateID, Phase), State>,
    max_distance: usize,
}

impl fmt::Debug for PatternAutomaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PatternAutomaton({} states)", self.states.len())
    }
}

impl PatternAutomaton {
    /// Explores the states of an expression over the pieces of a vocabulary. Unknown, padding, control and end tokens and
    /// sentinels are no pieces.
    ///
    /// # Errors
    /// The expression is not valid or too large, no text of the vocabulary matches it, or the vocabulary has no pieces.
    pub(super) fn new(pattern: &str, target: &Target<'_>) -> Result<Self, ConstraintError> {
        parse(pattern)?;
        let vocabulary = target.vocabulary;
        let is_left_out = |id| id == PAD_ID || Some(id) == vocabulary.unk_id() || target.is_end(id);
        let pieces = Pieces::new(vocabulary, is_left_out).map_err(|reason| {
            ConstraintError::NoPieces { vocabulary: vocabulary.name(), reason }
        })?;
        let bytes = ByteAutomaton::new(pattern)?;
        let mut automaton =
            Self { bytes, pieces, states: Vec::new(), numbers: HashMap::new(), max_distance: 0 };
        automaton.explore()?;
        match automaton.states[0].distance {
            NEVER => Err(ConstraintError::NoMatch {
                pattern: pattern.to_string(),
                vocabulary: vocabulary.name(),
            }),
            _ => Ok(automaton),
        }
    }

    /// Finds all states that pieces reach, and their distances.
    fn explore(&mut self) -> Result<(), ConstraintError> {
        let (start, mut visits) = (self.bytes.start()?, 0);
        self.number(start, Phase::First);
        let mut before: Vec<Vec<State>> = vec![Vec::new()];
        let mut at = 0;
        while at < self.states.len() {
            visits += self.trie_len(self.states[at].phase);
            if visits > MAX_VISITS {
                return Err(ConstraintError::TooLarge);
            }
            let mut found = HashSet::new();
            self.walk(at as State, |_, bytes, phase| {
                found.insert((bytes, phase));
            })?;
            for (bytes, phase) in found {
                let number = self.number(bytes, phase) as usize;
                before.resize(self.states.len(), Vec::new());
                before[number].push(at as State);
            }
            at += 1;
        }
        let mut queue = VecDeque::new();
        for number in 0..self.states.len() {
            if self.bytes.accepts(self.states[number].bytes)? {
                self.states[number].distance = 1;
                queue.push_back(number);
            }
        }
        while let Some(number) = queue.pop_front() {
            let distance = self.states[number].distance;
            self.max_distance = distance as usize;
            for &previous in &before[number] {
                let previous = previous as usize;
                if self.states[previous].distance == NEVER {
                    self.states[previous].distance = distance + 1;
                    queue.push_back(previous);
                }
            }
        }
        Ok(())
    }

    /// Returns the number of a state, which is the next one for a new state.
    fn number(&mut self, bytes: LazyStateID, phase: Phase) -> State {
        let next = self.states.len() as State;
        let number = *self.numbers.entry((bytes, phase)).or_insert(next);
        if number == next {
            self.states.push(Explored { bytes, phase, distance: NEVER });
        }
        number
    }

    fn trie_len(&self, phase: Phase) -> usize {
        match phase {
            Phase::First => self.pieces.first.len(),
            Phase::AfterSilent | Phase::Later => self.pieces.later.len(),
        }
    }

    /// Calls `visit` with the ids that may follow a state in some text, and the state after them.
    fn walk(
        &self,
        state: State,
        mut visit: impl FnMut(&[i32], LazyStateID, Phase),
    ) -> Result<(), ConstraintError> {
        let Explored { bytes: start, phase, .. } = self.states[state as usize];
        if phase == Phase::First && !self.pieces.silent.is_empty() {
            visit(&self.pieces.silent, start, Phase::AfterSilent);
        }
        let trie = match phase {
            Phase::First => &self.pieces.first,
            Phase::AfterSilent | Phase::Later => &self.pieces.later,
        };
        let mut cache = self.bytes.cache();
        trie.walk(
            start,
            |depth, state, byte| match phase == Phase::AfterSilent && depth == 0 && byte == b' ' {
                true => Ok(None),
                false => self.bytes.step(&mut cache, state, byte),
            },
            |ids, bytes| visit(ids, bytes, Phase::Later),
        )
    }

    pub(super) fn next(&self, state: State, token: i64) -> Option<State> {
        let Explored { bytes, phase, .. } = self.states[state as usize];
        let text = match phase {
            Phase::First => self.pieces.first_text(token)?,
            Phase::AfterSilent | Phase::Later => self.pieces.later_text(token)?,
        };
        let next_phase = if text.is_empty() { Phase::AfterSilent } else { Phase::Later };
        if phase == Phase::AfterSilent && text.first() == Some(&b' ') {
            return None;
        }
        let mut cache = self.bytes.cache();
        let mut step = |bytes, byte: &u8| self.bytes.step(&mut cache, bytes, *byte).ok().flatten();
        let after = text.iter().try_fold(bytes, &mut step)?;
        let number = *self.numbers.get(&(after, next_phase))?;
        (self.states[number as usize].distance != NEVER).then_some(number)
    }

    pub(super) fn distance(&self, state: State) -> usize {
        self.states[state as usize].distance as usize
    }

    pub(super) fn max_distance(&self) -> usize {
        self.max_distance
    }

    pub(super) fn each_next(&self, state: State, visit: &mut dyn FnMut(i64, State)) {
        let walked = self.walk(state, |ids, bytes, phase| {
            let Some(&number) = self.numbers.get(&(bytes, phase)) else { return };
            if self.states[number as usize].distance != NEVER {
                ids.iter().for_each(|id| visit(i64::from(*id), number));
            }
        });
        walked.expect("the exploration has made every state that pieces reach");
    }
}

impl ByteAutomaton {
    fn new(pattern: &str) -> Result<Self, ConstraintError> {
        let config = thompson::Config::new().nfa_size_limit(Some(MAX_NFA_BYTES));
        let nfa = NFA::compiler().configure(config).build(pattern).map_err(|error| match error
            .size_limit()
        {
            Some(_) => ConstraintError::TooLarge,
            None => ConstraintError::Invalid { reason: error.to_string() },
        })?;
        if nfa.look_set_any().contains_word_unicode() {
            let reason =
                "it has a boundary of Unicode's words, expected one of ASCII's: `(?-u:\\b)`";
            return Err(ConstraintError::Invalid { reason: reason.to_string() });
        }
        // All matches count, not the leftmost alone: `a|ab` has two.
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(MAX_BYTES)
            .minimum_cache_clear_count(Some(0));
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa);
        let dfa = dfa.map_err(|_| ConstraintError::TooLarge)?;
        let cache = Mutex::new(dfa.create_cache());
        Ok(Self { dfa, cache })
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<LazyStateID, ConstraintError> {
        let config = start::Config::new().anchored(Anchored::Yes);
        let found = self.dfa.start_state(&mut self.cache(), &config);
        found.map_err(|_| ConstraintError::TooLarge)
    }

    /// Returns the state after a byte, if a text may go on so.
    fn step(
        &self,
        cache: &mut Cache,
        state: LazyStateID,
        byte: u8,
    ) -> Result<Option<LazyStateID>, ConstraintError> {
        let next =
            self.dfa.next_state(cache, state, byte).map_err(|_| ConstraintError::TooLarge)?;
        Ok((!next.is_dead() && !next.is_quit()).then_some(next))
    }

    /// Whether a text may end in a state.
    fn accepts(&self, state: LazyStateID) -> Result<bool, ConstraintError> {
        let end = self.dfa.next_eoi_state(&mut self.cache(), state);
        end.map(|end| end.is_match()).map_err(|_| ConstraintError::TooLarge)
    }
}
