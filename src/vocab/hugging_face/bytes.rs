//! ByT5's tokenizer in a folder of Hugging Face's transformers: bytes, and added tokens between them. Source:
//! transformers 5.24 `models/byt5/tokenization_byt5.py`.

use super::added::{AddedToken, AddedTokens, TextPart, TokenFinder};
use super::folder::{TokenizerClass, TokenizerFolder};
use crate::bytes::{NUM_SPECIAL, byte_text};
use crate::spec::ByteVocabulary;
use crate::{PAD_ID, PieceText, VocabError, Vocabulary};
use gimlet_storage::Path;

/// Ids of special tokens and bytes.
const OWN_SIZE: usize = NUM_SPECIAL + 256;

/// A loaded tokenizer.
#[derive(Debug)]
pub(crate) struct HuggingFaceBytes {
    file: String,
    tokens: AddedTokens,
    finder: TokenFinder,
    eos: i32,
    vocab_size: usize,
}

impl HuggingFaceBytes {
    /// Reads the `tokenizer_config.json` of a vocabulary.
    pub(crate) fn load(spec: &ByteVocabulary, file: &str) -> Result<Self, VocabError> {
        let file = Path::parse(file)?;
        let folder = TokenizerFolder::read(&file)?;
        if folder.class != TokenizerClass::ByT5 {
            return Err(folder.unfit("its tokenizer is not a ByT5Tokenizer, expected one"));
        }
        if spec.extra_ids > 0 {
            return Err(folder.unfit(
                "extra_ids and tokenizer_config are both bound, expected one: its files hold the sentinels",
            ));
        }
        let wide =
            |text: &str| AddedToken { lstrip: true, rstrip: true, ..AddedToken::special(text) };
        let defaults = [("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")]
            .map(|(name, text)| (name, wide(text)));
        let text = |name: &str, default: &str| {
            folder.named_token(name).unwrap_or_else(|| default.to_string())
        };
        let own =
            [text("pad_token", "<pad>"), text("eos_token", "</s>"), text("unk_token", "<unk>")];
        let mut tokens = AddedTokens::default();
        for (id, text) in (0..).zip(&own) {
            tokens.insert(id, wide(text));
        }
        for (id, token) in folder.recorded()? {
            tokens.insert(id, token);
        }
        let named = folder.named(&defaults);
        let special: Vec<AddedToken> = named.into_iter().chain(folder.extras(Vec::new())).collect();
        for token in &special {
            if tokens.id(&token.content).is_none() {
                let own = |text: &str| own.iter().any(|own| own == text);
                let next = OWN_SIZE + tokens.count(|text| !own(text) && byte_of(text).is_none());
                let id = byte_of(&token.content).unwrap_or(next as i32);
                tokens.insert(id, token.clone());
            }
        }
        tokens.mark_special(|text| special.iter().any(|token| token.content == text));
        let eos = tokens.id(&own[1]).unwrap_or(1);
        match tokens.id(&own[0]) {
            Some(PAD_ID) => {}
            id => {
                return Err(folder.unfit(format!(
                    "its pad_token has the id {}, expected {PAD_ID}",
                    id.unwrap_or_default()
                )));
            }
        }
        let vocab_size = tokens.last().map_or(OWN_SIZE, |last| OWN_SIZE.max(last as usize + 1));
        let finder = tokens.finder(|token| Some(token.content.clone()));
        Ok(Self { file: file.to_string(), tokens, finder, eos, vocab_size })
    }

    /// The tokens that are looked for before bytes.
    pub(super) fn added(&self) -> &AddedTokens {
        &self.tokens
    }
}

/// Returns the id of a text that is one byte for ByT5: a character below 256.
fn byte_of(text: &str) -> Option<i32> {
    let mut characters = text.chars();
    let first = u8::try_from(characters.next()?).ok()?;
    characters.next().is_none().then(|| i32::from(first) + NUM_SPECIAL as i32)
}

impl Vocabulary for HuggingFaceBytes {
    fn name(&self) -> String {
        format!("ByteVocabulary(tokenizer_config={})", self.file)
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn base_vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn bos_id(&self) -> Option<i32> {
        None
    }

    fn eos_id(&self) -> Option<i32> {
        Some(self.eos)
    }

    fn unk_id(&self) -> Option<i32> {
        Some(2)
    }

    fn first_sentinel_id(&self) -> i32 {
        let last = (0..self.vocab_size as i32)
            .rfind(|id| self.tokens.get(*id).is_some_and(AddedToken::is_sentinel));
        last.unwrap_or(self.vocab_size as i32 - 1)
    }

    fn piece_texts(&self) -> Result<Vec<Option<PieceText>>, String> {
        let text = |id: i32| if self.tokens.get(id).is_some() { None } else { byte_text(id) };
        Ok((0..self.vocab_size as i32).map(text).collect())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        let bytes = ByteVocabulary::default();
        self.finder.split_in_python(text, |part| match part {
            TextPart::Token(id) => ids.push(id),
            TextPart::Text(text) => bytes.encode_into(text, ids),
        });
    }

    fn piece(&self, id: i32) -> String {
        match self.tokens.get(id) {
            Some(token) => token.content.clone(),
            None => ByteVocabulary::default().piece(id),
        }
    }

    /// Omits special tokens as transformers do with `skip_special_tokens`, and bytes that form no character.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let byte = |id: i32| u8::try_from(id.checked_sub(NUM_SPECIAL as i32)?).ok();
        let mut bytes = Vec::new();
        for &id in ids {
            match self.tokens.get(id) {
                Some(token) if token.special => {}
                Some(token) => bytes.extend(token.content.bytes()),
                None => bytes.extend(byte(id)),
            }
        }
        bytes.utf8_chunks().map(|chunk| chunk.valid()).collect()
    }
}
