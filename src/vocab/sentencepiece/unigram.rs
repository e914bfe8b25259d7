//! The likeliest pieces of a text, by a unigram model. Sources: SentencePiece `unigram_model.cc`
//! (`EncodeOptimized`) with scores of 32 bits, tokenizers `models/unigram/model.rs` with 64 bits, each to its precision.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::thread::LocalKey;

use super::encoder::Unknown;
use super::model_proto::{ModelProto, PieceKind};
use super::normalizer::{SPACE, char_length};
use super::trie::{ROOT, Trie};

/// Difference between the score of an unknown character and that of the least likely piece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// The type of scores, which decides between paths of nearly equal probability.
pub(crate) trait Score: Copy + PartialEq + 'static {
    /// The score of user-defined pieces, which win over any others.
    const USER_DEFINED: Self;
    /// The smallest positive score.
    const LEAST: f64;

    fn wide(self) -> f64;
    fn rounded(score: f64) -> Self;
    /// The memory of this thread for paths.
    fn paths() -> &'static LocalKey<RefCell<Vec<Best<Self>>>>;
}

thread_local! {
    static PATHS_32: RefCell<Vec<Best<f32>>> = const { RefCell::new(Vec::new()) };
    static PATHS_64: RefCell<Vec<Best<f64>>> = const { RefCell::new(Vec::new()) };
}

impl Score for f32 {
    const USER_DEFINED: Self = f32::INFINITY;
    const LEAST: f64 = f32::MIN_POSITIVE as f64;

    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn rounded(score: f64) -> Self {
        score as f32
    }

    fn paths() -> &'static LocalKey<RefCell<Vec<Best<Self>>>> {
        &PATHS_32
    }
}

impl Score for f64 {
    const USER_DEFINED: Self = f64::INFINITY;
    const LEAST: f64 = f64::MIN_POSITIVE;

    fn wide(self) -> f64 {
        self
    }

    fn rounded(score: f64) -> Self {
        score
    }

    fn paths() -> &'static LocalKey<RefCell<Vec<Best<Self>>>> {
        &PATHS_64
    }
}

/// A unigram model.
#[derive(Debug)]
pub(crate) struct Unigram<S = f32> {
    pieces: Trie<Piece<S>>,
    /// The node after a space, with which most pieces begin.
    after_space: Option<u32>,
    /// The highest score of a piece; the smallest positive number if all are negative.
    max_score: S,
    unknown_score: S,
    unknown: Unknown,
}

/// The end of a piece in the trie. It is as small as possible, since the search for pieces waits
/// for memory.
#[derive(Clone, Copy, Debug)]
struct Piece<S> {
    /// Never 0, so that an `Option<Piece>` needs no more memory.
    id_plus_1: NonZeroU32,
    score: S,
}

impl<S: Score> Piece<S> {
    fn new(id: i32, score: S) -> Self {
        let id = u32::try_from(id).expect("ids count from 0");
        Self { id_plus_1: NonZeroU32::MIN.saturating_add(id), score }
    }

    fn id(self) -> i32 {
        self.id_plus_1.get() as i32 - 1
    }
}

/// The best path to a position.
#[derive(Clone, Copy)]
pub(crate) struct Best<S> {
    score: S,
    id: i32,
    /// Start of its last piece; [`UNREACHED`] before there is one.
    start: u32,
}

const UNREACHED: u32 = u32::MAX;

impl Unigram {
    /// The pieces of a model.
    pub(super) fn new(model: &ModelProto<'_>, unknown: Unknown) -> Self {
        let normal = model
            .of_kind(PieceKind::Normal)
            .map(|(piece, id)| (piece.piece, Piece::new(id, piece.score)));
        let user_defined = model
            .of_kind(PieceKind::UserDefined)
            .map(|(piece, id)| (piece.piece, Piece::new(id, f32::USER_DEFINED)));
        let scores: Vec<f32> = model.of_kind(PieceKind::Normal).map(|(it, _)| it.score).collect();
        Self::over(normal.chain(user_defined).collect(), &scores, unknown)
    }
}

impl Unigram<f64> {
    /// Distinct pieces with their ids and scores.
    pub(crate) fn of_pieces(pieces: &[(&str, i32, f64)], unknown: Unknown) -> Self {
        let entries =
            pieces.iter().map(|&(text, id, score)| (text.as_bytes(), Piece::new(id, score)));
        let scores: Vec<f64> = pieces.iter().map(|(_, _, score)| *score).collect();
        Self::over(entries.collect(), &scores, unknown)
    }
}

impl<S: Score> Unigram<S> {
    fn over(entries: Vec<(&[u8], Piece<S>)>, scores: &[S], unknown: Unknown) -> Self {
        let scores = || scores.iter().map(|score| score.wide());
        let pieces = Trie::new(entries);
        Self {
            after_space: pieces.find(SPACE),
            pieces,
            max_score: S::rounded(scores().fold(S::LEAST, f64::max)),
            unknown_score: S::rounded(scores().fold(f64::MAX, f64::min) - UNKNOWN_PENALTY),
            unknown,
        }
    }

    /// Appends the ids of normalized text.
    pub(crate) fn encode_into(&self, normalized: &[u8], ids: &mut Vec<i32>) {
        S::paths().with_borrow_mut(|best| {
            self.find_best(normalized, best);
            self.backtrack(normalized, best, ids);
        });
    }

    /// Finds the best path to every position (Viterbi).
    fn find_best(&self, text: &[u8], best: &mut Vec<Best<S>>) {
        best.clear();
        best.resize(
            text.len() + 1,
            Best { score: S::rounded(0.0), id: self.unknown.id, start: UNREACHED },
        );
        let mut start = 0;
        while start < text.len() {
            let char_end = (start + char_length(text[start])).min(text.len());
            let so_far = best[start].score;
            let has_single = self.extend(text, start, char_end, so_far, best);
            if !has_single {
                let candidate = S::rounded(self.unknown_score.wide() + so_far.wide());
                let target = &mut best[char_end];
                if target.start == UNREACHED || candidate.wide() > target.score.wide() {
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
        so_far: S,
        best: &mut [Best<S>],
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
    fn improve(
        &self,
        node: u32,
        start: usize,
        end: usize,
        so_far: S,
        best: &mut [Best<S>],
    ) -> bool {
        let Some(piece) = self.pieces.value(node) else { return false };
        // Scores of 32 bits are compared in 64, as C++ promotes them.
        let score = match piece.score == S::USER_DEFINED {
            true => S::rounded((end - start) as f64 * self.max_score.wide()).wide() - 0.1,
            false => piece.score.wide(),
        };
        let candidate = score + so_far.wide();
        let target = &mut best[end];
        if target.start == UNREACHED || candidate > target.score.wide() {
            let score = S::rounded(candidate);
            *target = Best { score, id: piece.id(), start: start as u32 };
        }
        true
    }

    fn backtrack(&self, text: &[u8], best: &[Best<S>], ids: &mut Vec<i32>) {
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
