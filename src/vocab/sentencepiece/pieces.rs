//! The pieces of a model, found by their text.

use std::num::NonZeroU32;

use super::model_proto::{ModelProto, PieceKind};
use super::normalizer::char_length;
use super::trie::{ROOT, Trie};

/// An id with a spare value for `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(NonZeroU32);

impl Id {
    fn new(id: i32) -> Self {
        let id = u32::try_from(id).expect("ids count from 0");
        Self(NonZeroU32::MIN.saturating_add(id))
    }

    /// The id itself.
    pub(super) fn get(self) -> i32 {
        self.0.get() as i32 - 1
    }
}

/// Texts that are one symbol at any place.
#[derive(Debug)]
pub(super) struct UserDefined(Option<Trie<()>>);

impl UserDefined {
    /// Collects those of a model.
    pub(super) fn new(model: &ModelProto<'_>) -> Self {
        let pieces = model.of_kind(PieceKind::UserDefined);
        let entries: Vec<(&[u8], ())> = pieces.map(|(piece, _)| (piece.piece, ())).collect();
        Self((!entries.is_empty()).then(|| Trie::new(entries)))
    }

    /// Whether one of the texts may begin with this byte.
    pub(super) fn begins(&self, byte: u8) -> bool {
        self.0.as_ref().is_some_and(|trie| trie.step(ROOT, byte).is_some())
    }

    /// Returns the length of the longest of these texts at the beginning of `text`.
    pub(super) fn longest(&self, text: &[u8]) -> Option<usize> {
        let trie = self.0.as_ref()?;
        let mut node = ROOT;
        let mut longest = None;
        for (i, &byte) in text.iter().enumerate() {
            let Some(next) = trie.step(node, byte) else { break };
            node = next;
            if trie.value(node).is_some() {
                longest = Some(i + 1);
            }
        }
        longest
    }

    /// Returns the length of the first symbol of a text, and whether it is one of these.
    pub(super) fn symbol(&self, text: &[u8]) -> (usize, bool) {
        match self.longest(text) {
            Some(length) => (length, true),
            None => (char_length(text[0]).min(text.len()), false),
        }
    }
}

/// Ids by text. Source: SentencePiece `model_interface.cc` (`PieceToId`).
#[derive(Debug)]
pub(super) struct Pieces {
    /// Control pieces, the unknown piece and bytes, which come first.
    reserved: Trie<Id>,
    /// All others.
    pub pieces: Trie<Id>,
}

impl Pieces {
    /// Collects those of a model.
    pub(super) fn new(model: &ModelProto<'_>) -> Self {
        let is_reserved = |kind: PieceKind| {
            matches!(kind, PieceKind::Control | PieceKind::Unknown | PieceKind::Byte)
        };
        let (reserved, pieces): (Vec<_>, Vec<_>) =
            model.pieces.iter().zip(0..).partition(|(piece, _)| is_reserved(piece.kind));
        let trie = |pieces: Vec<(&super::model_proto::PieceProto<'_>, i32)>| {
            Trie::new(pieces.iter().map(|(piece, id)| (piece.piece, Id::new(*id))).collect())
        };
        Self { reserved: trie(reserved), pieces: trie(pieces) }
    }

    /// Returns the id of a text that is a piece.
    pub(super) fn id(&self, text: &[u8]) -> Option<i32> {
        let find = |trie: &Trie<Id>| trie.find(text).and_then(|node| trie.value(node));
        find(&self.reserved).or_else(|| find(&self.pieces)).map(Id::get)
    }
}
