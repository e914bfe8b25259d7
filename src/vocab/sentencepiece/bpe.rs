//! Byte-pair encoding: neighbouring symbols are merged, the best pair first. Source: SentencePiece
//! `bpe_model.cc`, without its dropout.
//!
//! one, and each thread remembers the ids of encoded words.
//! one, and each thread remembers the ids of words that it has met.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::encoder::{Output, Unknown};
use super::model_proto::{ModelProto, PieceKind};
use super::normalizer::SPACE;
use super::pieces::{Pieces, UserDefined};
use super::word_cache::{WordCache, with_cache};

/// A BPE model.
#[derive(Debug)]
pub(super) struct Bpe {
    pieces: Pieces,
    scores: Vec<f32>,
    /// By id: pieces that only serve to make others and are no result themselves.
    is_unused: Vec<bool>,
    user_defined: Arc<UserDefined>,
    unknown: Unknown,
    boundaries: Boundaries,
    /// The name under which threads remember its words.
    cache: WordCache,
}

/// The boundaries between a space and another character that no piece crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Boundaries {
    before_space: bool,
    after_space: bool,
}

impl Boundaries {
    fn new(model: &ModelProto<'_>) -> Self {
        let mut found = Self { before_space: true, after_space: true };
        for piece in &model.pieces {
            // Whether a split of unused pieces is remembered depends on the whole text.
            if piece.kind == PieceKind::Unused {
                return Self { before_space: false, after_space: false };
            }
            for i in 1..piece.piece.len() {
                let (before, after) = piece.piece.split_at(i);
                let starts = after.starts_with(SPACE);
                let ends = before.ends_with(SPACE);
                found.before_space &= !starts || ends;
                found.after_space &= !ends || starts;
            }
        }
        found
    }

    /// Returns the length of the first part of a text that may be encoded alone.
    fn first_part(self, text: &[u8]) -> usize {
        let Self { before_space, after_space } = self;
        if !before_space && !after_space {
            return text.len();
        }
        let mut in_space = text.starts_with(SPACE);
        let mut at = if in_space { SPACE.len() } else { 1 };
        while at < text.len() {
            let is_space = text[at] == SPACE[0] && text[at..].starts_with(SPACE);
            let cuts = if is_space { before_space } else { after_space };
            if is_space != in_space && cuts {
                return at;
            }
            in_space = is_space;
            at += if is_space { SPACE.len() } else { 1 };
        }
        text.len()
    }
}

/// A character, a user-defined piece, or a merge of symbols.
#[derive(Clone, Copy)]
struct Symbol {
    start: u32,
    /// Equal to `start` once the symbol is part of another.
    end: u32,
    /// Neighbours; [`NONE`] at the ends.
    previous: u32,
    next: u32,
    /// The node of its text in the trie of pieces; [`NONE`] if no piece begins with it.
    node: u32,
    is_frozen: bool,
}

const NONE: u32 = u32::MAX;

impl Symbol {
    fn length(self) -> u32 {
        self.end - self.start
    }
}

/// Two neighbours that form a piece.
#[derive(Clone, Copy)]
struct Pair {
    score: f32,
    left: u32,
    right: u32,
    /// Length of both together when the pair was found.
    length: u32,
    node: u32,
}

impl Ord for Pair {
    /// Orders by score, the best first, then from the left.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.partial_cmp(&other.score).unwrap_or(Ordering::Equal);
        by_score.then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

#[derive(Default)]
struct Scratch {
    symbols: Vec<Symbol>,
    agenda: BinaryHeap<Pair>,
    /// Unused pieces and the length of the left half of their last merge.
    splits: Vec<(i32, u32)>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Bpe {
    /// The pieces of a model.
    pub(super) fn new(
        model: &ModelProto<'_>,
        user_defined: Arc<UserDefined>,
        unknown: Unknown,
    ) -> Self {
        Self {
            pieces: Pieces::new(model),
            scores: model.pieces.iter().map(|piece| piece.score).collect(),
            is_unused: model.pieces.iter().map(|piece| piece.kind == PieceKind::Unused).collect(),
            user_defined,
            unknown,
            boundaries: Boundaries::new(model),
            cache: WordCache::new(),
        }
    }

    /// Appends the ids of normalized text.
    pub(super) fn encode_into(&self, mut text: &[u8], ids: &mut Vec<i32>) {
        let mut output = Output::new(&self.unknown, ids);
        with_cache(self.cache, |cache| {
            while !text.is_empty() {
                let (part, rest) = text.split_at(self.boundaries.first_part(text));
                text = rest;
                if let Some(ids) = cache.get(part) {
                    output.extend_known(ids);
                    continue;
                }
                let first = output.ids().len();
                self.encode_part(part, &mut output);
                let found = &output.ids()[first..];
                // The ids of an unknown piece depend on its neighbour, so they are not remembered.
                if !found.is_empty() && !found.contains(&self.unknown.id) {
                    cache.insert(part, found);
                }
            }
        });
    }

    fn encode_part(&self, text: &[u8], output: &mut Output<'_>) {
        SCRATCH.with_borrow_mut(|scratch| {
            self.split(text, scratch);
            for right in 1..scratch.symbols.len() as u32 {
                self.consider(text, right - 1, right, scratch);
            }
            while let Some(pair) = scratch.agenda.pop() {
                self.merge(text, pair, scratch);
            }
            let mut at = 0;
            while let Some(&symbol) = scratch.symbols.get(at as usize) {
                let piece = &text[symbol.start as usize..symbol.end as usize];
                self.finish(piece, &scratch.splits, output);
                at = symbol.next;
            }
        });
    }

    /// Splits text into the symbols with which merging begins.
    fn split(&self, text: &[u8], scratch: &mut Scratch) {
        let Scratch { symbols, agenda, splits } = scratch;
        symbols.clear();
        agenda.clear();
        splits.clear();
        let mut start = 0;
        while start < text.len() {
            let (length, is_frozen) = self.user_defined.symbol(&text[start..]);
            let end = start + length;
            let index = symbols.len() as u32;
            symbols.push(Symbol {
                start: start as u32,
                end: end as u32,
                previous: index.wrapping_sub(1),
                next: if end < text.len() { index + 1 } else { NONE },
                node: self.pieces.pieces.find(&text[start..end]).unwrap_or(NONE),
                is_frozen,
            });
            start = end;
        }
    }

    /// Adds two neighbours to the agenda if they make a piece.
    fn consider(&self, text: &[u8], left: u32, right: u32, scratch: &mut Scratch) {
        let Scratch { symbols, agenda, splits } = scratch;
        let (Some(&a), Some(&b)) = (symbols.get(left as usize), symbols.get(right as usize)) else {
            return;
        };
        if a.is_frozen || b.is_frozen || a.node == NONE {
            return;
        }
        let trie = &self.pieces.pieces;
        let mut bytes = text[b.start as usize..b.end as usize].iter();
        let Some(node) = bytes.try_fold(a.node, |node, &byte| trie.step(node, byte)) else {
            return;
        };
        let Some(id) = trie.value(node).map(|id| id.get()) else { return };
        let score = self.scores[id as usize];
        agenda.push(Pair { score, left, right, length: a.length() + b.length(), node });
        if self.is_unused[id as usize] {
            splits.push((id, a.length()));
        }
    }

    /// Merges a pair, unless one of its symbols has been merged since.
    fn merge(&self, text: &[u8], pair: Pair, scratch: &mut Scratch) {
        let Pair { left, right, length, node, .. } = pair;
        let (a, b) = (scratch.symbols[left as usize], scratch.symbols[right as usize]);
        if a.length() == 0 || b.length() == 0 || a.length() + b.length() != length {
            return;
        }
        scratch.symbols[left as usize] = Symbol { end: b.end, next: b.next, node, ..a };
        scratch.symbols[right as usize].end = b.start;
        if let Some(next) = scratch.symbols.get_mut(b.next as usize) {
            next.previous = left;
        }
        self.consider(text, a.previous, left, scratch);
        self.consider(text, left, b.next, scratch);
    }

    /// Emits a symbol; unused pieces are split in the same way as they were merged.
    fn finish(&self, piece: &[u8], splits: &[(i32, u32)], output: &mut Output<'_>) {
        let id = self.pieces.id(piece);
        let split = id.filter(|&id| self.is_unused[id as usize]).and_then(|id| {
            splits.iter().rev().find(|(of, _)| *of == id).map(|(_, length)| *length as usize)
        });
        match split {
            Some(length) => {
                self.finish(&piece[..length], splits, output);
                self.finish(&piece[length..], splits, output);
            }
            None => output.push(id, piece),
        }
    }
}
