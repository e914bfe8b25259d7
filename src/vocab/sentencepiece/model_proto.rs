//! Reads the parts of a SentencePiece model file that encoding needs. Source: SentencePiece
//! `sentencepiece_model.proto`.

/// A model file, taken apart.
#[derive(Debug, Default)]
pub(crate) struct ModelProto<'a> {
    pub pieces: Vec<PieceProto<'a>>,
    pub model_type: ModelType,
    pub treat_whitespace_as_suffix: bool,
    pub byte_fallback: bool,
    pub normalizer: NormalizerProto<'a>,
}

/// `TrainerSpec.ModelType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ModelType {
    #[default]
    Unigram,
    Bpe,
    Word,
    Char,
}

/// One piece of the vocabulary.
#[derive(Debug)]
pub(crate) struct PieceProto<'a> {
    pub piece: &'a [u8],
    pub score: f32,
    pub kind: PieceKind,
}

/// `ModelProto.SentencePiece.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// How text is normalized.
#[derive(Debug)]
pub(crate) struct NormalizerProto<'a> {
    pub precompiled_charsmap: &'a [u8],
    pub add_dummy_prefix: bool,
    pub remove_extra_whitespaces: bool,
    pub escape_whitespaces: bool,
}

impl Default for NormalizerProto<'_> {
    fn default() -> Self {
        Self {
            precompiled_charsmap: &[],
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        }
    }
}

impl<'a> ModelProto<'a> {
    /// Parses a model; `None` if the bytes are no such message.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut model = Self::default();
        for field in Fields(bytes) {
            match field? {
                (1, Field::Bytes(piece)) => model.pieces.push(PieceProto::parse(piece)?),
                (2, Field::Bytes(trainer)) => model.parse_trainer(trainer)?,
                (3, Field::Bytes(normalizer)) => model.parse_normalizer(normalizer)?,
                _ => {}
            }
        }
        Some(model)
    }

    /// The pieces of one kind, with their ids.
    pub(super) fn of_kind(
        &self,
        kind: PieceKind,
    ) -> impl Iterator<Item = (&PieceProto<'a>, i32)> + '_ {
        self.pieces.iter().zip(0..).filter(move |(piece, _)| piece.kind == kind)
    }

    fn parse_trainer(&mut self, bytes: &'a [u8]) -> Option<()> {
        for field in Fields(bytes) {
            match field? {
                (3, Field::Int(model_type)) => {
                    self.model_type = match model_type {
                        1 => ModelType::Unigram,
                        2 => ModelType::Bpe,
                        3 => ModelType::Word,
                        4 => ModelType::Char,
                        _ => return None,
                    }
                }
                (24, Field::Int(is_on)) => self.treat_whitespace_as_suffix = is_on != 0,
                (35, Field::Int(is_on)) => self.byte_fallback = is_on != 0,
                _ => {}
            }
        }
        Some(())
    }

    fn parse_normalizer(&mut self, bytes: &'a [u8]) -> Option<()> {
        for field in Fields(bytes) {
            match field? {
                (2, Field::Bytes(map)) => self.normalizer.precompiled_charsmap = map,
                (3, Field::Int(is_on)) => self.normalizer.add_dummy_prefix = is_on != 0,
                (4, Field::Int(is_on)) => self.normalizer.remove_extra_whitespaces = is_on != 0,
                (5, Field::Int(is_on)) => self.normalizer.escape_whitespaces = is_on != 0,
                _ => {}
            }
        }
        Some(())
    }
}

impl<'a> PieceProto<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut out = Self { piece: &[], score: 0.0, kind: PieceKind::Normal };
        for field in Fields(bytes) {
            match field? {
                (1, Field::Bytes(piece)) => out.piece = piece,
                (2, Field::Fixed32(bits)) => out.score = f32::from_bits(bits),
                (3, Field::Int(kind)) => {
                    out.kind = match kind {
                        1 => PieceKind::Normal,
                        2 => PieceKind::Unknown,
                        3 => PieceKind::Control,
                        4 => PieceKind::UserDefined,
                        5 => PieceKind::Unused,
                        6 => PieceKind::Byte,
                        _ => return None,
                    }
                }
                _ => {}
            }
        }
        Some(out)
    }
}

/// A protobuf field's value, as far as the wire format identifies it.
enum Field<'a> {
    Int(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

/// The `(number, value)` fields of a message; `None` if it is broken.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Field<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Int(self.varint()?),
            1 => self.take(8).map(|_| Field::Fixed64)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
