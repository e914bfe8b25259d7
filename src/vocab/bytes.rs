//! UTF-8 bytes as ids.

use super::spec::ByteVocabulary;
use super::{PieceText, Vocabulary};

/// Padding, EOS and unknown stand before the bytes.
pub(super) const NUM_SPECIAL: usize = 3;
const NUM_BYTES: usize = 256;

/// Returns the byte of an id.
pub(super) fn byte_text(id: i32) -> Option<PieceText> {
    let byte = u8::try_from(id.checked_sub(NUM_SPECIAL as i32)?).ok()?;
    Some(PieceText::everywhere(vec![byte]))
}

impl Vocabulary for ByteVocabulary {
    fn name(&self) -> String {
        format!("ByteVocabulary(extra_ids={})", self.extra_ids)
    }

    fn vocab_size(&self) -> usize {
        self.base_vocab_size() + self.extra_ids
    }

    fn base_vocab_size(&self) -> usize {
        NUM_SPECIAL + NUM_BYTES
    }

    fn bos_id(&self) -> Option<i32> {
        None
    }

    fn eos_id(&self) -> Option<i32> {
        Some(1)
    }

    fn unk_id(&self) -> Option<i32> {
        Some(2)
    }

    fn piece_texts(&self) -> Result<Vec<Option<PieceText>>, String> {
        Ok((0..self.vocab_size()).map(|id| byte_text(id as i32)).collect())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        ids.extend(text.bytes().map(|byte| i32::from(byte) + NUM_SPECIAL as i32));
    }

    fn piece(&self, id: i32) -> String {
        const SPECIAL: [&str; NUM_SPECIAL] = ["<pad>", "</s>", "<unk>"];
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        match u8::try_from(index.wrapping_sub(NUM_SPECIAL)) {
            Ok(byte) if byte.is_ascii_graphic() || byte == b' ' => char::from(byte).to_string(),
            Ok(byte) => format!("<0x{byte:02X}>"),
            Err(_) if index < NUM_SPECIAL => SPECIAL[index].to_string(),
            Err(_) if index < self.vocab_size() => {
                format!("<extra {}>", index - self.base_vocab_size())
            }
            Err(_) => super::no_piece(id),
        }
    }

    /// Removes special ids and ids out of range, and bytes that form no character.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let byte = |&id: &i32| u8::try_from(id.checked_sub(NUM_SPECIAL as i32)?).ok();
        let bytes: Vec<u8> = ids.iter().filter_map(byte).collect();
        bytes.utf8_chunks().map(|chunk| chunk.valid()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Known values of SeqIO's `vocabularies_test.py`.
    const TEXT: &str = "this is a test 🤗 你好";
    const IDS: [i32; 26] = [
        119, 107, 108, 118, 35, 108, 118, 35, 100, 35, 119, 104, 118, 119, 35, 243, 162, 167, 154,
        35, 231, 192, 163, 232, 168, 192,
    ];

    fn bytes() -> ByteVocabulary {
        ByteVocabulary::of(10)
    }

    #[test]
    fn ids_are_bytes_plus_three() {
        assert_eq!(bytes().encode(TEXT), IDS);
        assert_eq!(bytes().decode(&IDS), TEXT);
        assert_eq!((bytes().vocab_size(), bytes().base_vocab_size()), (269, 259));
    }

    #[test]
    fn ids_out_of_range_and_broken_characters_vanish() {
        let mut ids = vec![3000, -4000];
        ids.extend(IDS);
        assert_eq!(bytes().decode(&ids), TEXT);
        assert_eq!(bytes().decode(&[119, 243, 162, 107]), "th");
    }

    #[test]
    fn decoding_stops_at_the_first_eos() {
        assert_eq!(bytes().decode(&[119, 1, 107]), "t");
    }
}
