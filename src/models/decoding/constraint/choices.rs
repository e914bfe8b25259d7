//! Given answers as a trie of their tokens.

use super::spec::{Choices, ConstraintError, State, Target};
use crate::vocab::PAD_ID;

/// A node of the trie: the tokens of some answers up to a place.
#[derive(Debug, Default)]
struct Node {
    /// By token, ascending.
    children: Vec<(i64, State)>,
    /// Whether an answer ends here.
    ends: bool,
    /// The least number of tokens to an end, the end token included.
    distance: usize,
}

/// The tokens of given answers.
#[derive(Debug)]
pub(super) struct ChoiceTrie {
    nodes: Vec<Node>,
    max_distance: usize,
    /// The place of the longest answer, and its tokens with the end.
    longest: (String, usize),
}

impl ChoiceTrie {
    /// Encodes the answers as the model's targets are.
    ///
    /// # Errors
    /// An answer is empty, unknown to the vocabulary or changed by it.
    pub(super) fn new(choices: &Choices, target: &Target<'_>) -> Result<Self, ConstraintError> {
        let mut nodes = vec![Node::default()];
        let mut longest = (String::new(), 0);
        for (place, text) in choices.read()? {
            let ids = encoded(&place, &text, target)?;
            if ids.len() >= longest.1 {
                longest = (place, ids.len() + 1);
            }
            insert(&mut nodes, &ids);
        }
        // Children come after their parents.
        for at in (0..nodes.len()).rev() {
            let after = |(_, child): &(i64, State)| nodes[*child as usize].distance + 1;
            let nearest = nodes[at].children.iter().map(after).min();
            nodes[at].distance = if nodes[at].ends { 1 } else { nearest.unwrap_or(1) };
        }
        let max_distance = nodes.iter().map(|node| node.distance).max().unwrap_or(0);
        Ok(Self { nodes, max_distance, longest })
    }

    /// Checks that every answer fits into so many tokens.
    ///
    /// # Errors
    /// The longest one does not.
    pub(super) fn check_room(&self, room: usize) -> Result<(), ConstraintError> {
        let (place, needed) = &self.longest;
        match *needed > room {
            true => {
                Err(ConstraintError::LongChoice { place: place.clone(), needed: *needed, room })
            }
            false => Ok(()),
        }
    }

    pub(super) fn next(&self, state: State, token: i64) -> Option<State> {
        let children = &self.nodes[state as usize].children;
        let at = children.binary_search_by_key(&token, |(token, _)| *token).ok()?;
        Some(children[at].1)
    }

    pub(super) fn distance(&self, state: State) -> usize {
        self.nodes[state as usize].distance
    }

    pub(super) fn max_distance(&self) -> usize {
        self.max_distance
    }

    pub(super) fn each_next(&self, state: State, visit: &mut dyn FnMut(i64, State)) {
        self.nodes[state as usize].children.iter().for_each(|(token, next)| visit(*token, *next));
    }
}

fn insert(nodes: &mut Vec<Node>, ids: &[i32]) {
    let mut at = 0;
    for &id in ids {
        let (token, new) = (i64::from(id), nodes.len());
        let children = &mut nodes[at].children;
        at = match children.binary_search_by_key(&token, |(token, _)| *token) {
            Ok(found) => children[found].1 as usize,
            Err(free) => {
                children.insert(free, (token, new as State));
                nodes.push(Node::default());
                new
            }
        };
    }
    nodes[at].ends = true;
}

/// Returns the tokens of an answer, without the end.
fn encoded(place: &str, text: &str, target: &Target<'_>) -> Result<Vec<i32>, ConstraintError> {
    let vocabulary = target.vocabulary;
    let (ids, place) = (vocabulary.encode(text), place.to_string());
    let text = text.to_string();
    if let Some(&token) = ids.iter().find(|id| target.is_end(**id) || **id == PAD_ID) {
        return Err(ConstraintError::EndInside { place, text, token });
    }
    let read = vocabulary.decode(&ids);
    if ids.iter().any(|id| Some(*id) == vocabulary.unk_id()) {
        let vocabulary = vocabulary.name();
        return Err(ConstraintError::UnknownPiece { place, text, read, vocabulary });
    }
    match ids.is_empty() || read != text {
        true => Err(ConstraintError::Changed { place, text, read }),
        false => Ok(ids),
    }
}
