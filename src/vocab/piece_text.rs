//! The part of a text that one id stands for, in bytes: some ids are parts of characters.

/// The mark that stands for a space in a piece.
const SPACE: &str = "▁";

/// The bytes that an id adds to a decoded text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceText {
    /// At the beginning of the text, where a first space may be dropped.
    pub first: Vec<u8>,
    /// After other ids.
    pub later: Vec<u8>,
}

impl PieceText {
    /// An id that adds the same bytes everywhere.
    pub fn everywhere(bytes: Vec<u8>) -> Self {
        Self { first: bytes.clone(), later: bytes }
    }

    /// A piece in which `▁` is a space; `drops_first` says whether one is dropped at the beginning.
    pub(super) fn of_piece(piece: &str, drops_first: bool) -> Self {
        let later = piece.replace(SPACE, " ").into_bytes();
        let first = match later.strip_prefix(b" ") {
            Some(rest) if drops_first => rest.to_vec(),
            _ => later.clone(),
        };
        Self { first, later }
    }
}

/// Returns the byte that a piece such as `<0x41>` stands for.
pub(super) fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2)
}
