//! Decoding within a set of answers: the lines of a file, or the texts that match a regular expression.
//!
//! A set is an automaton over the tokens of the model: [`ChoiceTrie`] for given answers, as GENRE has it (De Cao et al.
//! 2021, arXiv:2010.00904), [`PatternAutomaton`] for an expression. [`Constraint`] says which tokens may follow those
//! of an answer; `allowed_tokens` makes all others impossible.

mod choices;
mod pattern;
mod pieces;
mod spec;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use choices::ChoiceTrie;
use pattern::PatternAutomaton;

pub use spec::{AnswerSet, AnswerSetParameters, Choices, ConstraintError, State, Target};

/// The greatest number of ids that a constraint keeps: 64 MiB.
const MAX_KEPT_IDS: usize = 1 << 23;

/// The automaton of a set of answers. Every state of it can still end.
#[derive(Debug)]
enum Automaton {
    Choices(ChoiceTrie),
    Pattern(Box<PatternAutomaton>),
}

impl Automaton {
    const START: State = 0;

    /// The state after one more token; `None` if no answer has it there.
    fn next(&self, state: State, token: i64) -> Option<State> {
        match self {
            Self::Choices(trie) => trie.next(state, token),
            Self::Pattern(pattern) => pattern.next(state, token),
        }
    }

    /// The least number of tokens with which an answer ends from here, its end token included.
    fn distance(&self, state: State) -> usize {
        match self {
            Self::Choices(trie) => trie.distance(state),
            Self::Pattern(pattern) => pattern.distance(state),
        }
    }

    /// The greatest of all distances.
    fn max_distance(&self) -> usize {
        match self {
            Self::Choices(trie) => trie.max_distance(),
            Self::Pattern(pattern) => pattern.max_distance(),
        }
    }

    /// Calls `visit` with each token, except the end, that may follow, and the state after it.
    fn each_next(&self, state: State, visit: &mut dyn FnMut(i64, State)) {
        match self {
            Self::Choices(trie) => trie.each_next(state, visit),
            Self::Pattern(pattern) => pattern.each_next(state, visit),
        }
    }
}

/// The tokens that were found so far.
#[derive(Default)]
struct Kept {
    /// By state and room.
    ids: HashMap<(State, usize), Arc<[i64]>>,
    /// Number of ids, with [`ENTRY_SIZE`] for each entry.
    size: usize,
}

/// The memory of an entry without its ids, as a number of ids.
const ENTRY_SIZE: usize = 8;

/// The tokens that may follow those of an answer, so that it becomes one of a set.
pub struct Constraint {
    set: AnswerSet,
    automaton: Automaton,
    ends: Vec<i64>,
    /// Up to [`MAX_KEPT_IDS`].
    kept: Mutex<Kept>,
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.set.fmt(f)
    }
}

/// Constraints of equal sets are equal: those who compare them have one vocabulary.
impl PartialEq for Constraint {
    fn eq(&self, other: &Self) -> bool {
        self.set == other.set
    }
}

impl Constraint {
    /// Builds the automaton of a set over the tokens of answers.
    ///
    /// # Errors
    /// See [`ConstraintError`].
    pub fn new(set: &AnswerSet, target: &Target<'_>) -> Result<Self, ConstraintError> {
        let automaton = match set {
            AnswerSet::Choices(choices) => Automaton::Choices(ChoiceTrie::new(choices, target)?),
            AnswerSet::Pattern(pattern) => {
                Automaton::Pattern(Box::new(PatternAutomaton::new(pattern, target)?))
            }
        };
        let ends = target.silent_ends();
        if ends.is_empty() {
            return Err(ConstraintError::NoEnd { ends: target.ends.to_vec() });
        }
        Ok(Self { set: set.clone(), automaton, ends, kept: Mutex::default() })
    }

    /// Checks that answers fit into so many tokens, their end included.
    ///
    /// # Errors
    /// A given answer is longer, or every text that matches the expression is.
    pub fn check_room(&self, room: usize) -> Result<(), ConstraintError> {
        match &self.automaton {
            Automaton::Choices(trie) => trie.check_room(room),
            Automaton::Pattern(pattern) => match pattern.distance(Automaton::START) {
                needed if needed > room => Err(ConstraintError::NoRoom { needed, room }),
                _ => Ok(()),
            },
        }
    }

    /// The least number of tokens of an answer, its end included.
    pub fn shortest(&self) -> usize {
        self.automaton.distance(Automaton::START)
    }

    /// The state after the tokens of an answer; `None` after its end.
    pub fn state(&self, tokens: &[i64]) -> Option<State> {
        tokens.iter().try_fold(Automaton::START, |state, token| self.automaton.next(state, *token))
    }

    /// The part of the room for more tokens that makes a difference: from the greatest distance on, more makes none.
    pub fn room(&self, room: usize) -> usize {
        room.min(self.automaton.max_distance() + 1)
    }

    /// The tokens that may follow, such that the answer still ends within `room` tokens, the next one included.
    pub fn allowed(&self, state: State, room: usize) -> Arc<[i64]> {
        let key = (state, self.room(room));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.ids.get(&key) {
            return Arc::clone(found);
        }
        let mut ids = Vec::new();
        self.automaton.each_next(state, &mut |token, next| {
            if self.automaton.distance(next) < room {
                ids.push(token);
            }
        });
        if self.automaton.distance(state) == 1 {
            ids.extend(&self.ends);
        }
        let ids: Arc<[i64]> = ids.into();
        if kept.size + ids.len() > MAX_KEPT_IDS {
            *kept = Kept::default();
        }
        kept.size += ids.len() + ENTRY_SIZE;
        kept.ids.insert(key, Arc::clone(&ids));
        ids
    }
}

/// The constraints of one vocabulary: those of the last sets are kept, since requests repeat them.
#[derive(Debug, Default)]
pub struct Constraints(Mutex<Vec<Arc<Constraint>>>);

impl Constraints {
    const MOST: usize = 16;

    /// Returns the constraint of a set.
    ///
    /// # Errors
    /// See [`ConstraintError`].
    pub fn of(
        &self,
        set: &AnswerSet,
        target: &Target<'_>,
    ) -> Result<Arc<Constraint>, ConstraintError> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().iter().find(|constraint| constraint.set == *set) {
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(Constraint::new(set, target)?);
        let mut kept = kept();
        if kept.len() == Self::MOST {
            kept.remove(0);
        }
        kept.push(Arc::clone(&made));
        Ok(made)
    }
}

#[cfg(test)]
mod tests;
