//! The words that each thread has encoded, with their ids.
//!
//! A table of fixed size whose slots are overwritten, over two arenas that are emptied when full:
//! no allocation once warm, and a few megabytes a thread for any text.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Greatest number of words in a table.
const SLOTS: usize = 1 << 15;
/// Longer words are rare and not remembered.
const MAX_WORD: usize = 64;
/// Greatest number of bytes of words, and of ids, before a table is emptied.
const MAX_ARENA: usize = 1 << 20;
/// Number of models whose words a thread remembers.
const MAX_TABLES: usize = 4;

/// Identifies a model's words in every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordCache(u64);

impl WordCache {
    /// Creates a name that no other model has.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

thread_local! {
    static TABLES: RefCell<Vec<(WordCache, Table)>> = const { RefCell::new(Vec::new()) };
}

/// Passes the words of a model that this thread remembers to `body`.
pub(super) fn with_cache<T>(cache: WordCache, body: impl FnOnce(&mut Table) -> T) -> T {
    TABLES.with_borrow_mut(|tables| {
        let index = tables.iter().position(|(of, _)| *of == cache).unwrap_or_else(|| {
            if tables.len() == MAX_TABLES {
                tables.remove(0);
            }
            tables.push((cache, Table::new()));
            tables.len() - 1
        });
        body(&mut tables[index].1)
    })
}

/// A word and its ids, as positions in the arenas. Words of length 0 fill empty slots.
#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u32,
    word: u32,
    ids: u32,
    word_length: u16,
    num_ids: u16,
}

/// Ids by word.
pub(super) struct Table {
    slots: Vec<Slot>,
    words: Vec<u8>,
    ids: Vec<i32>,
}

impl Table {
    fn new() -> Self {
        Self { slots: vec![Slot::default(); SLOTS], words: Vec::new(), ids: Vec::new() }
    }

    /// Returns the ids of a word, if they are remembered.
    #[inline]
    pub(super) fn get(&self, word: &[u8]) -> Option<&[i32]> {
        if word.len() > MAX_WORD {
            return None;
        }
        let hash = hash(word);
        let slot = self.slots[hash as usize % SLOTS];
        if slot.hash != hash || usize::from(slot.word_length) != word.len() {
            return None;
        }
        let held = &self.words[slot.word as usize..][..word.len()];
        (held == word).then(|| &self.ids[slot.ids as usize..][..usize::from(slot.num_ids)])
    }

    /// Remembers a word that is not empty.
    pub(super) fn insert(&mut self, word: &[u8], ids: &[i32]) {
        if word.len() > MAX_WORD {
            return;
        }
        if self.words.len() + word.len() > MAX_ARENA || self.ids.len() + ids.len() > MAX_ARENA {
            self.slots.fill(Slot::default());
            self.words.clear();
            self.ids.clear();
        }
        let hash = hash(word);
        self.slots[hash as usize % SLOTS] = Slot {
            hash,
            word: self.words.len() as u32,
            ids: self.ids.len() as u32,
            word_length: word.len() as u16,
            num_ids: ids.len() as u16,
        };
        self.words.extend_from_slice(word);
        self.ids.extend_from_slice(ids);
    }
}

/// Multiplies and folds eight bytes at a time.
#[inline]
fn hash(word: &[u8]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, bits: u64| {
        let product = u128::from(hash ^ bits) * u128::from(ODD);
        (product >> 64) as u64 ^ product as u64
    };
    let (chunks, rest) = word.as_chunks::<8>();
    let mut hash = chunks
        .iter()
        .fold(word.len() as u64 ^ ODD, |hash, chunk| fold(hash, u64::from_le_bytes(*chunk)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash = fold(hash, u64::from_le_bytes(last));
    (hash >> 32) as u32 ^ hash as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_ids_until_others_take_their_place() {
        let mut table = Table::new();
        let word = |i: i32| format!("word {i}{}", "!".repeat(i as usize % 40)).into_bytes();
        for i in 0..200_000 {
            table.insert(&word(i), &[i, i + 1]);
            assert_eq!(table.get(&word(i)), Some(&[i, i + 1][..]));
        }
        let held = |i: &i32| table.get(&word(*i)).inspect(|ids| assert_eq!(*ids, [*i, *i + 1]));
        let known = (0..200_000).filter(|i| held(i).is_some()).count();
        assert!((1_000..=SLOTS).contains(&known), "{known}");
        assert!(table.words.capacity() <= 2 * MAX_ARENA && table.ids.capacity() <= 2 * MAX_ARENA);
        assert_eq!(table.get(&[b'x'; 100]), None);
        assert_eq!(table.get(b"word"), None);
    }
}
