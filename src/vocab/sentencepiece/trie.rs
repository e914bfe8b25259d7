//! A double-array trie over bytes: one memory access a byte.

/// The node at which the search begins.
pub(super) const ROOT: u32 = 0;

/// A node. Its child by byte `b` is at `base ^ b`, if that node's `parent` says so.
#[derive(Clone, Copy, Debug)]
struct Unit<V> {
    base: u32,
    parent: u32,
    value: Option<V>,
}

const FREE: u32 = u32::MAX;

/// Values by key, which are found along the bytes of a text.
#[derive(Debug)]
pub(super) struct Trie<V> {
    units: Vec<Unit<V>>,
}

impl<V: Copy> Trie<V> {
    /// Builds a trie of distinct keys.
    pub(super) fn new(mut entries: Vec<(&[u8], V)>) -> Self {
        entries.sort_unstable_by_key(|(key, _)| *key);
        let mut builder = Builder { units: Vec::new(), first_free: 1 };
        builder.grow();
        builder.units[ROOT as usize].parent = ROOT;
        builder.insert(ROOT, 0, &entries);
        Self { units: builder.units }
    }

    /// Returns the child by `byte`, if there is one.
    #[inline]
    pub(super) fn step(&self, node: u32, byte: u8) -> Option<u32> {
        let next = self.units[node as usize].base ^ u32::from(byte);
        (self.units[next as usize].parent == node && next != ROOT).then_some(next)
    }

    /// The value of the key that ends at `node`.
    #[inline]
    pub(super) fn value(&self, node: u32) -> Option<V> {
        self.units[node as usize].value
    }

    /// Returns the node at the end of `key`, if there is one.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        key.iter().try_fold(ROOT, |node, &byte| self.step(node, byte))
    }
}

struct Builder<V> {
    units: Vec<Unit<V>>,
    /// Index before which no unit is free.
    first_free: usize,
}

impl<V: Copy> Builder<V> {
    /// Adds a block of units; children of one node never cross a block.
    fn grow(&mut self) {
        let unit = Unit { base: 0, parent: FREE, value: None };
        self.units.resize(self.units.len() + 256, unit);
    }

    /// Inserts entries that share their first `depth` bytes below `node`.
    fn insert(&mut self, node: u32, depth: usize, entries: &[(&[u8], V)]) {
        let (ending, longer) = match entries.split_first() {
            Some((first, rest)) if first.0.len() == depth => (Some(first), rest),
            _ => (None, entries),
        };
        self.units[node as usize].value = ending.map(|(_, value)| *value);
        let children: Vec<&[(&[u8], V)]> =
            longer.chunk_by(|a, b| a.0[depth] == b.0[depth]).collect();
        let labels: Vec<u8> = children.iter().map(|child| child[0].0[depth]).collect();
        if labels.is_empty() {
            return;
        }
        let base = self.place(&labels);
        self.units[node as usize].base = base;
        for &label in &labels {
            self.units[(base ^ u32::from(label)) as usize].parent = node;
        }
        for (&label, child) in labels.iter().zip(children) {
            self.insert(base ^ u32::from(label), depth + 1, child);
        }
    }

    /// Returns a base whose units for all labels are free.
    fn place(&mut self, labels: &[u8]) -> u32 {
        while self.units.get(self.first_free).is_some_and(|unit| unit.parent != FREE) {
            self.first_free += 1;
        }
        // Crowded blocks are skipped: trying every gap for each node would take quadratic time.
        let oldest = self.units.len().saturating_sub(16 * 256);
        let mut candidate = self.first_free.max(oldest);
        loop {
            if candidate >= self.units.len() {
                self.grow();
            }
            if self.units[candidate].parent == FREE {
                let base = candidate as u32 ^ u32::from(labels[0]);
                let is_free =
                    |&label: &u8| self.units[(base ^ u32::from(label)) as usize].parent == FREE;
                if labels.iter().all(is_free) {
                    return base;
                }
            }
            candidate += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_and_nothing_else() {
        let keys: Vec<Vec<u8>> =
            (0..5000u32).map(|i| format!("{:x}ä{}", i * 7919, i % 13).into_bytes()).collect();
        let trie = Trie::new(keys.iter().map(Vec::as_slice).zip(0..).collect());
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(trie.find(key).and_then(|node| trie.value(node)), Some(i));
            assert_eq!(trie.find(&key[..key.len() - 1]).and_then(|node| trie.value(node)), None);
            assert_eq!(trie.find(&[key, &b"!"[..]].concat()), None);
        }
        assert_eq!(trie.find(&[0]), None);
    }
}
