//! The tokenizer of a folder of Hugging Face's transformers: the ids of transformers 5.24, added tokens included.
//!
//! `DIR/tokenizer.json` names it, or `DIR/tokenizer_config.json` where only a `spiece.model` holds the pieces. Only
//! unigram models are read, which every T5 has. [`bytes::HuggingFaceBytes`] is ByT5's.

mod about;
mod added;
mod bytes;
mod folder;
mod more;
mod normalize;
mod pre_tokenize;
#[cfg(test)]
mod tests;

pub use about::{HuggingFaceTokenizer, hugging_face_tokenizer};
pub(super) use bytes::HuggingFaceBytes;
pub(super) use more::with_pieces;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::Value;

use self::added::{AddedToken, AddedTokens, TextPart, TokenFinder};
use self::folder::{TokenizerClass, TokenizerFolder, reversed_sentinels};
use self::normalize::{Charsmap, NormalizerStep};
use self::pre_tokenize::{DecoderStep, PreTokenizer, WordCutter};
use super::piece_text::byte_of;
use super::sentencepiece::{ModelProto, ModelType, PieceKind, Unigram, Unknown};
use super::spec::SentencePieceVocabulary;
use super::{PAD_ID, PieceText, VocabError, Vocabulary};
use gimlet_storage::Path;

/// The id for unknown text of every `T5Tokenizer`.
const T5_UNKNOWN: i32 = 2;

/// A loaded tokenizer of unigram pieces.
pub(super) struct HuggingFace {
    file: String,
    rules: TextRules,
    unigram: Unigram<f64>,
    pieces: Vec<String>,
    tokens: AddedTokens,
    /// Finds tokens in the text, and those that are normalized in normalized text.
    finders: [TokenFinder; 2],
    ends: Ends,
    cleans_up: bool,
    vocab_size: usize,
}

/// The steps around the pieces.
struct TextRules {
    normalizers: Vec<NormalizerStep>,
    pre_tokenizers: Vec<PreTokenizer>,
    decoders: Vec<DecoderStep>,
}

/// Special ids.
#[derive(Clone, Copy, Debug)]
struct Ends {
    bos: Option<i32>,
    eos: Option<i32>,
    unk: i32,
    /// Whether transformers append the end to a text.
    appends_eos: bool,
}

/// The pieces with their scores, before they are indexed.
struct ScoredPieces {
    texts: Vec<(String, f64)>,
    unknown: i32,
    has_byte_fallback: bool,
    /// Pieces that are special tokens unless the files list those.
    own_tokens: Vec<AddedToken>,
}

thread_local! {
    static SCRATCH: RefCell<String> = RefCell::default();
}

impl std::fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl HuggingFace {
    /// Reads the files.
    pub(super) fn load(spec: &SentencePieceVocabulary) -> Result<Self, VocabError> {
        let file = Path::parse(&spec.sentencepiece_model_file)?;
        let folder = TokenizerFolder::read(&file)?;
        if spec.extra_ids > 0 || spec.normalizer_spec_overrides.is_some() {
            return Err(folder.unfit(
                "extra_ids or normalizer_spec_overrides are bound, expected neither: its files hold the sentinels and \
                 the rules of normalization; set extra_ids = 0",
            ));
        }
        let class = folder.class;
        let (pieces, rules) = match (&folder.tokenizer, &folder.model) {
            (_, _) if class == TokenizerClass::ByT5 => {
                return Err(folder.unfit(
                    "it is a ByT5Tokenizer, expected pieces: use seqio.ByteVocabulary with tokenizer_config",
                ));
            }
            (Some(json), _) => of_json(json, class).map_err(|reason| folder.unfit(reason))?,
            (None, Some(model)) => {
                of_model(model, &folder).map_err(|reason| folder.unfit(reason))?
            }
            (None, None) => unreachable!("the folder has read one of them"),
        };
        Self::new(file.to_string(), &folder, pieces, rules)
    }

    fn new(
        file: String,
        folder: &TokenizerFolder,
        pieces: ScoredPieces,
        rules: TextRules,
    ) -> Result<Self, VocabError> {
        // Of equal pieces the last one counts.
        let ids: HashMap<&str, i32> =
            pieces.texts.iter().zip(0..).map(|((text, _), id)| (&text[..], id)).collect();
        let byte_ids = (0..=255).map(|byte| ids.get(&format!("<0x{byte:02X}>")[..]).copied());
        let byte_ids: Option<Vec<i32>> = byte_ids.collect();
        let unknown =
            Unknown { id: pieces.unknown, byte_ids: byte_ids.filter(|_| pieces.has_byte_fallback) };
        let distinct = ids.iter().map(|(text, id)| (*text, *id, pieces.texts[*id as usize].1));
        let distinct: Vec<(&str, i32, f64)> =
            distinct.filter(|(text, ..)| !text.is_empty()).collect();
        let unigram = Unigram::of_pieces(&distinct, unknown);
        let size = pieces.texts.len() as i32;
        let tokens = tokens(folder, pieces.own_tokens, |text| ids.get(text).copied(), size)?;
        let id = |text: &str| tokens.id(text).or_else(|| ids.get(text).copied());
        let ends = ends(folder, pieces.unknown, id)?;
        let normalized = |token: &AddedToken| {
            token.normalized.then(|| normalize(&rules.normalizers, &token.content).into_owned())
        };
        let raw = |token: &AddedToken| (!token.normalized).then(|| token.content.clone());
        Ok(Self {
            file,
            finders: [tokens.finder(raw), tokens.finder(normalized)],
            vocab_size: tokens.last().map_or(size, |last| size.max(last + 1)) as usize,
            rules,
            unigram,
            tokens,
            ends,
            cleans_up: folder.is_on("clean_up_tokenization_spaces"),
            pieces: pieces.texts.into_iter().map(|(text, _)| text).collect(),
        })
    }

    /// Whether transformers append the end to a text.
    pub(super) fn appends_eos(&self) -> bool {
        self.ends.appends_eos
    }

    /// The tokens that are looked for before pieces.
    fn added(&self) -> &AddedTokens {
        &self.tokens
    }

    /// Encodes text between added tokens.
    fn encode_part(&self, text: &str, is_first: bool, ids: &mut Vec<i32>) {
        // A text whose first characters are removed no longer begins it: the first mark is not prepended.
        let (mut normalized, mut is_first) = (Cow::Borrowed(text), is_first);
        for step in &self.rules.normalizers {
            is_first &= !step.removes_start(&normalized);
            normalized = step.apply(normalized);
        }
        let mut starts = true;
        self.finders[1].split(&normalized, |part| {
            match part {
                TextPart::Token(id) => ids.push(id),
                TextPart::Text(text) => SCRATCH.with_borrow_mut(|scratch| {
                    let mut encode = |word: &str| self.unigram.encode_into(word.as_bytes(), ids);
                    let steps = &self.rules.pre_tokenizers;
                    WordCutter { scratch, emit: &mut encode }.cut(steps, text, is_first && starts);
                }),
            }
            starts = false;
        });
    }

    /// Returns the token of an id: the text of an added one is that which was looked for.
    fn token(&self, id: i32) -> Option<Cow<'_, str>> {
        match self.tokens.get(id) {
            Some(token) if token.normalized => {
                Some(normalize(&self.rules.normalizers, &token.content))
            }
            Some(token) => Some((&token.content[..]).into()),
            None => Some((&self.pieces.get(usize::try_from(id).ok()?)?[..]).into()),
        }
    }

    /// Returns the bytes that an id adds to a text.
    fn piece_text(&self, id: i32) -> Option<PieceText> {
        const BEFORE: &str = "a";
        let is_text =
            self.tokens.get(id).is_none_or(|token| !token.special && !token.is_sentinel());
        let token = self.token(id).filter(|_| is_text && id != self.ends.unk && id != PAD_ID)?;
        let joins_bytes =
            self.rules.decoders.iter().any(|step| matches!(step, DecoderStep::ByteFallback));
        if let Some(byte) = byte_of(&token).filter(|_| joins_bytes) {
            // A space has a piece of its own, which may be dropped at the beginning.
            return (byte != b' ').then(|| PieceText::everywhere(vec![byte]));
        }
        let decoded = |tokens: &[&str]| {
            let tokens: Vec<String> = tokens.iter().map(|token| token.to_string()).collect();
            self.rules.decoders.iter().fold(tokens, |tokens, step| step.apply(tokens)).concat()
        };
        let later = decoded(&[BEFORE, &token]).strip_prefix(BEFORE)?.to_string();
        Some(PieceText { first: decoded(&[&token]).into_bytes(), later: later.into_bytes() })
    }

    fn is_shown(&self, id: i32) -> bool {
        self.tokens.get(id).is_none_or(|token| !token.special || token.is_sentinel())
    }
}

fn normalize<'a>(steps: &[NormalizerStep], text: &'a str) -> Cow<'a, str> {
    steps.iter().fold(Cow::Borrowed(text), |text, step| step.apply(text))
}

/// Reads `tokenizer.json`.
fn of_json(json: &Value, class: TokenizerClass) -> Result<(ScoredPieces, TextRules), String> {
    let model = &json["model"];
    let kind = model["type"].as_str().unwrap_or("without a type");
    if kind != "Unigram" {
        return Err(format!(
            "its model is {kind}, expected Unigram, which SentencePiece trains for every T5: T5Tokenizer reads no other"
        ));
    }
    let piece = |value: &Value| Some((value[0].as_str()?.to_string(), value[1].as_f64()?));
    let texts: Option<Vec<(String, f64)>> =
        model["vocab"].as_array().and_then(|vocab| vocab.iter().map(piece).collect());
    let texts = texts.ok_or("its model has no vocab of pieces with scores")?;
    let unknown = match class {
        TokenizerClass::T5 => Some(T5_UNKNOWN),
        _ => model["unk_id"].as_i64().and_then(|id| i32::try_from(id).ok()),
    };
    let unknown = unknown
        .filter(|id| usize::try_from(*id).is_ok_and(|id| id < texts.len()))
        .ok_or("its model has no piece for unknown text (unk_id)")?;
    // `T5Tokenizer` takes the charsmap of the file, and nothing else of its rules.
    let rules = match class {
        TokenizerClass::T5 => t5_rules(charsmap(&json["normalizer"])?),
        _ => TextRules {
            normalizers: NormalizerStep::read_all(&json["normalizer"])?,
            pre_tokenizers: PreTokenizer::read_all(&json["pre_tokenizer"])?,
            decoders: DecoderStep::read_all(&json["decoder"])?,
        },
    };
    let has_byte_fallback = class != TokenizerClass::T5 && model["byte_fallback"] == true;
    Ok((ScoredPieces { texts, unknown, has_byte_fallback, own_tokens: Vec::new() }, rules))
}

/// Returns the first step of normalization by a charsmap.
fn charsmap(normalizer: &Value) -> Result<Option<NormalizerStep>, String> {
    let single = std::slice::from_ref(normalizer);
    let steps = normalizer["normalizers"].as_array().map_or(single, Vec::as_slice);
    match steps.iter().find(|step| step["type"] == "Precompiled") {
        Some(step) => Ok(NormalizerStep::read_all(step)?.pop()),
        None => Ok(None),
    }
}

fn t5_rules(charsmap: Option<NormalizerStep>) -> TextRules {
    TextRules {
        normalizers: charsmap.into_iter().collect(),
        pre_tokenizers: PreTokenizer::of_t5(),
        decoders: vec![DecoderStep::Metaspace { trims: true }],
    }
}

/// Reads `spiece.model` as a `T5Tokenizer` does.
fn of_model(model: &[u8], folder: &TokenizerFolder) -> Result<(ScoredPieces, TextRules), String> {
    let model = ModelProto::parse(model).ok_or("its spiece.model is not a SentencePiece model")?;
    if model.model_type != ModelType::Unigram {
        return Err(format!(
            "its spiece.model is a {:?} model, expected Unigram",
            model.model_type
        ));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut texts: Vec<(String, f64)> =
        model.pieces.iter().map(|it| (text(it.piece), f64::from(it.score))).collect();
    texts.extend(reversed_sentinels(folder.extra_ids(100)).map(|text| (text, 0.0)));
    let own = model.pieces.iter().filter_map(|piece| match piece.kind {
        PieceKind::Control => Some(AddedToken::special(&text(piece.piece))),
        PieceKind::UserDefined => {
            Some(AddedToken { special: false, ..AddedToken::special(&text(piece.piece)) })
        }
        _ => None,
    });
    let own_tokens = own.collect();
    let pieces = ScoredPieces { texts, unknown: T5_UNKNOWN, has_byte_fallback: false, own_tokens };
    let charsmap = match model.normalizer.precompiled_charsmap {
        [] => None,
        blob => Some(Charsmap::parse(blob).ok_or("the charsmap of its spiece.model is broken")?),
    };
    Ok((pieces, t5_rules(charsmap.map(NormalizerStep::Precompiled))))
}

/// Collects the added tokens, and gives ids to those that are no pieces.
fn tokens(
    folder: &TokenizerFolder,
    own_tokens: Vec<AddedToken>,
    own_id: impl Fn(&str) -> Option<i32>,
    size: i32,
) -> Result<AddedTokens, VocabError> {
    let mut tokens = AddedTokens::default();
    if folder.class == TokenizerClass::AsWritten {
        for token in folder.of_tokenizer()?.into_values() {
            tokens.add(token, &own_id, size);
        }
    }
    let defaults = [("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")]
        .map(|(name, text)| (name, AddedToken::special(text)));
    let named = folder.named(if folder.class == TokenizerClass::T5 { &defaults } else { &[] });
    for token in folder.recorded()?.into_values() {
        let special = token.special || named.iter().any(|named| named.content == token.content);
        tokens.add(AddedToken { special, ..token }, &own_id, size);
    }
    for token in named.into_iter().chain(folder.extras(own_tokens)) {
        if tokens.id(&token.content).is_none() {
            tokens.add(token, &own_id, size);
        }
    }
    Ok(tokens)
}

/// Finds the special ids.
fn ends(
    folder: &TokenizerFolder,
    unk: i32,
    id: impl Fn(&str) -> Option<i32>,
) -> Result<Ends, VocabError> {
    let named = |name: &str, default: Option<&str>| {
        let text = folder.named_token(name).or(default.map(String::from))?;
        id(&text)
    };
    let of_t5 = |text| Some(text).filter(|_| folder.class == TokenizerClass::T5);
    let pad = named("pad_token", of_t5("<pad>"));
    if let Some(pad) = pad.filter(|pad| *pad != PAD_ID) {
        return Err(folder.unfit(format!(
            "its pad_token has the id {pad}, expected {PAD_ID}, with which every T5 pads"
        )));
    }
    let eos = named("eos_token", of_t5("</s>"));
    let bos = named("bos_token", None);
    let template = folder.tokenizer.as_ref().filter(|_| folder.class != TokenizerClass::T5);
    match template.map(|json| appended(&json["post_processor"])) {
        None => Ok(Ends { bos, eos, unk, appends_eos: true }),
        Some(Ok(appended)) => {
            Ok(Ends { bos, eos: appended.or(eos), unk, appends_eos: appended.is_some() })
        }
        Some(Err(reason)) => Err(folder.unfit(reason)),
    }
}

/// Returns the id that a `post_processor` appends to a text.
fn appended(processor: &Value) -> Result<Option<i32>, String> {
    if processor.is_null() {
        return Ok(None);
    }
    let single = processor["single"].as_array().map(Vec::as_slice).unwrap_or_default();
    match single {
        [text] if text.get("Sequence").is_some() => Ok(None),
        [text, end] if text.get("Sequence").is_some() && end.get("SpecialToken").is_some() => {
            let name = end["SpecialToken"]["id"].as_str().unwrap_or_default();
            let ids = processor["special_tokens"][name]["ids"].as_array();
            match ids.map(Vec::as_slice).unwrap_or_default() {
                [id] => Ok(id.as_i64().and_then(|id| i32::try_from(id).ok())),
                _ => Err(format!("its post_processor has no id of `{name}`")),
            }
        }
        _ => Err(format!(
            "its post_processor is {}, expected TemplateProcessing that appends one token to a text",
            processor["type"]
        )),
    }
}

/// Removes spaces before punctuation, as transformers do with `clean_up_tokenization_spaces`.
fn cleaned_up(mut text: String) -> String {
    for (found, by) in [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ] {
        text = text.replace(found, by);
    }
    text
}

impl Vocabulary for HuggingFace {
    fn name(&self) -> String {
        format!("SentencePieceVocabulary(file={}, extra_ids=0)", self.file)
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn base_vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn bos_id(&self) -> Option<i32> {
        self.ends.bos
    }

    fn eos_id(&self) -> Option<i32> {
        self.ends.eos
    }

    fn unk_id(&self) -> Option<i32> {
        Some(self.ends.unk)
    }

    fn first_sentinel_id(&self) -> i32 {
        let last = (0..self.vocab_size as i32)
            .rfind(|id| self.token(*id).is_some_and(|text| added::is_sentinel(&text)));
        last.unwrap_or(self.vocab_size as i32 - 1)
    }

    fn cleans_up(&self) -> bool {
        self.cleans_up
    }

    fn piece_texts(&self) -> Result<Vec<Option<PieceText>>, String> {
        if self.cleans_up {
            return Err(
                "it removes spaces before punctuation from a decoded text; set clean_up_tokenization_spaces to false in \
                 its tokenizer_config.json"
                    .to_string(),
            );
        }
        Ok((0..self.vocab_size as i32).map(|id| self.piece_text(id)).collect())
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) {
        let mut starts = true;
        self.finders[0].split(text, |part| {
            match part {
                TextPart::Token(id) => ids.push(id),
                TextPart::Text(text) => self.encode_part(text, starts, ids),
            }
            starts = false;
        });
    }

    fn piece(&self, id: i32) -> String {
        self.token(id).map_or_else(|| super::no_piece(id), Cow::into_owned)
    }

    /// Omits special tokens as transformers do with `skip_special_tokens`, except sentinels.
    fn decode_clean(&self, ids: &[i32]) -> String {
        let shown = ids.iter().filter(|id| self.is_shown(**id));
        let tokens = shown.filter_map(|id| self.token(*id)).map(Cow::into_owned).collect();
        let text = self.rules.decoders.iter().fold(tokens, |tokens, step| step.apply(tokens));
        if self.cleans_up { cleaned_up(text.concat()) } else { text.concat() }
    }
}
