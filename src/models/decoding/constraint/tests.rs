use std::collections::BTreeSet;

use super::*;
use crate::vocab::{ByteVocabulary, SentencePieceVocabulary, Vocabulary, VocabularySpec};

fn pieces() -> Arc<dyn Vocabulary> {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/runs/quickstart/data/botchan.model");
    let spec = VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: model.to_string(),
        extra_ids: 2,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    });
    spec.build().expect("the vocabulary is there")
}

fn bytes() -> Arc<dyn Vocabulary> {
    VocabularySpec::Byte(ByteVocabulary::of(3)).build().expect("it needs no file")
}

fn texts(texts: &[&str]) -> AnswerSet {
    AnswerSet::Choices(Choices::Texts(texts.iter().map(|text| text.to_string()).collect()))
}

fn pattern(pattern: &str) -> AnswerSet {
    AnswerSet::Pattern(pattern.to_string())
}

fn constraint(set: &AnswerSet, vocabulary: &dyn Vocabulary) -> Result<Constraint, ConstraintError> {
    Constraint::new(set, &Target { vocabulary, ends: &[1] })
}

/// All sequences of a set within so many tokens, each without its end.
fn all(constraint: &Constraint, room: usize) -> Vec<Vec<i64>> {
    let (mut found, mut open) = (Vec::new(), vec![Vec::new()]);
    while let Some(tokens) = open.pop() {
        let state = constraint.state(&tokens).expect("it goes on");
        let allowed = constraint.allowed(state, room - tokens.len());
        assert!(!allowed.is_empty(), "{tokens:?} is a dead end");
        for &token in allowed.iter() {
            match token {
                1 => found.push(tokens.clone()),
                _ => open.push([&tokens[..], &[token]].concat()),
            }
        }
    }
    found
}

fn decoded(vocabulary: &dyn Vocabulary, tokens: &[i64]) -> String {
    let ids: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
    vocabulary.decode(&ids)
}

/// Checks that a set has exactly these texts, and allows the vocabulary's own tokens of each.
fn check(set: &AnswerSet, vocabulary: &dyn Vocabulary, room: usize, expected: &[&str]) {
    let constraint = constraint(set, vocabulary).expect("it can be decoded");
    let found = all(&constraint, room);
    let texts: BTreeSet<String> = found.iter().map(|ids| decoded(vocabulary, ids)).collect();
    assert_eq!(texts, expected.iter().map(|text| text.to_string()).collect());
    for text in expected {
        let own: Vec<i64> = vocabulary.encode(text).into_iter().map(i64::from).collect();
        assert!(own.len() >= room || found.contains(&own), "{text}: {own:?}");
    }
}

#[test]
fn choices_are_the_lines_and_one_may_begin_another() {
    let lines = ["school", "school of the town", "I have"];
    check(&texts(&lines), &*pieces(), 20, &lines);
    check(&texts(&["é", "éa", "b"]), &*bytes(), 8, &["é", "éa", "b"]);
}

#[test]
fn a_pattern_allows_all_pieces_of_the_texts_that_match() {
    let vocabulary = pieces();
    let expected = ["I have a cat", "I have a cats", "I have one cat", "I have one cats"];
    check(&pattern("I have (a|one) cats?"), &*vocabulary, 20, &expected);
    // The leftmost alternative is not the only one.
    check(&pattern("^(a|ab|abc)$"), &*vocabulary, 9, &["a", "ab", "abc"]);
    // A first space is in the text only where the expression has it.
    check(&pattern(" ?the"), &*vocabulary, 9, &["the"]);
    check(&pattern("(?i:ab)|no{0,1}"), &*bytes(), 9, &["AB", "Ab", "aB", "ab", "n", "no"]);
    check(&pattern("[é-ê]|"), &*bytes(), 9, &["é", "ê", ""]);
}

#[test]
fn a_text_that_could_not_end_in_time_is_never_begun() {
    check(&pattern("a*"), &*bytes(), 4, &["", "a", "aa", "aaa"]);
    check(&pattern("(abc)*|d"), &*bytes(), 6, &["", "abc", "d"]);
}

#[test]
fn sentinels_and_special_tokens_are_no_part_of_a_pattern() {
    let vocabulary = pieces();
    let any = constraint(&pattern("(?s).*"), &*vocabulary).expect("it can be decoded");
    let sentinel = i64::from(vocabulary.first_sentinel_id());
    for state in [Some(0), any.state(&[i64::from(vocabulary.encode("a")[0])])] {
        let allowed = any.allowed(state.expect("every text goes on"), 9);
        assert!([0, 2, sentinel, sentinel - 1].iter().all(|id| !allowed.contains(id)));
        assert!(allowed.len() > vocabulary.vocab_size() - 20 && allowed.contains(&1));
    }
}

#[test]
fn mistakes_are_told() {
    let said = |set: &AnswerSet, vocabulary: &dyn Vocabulary, room: usize| {
        let checked = constraint(set, vocabulary).and_then(|made| made.check_room(room));
        checked.expect_err("it is refused").to_string()
    };
    let vocabulary = pieces();
    for (set, room, part) in [
        (texts(&[]), 9, "`choices` has no answers, expected at least one"),
        (texts(&["a", ""]), 9, "`choices`[1] is empty, expected an answer"),
        (texts(&["a", "☃"]), 9, "`choices`[1]: `☃` has parts that SentencePieceVocabulary("),
        (texts(&["a  b"]), 9, "the tokens of `a  b` are the text `a b`"),
        (texts(&["a</s>b"]), 99, "has parts that"),
        (
            texts(&["a", "I have been at the school"]),
            5,
            "`choices`[1] has 7 tokens with its end, expected at most 5",
        ),
        (pattern("a{3"), 9, "a{3\n     ^^\nerror: "),
        (pattern("[[:^ascii:]--\\w]"), 9, "`pattern` matches no text that the pieces of"),
        (pattern("a\\b"), 9, "expected one of ASCII's: `(?-u:\\b)`"),
        (pattern("(\\w{90}){90}"), 9, "needs an automaton that is too large; expected fewer"),
        (pattern("[0-9]{30}"), 9, "the shortest answer of the set has"),
    ] {
        let said = said(&set, &*vocabulary, room);
        assert!(said.contains(part), "{said}");
    }
    let words = VocabularySpec::PassThrough(crate::vocab::PassThroughVocabulary {
        size: 9,
        eos_id: Some(1),
    });
    let words = words.build().expect("it needs no file");
    assert!(said(&pattern("a"), &*words, 9).contains("`choices` work with every vocabulary"));
    let target = Target { vocabulary: &*vocabulary, ends: &[7] };
    let end = Constraint::new(&texts(&["a"]), &target).expect_err("it is refused").to_string();
    assert!(end.contains("answers of this model end in [7]"), "{end}");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("lines.txt").display().to_string();
    std::fs::write(&file, "a\n\nb\n").expect("the folder can be written");
    let lines = AnswerSet::Choices(Choices::File(file.clone()));
    assert!(said(&lines, &*vocabulary, 9).starts_with(&format!("{file}:2 is empty")));
}
