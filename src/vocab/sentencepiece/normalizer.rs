//! SentencePiece's normalization of text. Source: SentencePiece `normalizer.cc`.

use std::sync::Arc;

use super::model_proto::ModelProto;
use super::pieces::UserDefined;

/// The replacement of a space.
pub(super) const SPACE: &[u8] = "▁".as_bytes();

/// The rules of one model.
#[derive(Debug)]
pub(super) struct Normalizer {
    rules: Rules,
    /// Pieces that are not changed.
    user_defined: Arc<UserDefined>,
    /// ASCII bytes that are not changed before another ASCII byte.
    is_plain: [bool; 128],
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
    treat_whitespace_as_suffix: bool,
}

impl Normalizer {
    /// Reads the rules of a model; `None` if they are broken.
    pub(super) fn new(model: &ModelProto<'_>, user_defined: Arc<UserDefined>) -> Option<Self> {
        let rules = Rules::parse(model.normalizer.precompiled_charsmap)?;
        let mut is_plain = [false; 128];
        for (byte, is_plain) in (0..).zip(&mut is_plain) {
            *is_plain = byte != b' ' && !user_defined.begins(byte) && rules.keeps(byte);
        }
        Some(Self {
            rules,
            user_defined,
            is_plain,
            add_dummy_prefix: model.normalizer.add_dummy_prefix,
            remove_extra_whitespaces: model.normalizer.remove_extra_whitespaces,
            escape_whitespaces: model.normalizer.escape_whitespaces,
            treat_whitespace_as_suffix: model.treat_whitespace_as_suffix,
        })
    }

    /// Replaces the content of `out` by the normalized text.
    pub(super) fn normalize(&self, text: &str, out: &mut Vec<u8>) {
        out.clear();
        let mut rest = text.as_bytes();
        if self.remove_extra_whitespaces {
            while !rest.is_empty()
                && let (b" ", length) = self.prefix(rest)
            {
                rest = &rest[length..];
            }
        }
        if rest.is_empty() {
            return;
        }
        let space = if self.escape_whitespaces { SPACE } else { b" " };
        if !self.treat_whitespace_as_suffix && self.add_dummy_prefix {
            out.extend_from_slice(space);
        }
        self.normalize_words(rest, space, out);
        if self.remove_extra_whitespaces {
            while out.ends_with(space) {
                out.truncate(out.len() - space.len());
            }
        }
        if self.treat_whitespace_as_suffix && self.add_dummy_prefix {
            out.extend_from_slice(space);
        }
    }

    fn normalize_words(&self, mut rest: &[u8], space: &[u8], out: &mut Vec<u8>) {
        let mut after_space = self.remove_extra_whitespaces;
        while !rest.is_empty() {
            let plain = self.plain_prefix(rest);
            if plain > 0 {
                out.extend_from_slice(&rest[..plain]);
                after_space = false;
                rest = &rest[plain..];
                continue;
            }
            let (mut normalized, length) = self.prefix(rest);
            while after_space && let Some(stripped) = normalized.strip_prefix(b" ") {
                normalized = stripped;
            }
            for &byte in normalized {
                match byte {
                    b' ' => out.extend_from_slice(space),
                    byte => out.push(byte),
                }
            }
            if let Some(&last) = normalized.last() {
                after_space = self.remove_extra_whitespaces && last == b' ';
            }
            rest = &rest[length..];
        }
    }

    /// Returns the number of bytes that are not changed, independently of the text after them.
    fn plain_prefix(&self, text: &[u8]) -> usize {
        let is_plain = |byte: &u8| self.is_plain.get(usize::from(*byte)) == Some(&true);
        let run = text.iter().take_while(|byte| is_plain(byte)).count();
        // The last one may combine with a mark after it.
        match text.get(run) {
            Some(next) if !next.is_ascii() => run.saturating_sub(1),
            _ => run,
        }
    }

    /// Returns the replacement of the beginning of a text, and the length of that beginning.
    fn prefix<'a>(&'a self, text: &'a [u8]) -> (&'a [u8], usize) {
        if let Some(length) = self.user_defined.longest(text) {
            return (&text[..length], length);
        }
        if let Some(found) = self.rules.longest(text) {
            return found;
        }
        let length = char_length(text[0]).min(text.len());
        (&text[..length], length)
    }
}

/// Length of a UTF-8 character by its first byte.
pub(super) fn char_length(first: u8) -> usize {
    match first {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
    }
}

/// Replacements of byte strings, in the format of Darts-clone's double array: units of 32 bits with
/// a label in bits 0-7 and 31, a leaf flag in bit 8, the offset above; leaves contain an index into
/// `replacements`, where the text ends with a zero.
#[derive(Debug)]
pub(crate) struct Rules {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl Rules {
    /// Parses the blob; `None` if it is broken; an empty one has no rules.
    pub(crate) fn parse(blob: &[u8]) -> Option<Self> {
        if blob.is_empty() {
            return Some(Self { units: Vec::new(), replacements: Vec::new() });
        }
        let (size, rest) = blob.split_at_checked(4)?;
        let size = u32::from_le_bytes(size.try_into().ok()?) as usize;
        let (units, replacements) = rest.split_at_checked(size)?;
        let unit = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("chunks of 4"));
        let units: Vec<u32> = units.chunks_exact(4).map(unit).collect();
        (units.len() >= 256 && replacements.last() == Some(&0))
            .then(|| Self { units, replacements: replacements.to_vec() })
    }

    /// Returns the unit for `byte` after the unit at `at`.
    fn step(&self, at: usize, byte: u8) -> Option<usize> {
        let next = at ^ offset(*self.units.get(at)?) ^ usize::from(byte);
        let unit = *self.units.get(next)?;
        (unit & ((1 << 31) | 0xff) == u32::from(byte)).then_some(next)
    }

    /// The replacement of the key that ends at a unit.
    fn replacement(&self, at: usize) -> Option<&[u8]> {
        let unit = self.units[at];
        if unit >> 8 & 1 == 0 {
            return None;
        }
        let leaf = *self.units.get(at ^ offset(unit))?;
        let text = self.replacements.get((leaf & !(1 << 31)) as usize..)?;
        text.split(|&byte| byte == 0).next()
    }

    /// Returns the replacement and the length of the longest key at the beginning of the text.
    fn longest(&self, text: &[u8]) -> Option<(&[u8], usize)> {
        let mut at = 0;
        let mut found = None;
        for (i, &byte) in text.iter().enumerate() {
            let Some(next) = self.step(at, byte) else { break };
            at = next;
            if let Some(replacement) = self.replacement(at) {
                found = Some((replacement, i + 1));
            }
        }
        found
    }

    /// Returns the replacement of the shortest key at the beginning of the text.
    pub(crate) fn shortest(&self, text: &[u8]) -> Option<&[u8]> {
        let mut at = 0;
        for &byte in text {
            at = self.step(at, byte)?;
            if let Some(replacement) = self.replacement(at) {
                return Some(replacement);
            }
        }
        None
    }

    /// Whether an ASCII byte is not changed before any ASCII byte, or at the end.
    fn keeps(&self, byte: u8) -> bool {
        match self.step(0, byte) {
            None => true,
            Some(at) => {
                self.replacement(at).is_none() && (1..128).all(|next| self.step(at, next).is_none())
            }
        }
    }
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}
