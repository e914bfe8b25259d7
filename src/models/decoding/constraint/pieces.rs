//! The pieces of a vocabulary as a trie of their bytes, along which an automaton over bytes runs.

use crate::vocab::Vocabulary;

/// A byte of some pieces. Its descendants follow it in the list.
#[derive(Clone, Copy, Debug)]
struct Node {
    byte: u8,
    /// Number of bytes before it.
    depth: u16,
    /// Index after the last descendant.
    end: u32,
    /// The ids whose bytes end here are those up to this index, from that of the node before.
    ids_end: u32,
}

/// Ids by their bytes, in the order of the bytes.
#[derive(Debug, Default)]
pub(super) struct PieceTrie {
    nodes: Vec<Node>,
    ids: Vec<i32>,
    max_depth: usize,
}

/// The pieces of a vocabulary.
#[derive(Debug)]
pub(super) struct Pieces {
    /// At the beginning of a text. Those without bytes there are in `silent`.
    pub first: PieceTrie,
    /// After others.
    pub later: PieceTrie,
    /// Ids that add nothing at the beginning, such as that of a space.
    pub silent: Vec<i32>,
    /// The bytes of each id at the beginning, and after others; none for ids that stand for no text.
    texts: Vec<Option<[Box<[u8]>; 2]>>,
}

impl Pieces {
    /// Collects the ids that stand for text and are not left out.
    ///
    /// # Errors
    /// The reason for which the vocabulary has none.
    pub(super) fn new(
        vocabulary: &dyn Vocabulary,
        is_left_out: impl Fn(i32) -> bool,
    ) -> Result<Self, String> {
        let (mut first, mut later, mut silent) = (Vec::new(), Vec::new(), Vec::new());
        let mut texts = Vec::new();
        for (id, text) in (0..).zip(vocabulary.piece_texts()?) {
            let text = text.filter(|text| !text.later.is_empty() && !is_left_out(id));
            if let Some(text) = &text {
                later.push((text.later.clone(), id));
                match text.first.is_empty() {
                    true => silent.push(id),
                    false => first.push((text.first.clone(), id)),
                }
            }
            texts.push(text.map(|text| [text.first.into(), text.later.into()]));
        }
        Ok(Self { first: PieceTrie::new(first), later: PieceTrie::new(later), silent, texts })
    }

    /// Returns the bytes of an id at the beginning.
    pub(super) fn first_text(&self, id: i64) -> Option<&[u8]> {
        self.text(id).map(|[first, _]| &first[..])
    }

    /// Returns the bytes of an id after others.
    pub(super) fn later_text(&self, id: i64) -> Option<&[u8]> {
        self.text(id).map(|[_, later]| &later[..])
    }

    fn text(&self, id: i64) -> Option<&[Box<[u8]>; 2]> {
        self.texts.get(usize::try_from(id).ok()?)?.as_ref()
    }
}

impl PieceTrie {
    /// Sorts pieces, none of which is empty.
    fn new(mut pieces: Vec<(Vec<u8>, i32)>) -> Self {
        pieces.sort_unstable();
        let mut trie = Self::default();
        let mut path: Vec<usize> = Vec::new();
        let mut before: &[u8] = &[];
        for (bytes, id) in &pieces {
            let shared = before.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            trie.close(&mut path, shared);
            for (depth, byte) in bytes.iter().enumerate().skip(shared) {
                path.push(trie.nodes.len());
                let (depth, ids_end) = (depth as u16, trie.ids.len() as u32);
                trie.nodes.push(Node { byte: *byte, depth, end: 0, ids_end });
            }
            trie.ids.push(*id);
            let last = trie.nodes.last_mut().expect("no piece is empty");
            last.ids_end = trie.ids.len() as u32;
            trie.max_depth = trie.max_depth.max(bytes.len());
            before = bytes;
        }
        trie.close(&mut path, 0);
        trie
    }

    /// Ends the nodes of a path beyond a depth.
    fn close(&mut self, path: &mut Vec<usize>, depth: usize) {
        let end = self.nodes.len() as u32;
        path.drain(depth..).for_each(|node| self.nodes[node].end = end);
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Runs an automaton along all pieces at once, from the state `start`. `step` gets the number of bytes before a byte, and
    /// returns the state after it, or `None` if no text goes on so; `visit` gets the ids of pieces that end, and the state after
    /// them.
    pub(super) fn walk<S: Copy, E>(
        &self,
        start: S,
        mut step: impl FnMut(usize, S, u8) -> Result<Option<S>, E>,
        mut visit: impl FnMut(&[i32], S),
    ) -> Result<(), E> {
        let mut states = vec![start; self.max_depth + 1];
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            let depth = usize::from(node.depth);
            let Some(next) = step(depth, states[depth], node.byte)? else {
                at = node.end as usize;
                continue;
            };
            states[depth + 1] = next;
            let ids_start = at.checked_sub(1).map_or(0, |before| self.nodes[before].ids_end);
            if ids_start < node.ids_end {
                visit(&self.ids[ids_start as usize..node.ids_end as usize], next);
            }
            at += 1;
        }
        Ok(())
    }
}
