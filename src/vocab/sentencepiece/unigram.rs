//! The likeliest pieces of a text, by a unigram model. Source: SentencePiece `unigram_model.cc`
//! (`EncodeOptimized`), to the precision of its scores.

use std::cell::RefCell;
use std::num::NonZeroU32;

use super::encoder::Unknown;
use super::model_proto::{ModelProto, PieceKind};
use super::normalizer::{SPACE, char_length};
use super::trie::{ROOT, Trie};

/// Difference between the score of an unknown character and that of the least likely piece.
const UNKNOWN_PENALTY: f32 = 10.0;

/// A unigram model.
#[derive(Debug)]
pub(super) struct Unigram {
    pieces: Trie<Piece>,
    /// The node after a space, with which most pieces begin.
    after_space: Option<u32>,
    /// The highest score of a piece; the smallest positive number if all are negative.
    max_score: f32,
    unknown_score: f32,
    unknown: Unknown,
}

/// The end of a piece in the trie. It is as small as possible, since the search for pieces waits
/// for memory.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Never 0, so that an `Option<Piece>` needs no more memory.
    id_plus_1: NonZeroU32,
    /// [`USER_DEFINED`] for user-defined pieces, which win over any others.
    score: f32,
}

const USER_DEFINED: f32 = f32::INFINITY;

impl Piece {
    fn new(id: i32, score: f32) -> Self {
        let id = u32::try_from(id).expect("ids count from 0");
        Self { id_plus_1: NonZeroU32::MIN.saturating_add(id), score }
    }

    fn id(self) -> i32 {
        self.id_plus_1.get() as i32 - 1
    }
}

/// The best path to a position.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    id: i32,
    /// Start of its last piece; [`UNREACHED`] before there is one.
    start: u32,
}

const UNREACHED: u32 = u32::MAX;

thread_local! {
    static BEST: RefCell<Vec<Best>> = const { RefCell::new(Vec::new()) };
}

impl Unigram {
    /// The pieces of a model.
    pub(super) fn new(model: &ModelProto<'_>, unknown: Unknown) -> Self {
        let normal = model
            .of_kind(PieceKind::Normal)
            .map(|(piece, id)| (piece.piece, Piece::new(id, piece.score)));
        let user_defined = model
            .of_kind(PieceKind::UserDefined)
            .map(|(piece, id)| (piece.piece, Piece::new(id, USER_DEFINED)));
        let scores = || model.of_kind(PieceKind::Normal).map(|(piece, _)| piece.score);
        let pieces = Trie::new(normal.chain(user_defined).collect());
        Self {
            after_space: pieces.find(SPACE),
            pieces,
            max_score: scores().fold(f32::MIN_POSITIVE, f32::max),
            unknown_score: scores().fold(f32::MAX, f32::min) - UNKNOWN_PENALTY,
            unknown,
        }
    }

    /// Appends the ids of normalized text.
    pub(super) fn encode_into(&self, normalized: &[u8], ids: &mut Vec<i32>) {
        BEST.with_borrow_mut(|best| {
            self.find_best(normalized, best);
            self.backtrack(normalized, best, ids);
        });
    }

    /// Finds the best path to every position (Viterbi).
    fn find_best(&self, text: &[u8], best: &mut Vec<Best>) {
        best.clear();
        best.resize(text.len() + 1, Best { score: 0.0, id: self.unknown.id, start: UNREACHED });
        let mut start = 0;
        while start < text.len() {
            let char_end = (start + char_length(text[start])).min(text.len());
            let so_far = best[start].score;
            let has_single = self.extend(text, start, char_end, so_far, best);
            if !has_single {
                let candidate = self.unknown_score + so_far;
                let target = &mut best[char_end];
                if target.start == UNREACHED || candidate > target.score {
                    *target = Best { score: candidate, id: self.unknown.id, start: start as u32 };
                }
            }
            start = char_end;
        }
    }

    /// Tries every piece that starts at `start`; returns whether one is a single character.
    #[inline]
    fn extend(
        &self,
        text: &[u8],
        start: usize,
        char_end: usize,
        so_far: f32,
        best: &mut [Best],
    ) -> bool {
        let mut has_single = false;
        let (mut node, mut end) = (ROOT, start);
        if let Some(after_space) = self.after_space
            && text[start..].starts_with(SPACE)
        {
            (node, end) = (after_space, char_end);
            has_single = self.improve(node, start, end, so_far, best);
        }
        while let Some(&byte) = text.get(end)
            && let Some(next) = self.pieces.step(node, byte)
        {
            (node, end) = (next, end + 1);
            has_single |= self.improve(node, start, end, so_far, best) && end == char_end;
        }
        has_single
    }

    /// Uses the piece that ends at `node`, if there is one and it is better.
    #[inline]
    fn improve(&self, node: u32, start: usize, end: usize, so_far: f32, best: &mut [Best]) -> bool {
        let Some(piece) = self.pieces.value(node) else { return false };
        // Scores are stored in 32 bits and compared in 64, as C++ promotes them.
        let score = match piece.score {
            USER_DEFINED => f64::from((end - start) as f32 * self.max_score) - 0.1,
            score => f64::from(score),
        };
        let candidate = score + f64::from(so_far);
        let target = &mut best[end];
        if target.start == UNREACHED || candidate > f64::from(target.score) {
            *target = Best { score: candidate as f32, id: piece.id(), start: start as u32 };
        }
        true
    }

    fn backtrack(&self, text: &[u8], best: &[Best], ids: &mut Vec<i32>) {
        let first = ids.len();
        let mut end = text.len();
        let mut after_unknown = false;
        while end > 0 {
            let Best { id, start, .. } = best[end];
            let is_unknown = id == self.unknown.id;
            match &self.unknown.byte_ids {
                Some(byte_ids) if is_unknown => {
                    let bytes = text[start as usize..end].iter().rev();
                    ids.extend(bytes.map(|&byte| byte_ids[usize::from(byte)]));
                }
                // Adjacent unknown characters are one unknown piece.
                _ if is_unknown && after_unknown => {}
                _ => ids.push(id),
            }
            after_unknown = is_unknown;
            end = start as usize;
        }
        ids[first..].reverse();
    }
}
