//! Span corruption of whole data sets.

use gimlet::data::{
    AppendEos, DataError, DatasetOptions, ExampleOptions, Rekey, SpanCorruption, Tokenize,
    get_dataset, random_spans_helper, task_examples,
};
use gimlet::vocab::ByteVocabulary;

use super::*;

const VOCAB_SIZE: i32 = 259 + 100;

fn span_corruption_task(folder: &tempfile::TempDir, merge: bool) -> Task {
    let source = text_source(&format!("{}/*.txt", folder.path().display()));
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(100));
    let key_map = BTreeMap::from([("targets".to_string(), Some("text".to_string()))]);
    let preprocessors = vec![
        Preprocessor::Rekey(Rekey { key_map }),
        Preprocessor::Tokenize(Tokenize { copy_pretokenized: true, with_eos: false }),
        Preprocessor::SpanCorruption(SpanCorruption {
            merge_examples_to_reduce_padding: merge,
            ..SpanCorruption::default()
        }),
        Preprocessor::AppendEos(AppendEos {}),
    ];
    task("spans", source, preprocessors, features(&vocabulary, &["inputs", "targets"]))
}

fn folder_of_documents(documents: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), documents.join("\n")).unwrap();
    folder
}

/// Inserts each span of the targets at its sentinel in the inputs; both end in EOS.
fn reassemble(inputs: &[i32], targets: &[i32]) -> String {
    let (Some((1, inputs)), Some((1, targets))) = (inputs.split_last(), targets.split_last())
    else {
        panic!("an EOS is missing");
    };
    let is_sentinel = |id: &i32| *id >= 259;
    let sentinels = |ids: &[i32]| ids.iter().copied().filter(is_sentinel).collect::<Vec<_>>();
    let descending: Vec<i32> =
        (0..sentinels(targets).len() as i32).map(|i| VOCAB_SIZE - 1 - i).collect();
    assert_eq!(sentinels(targets), descending, "sentinels count down from the last id");
    assert!(sentinels(targets).starts_with(&sentinels(inputs)));
    let noise: Vec<&[i32]> = targets.split(is_sentinel).skip(1).collect();
    let mut bytes = Vec::new();
    for (i, kept) in inputs.split(is_sentinel).enumerate() {
        bytes.extend_from_slice(kept);
        bytes.extend_from_slice(noise.get(i).copied().unwrap_or_default());
    }
    String::from_utf8(bytes.iter().map(|id| u8::try_from(id - 3).unwrap()).collect()).unwrap()
}

#[test]
fn lengths_are_those_of_t5() {
    for (inputs, density, mean, expected) in [
        (512, 0.15, 3.0, (568, 114)),
        (1024, 0.15, 3.0, (1137, 229)),
        (256, 0.15, 3.0, (284, 58)),
        (128, 0.15, 3.0, (141, 29)),
        (512, 0.5, 3.0, (766, 512)),
        (64, 0.2, 2.0, (70, 22)),
        (64, 0.2, 1.0, (63, 27)),
    ] {
        assert_eq!(random_spans_helper(inputs, density, mean), expected, "{inputs} {density}");
    }
}

#[test]
fn inputs_and_targets_restore_the_text_of_all_documents() {
    let documents: Vec<String> =
        (0..300).map(|i| format!("document {i} ") + &"ab".repeat(i % 40)).collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).chain([""]).collect();
    let folder = folder_of_documents(&documents);
    for merge in [true, false] {
        let lengths = [("inputs".to_string(), 128), ("targets".to_string(), 29)];
        let options = ExampleOptions {
            split: "train".to_string(),
            lengths: Some(BTreeMap::from(lengths)),
            ..ExampleOptions::default()
        };
        let mut text = String::new();
        let mut full = 0;
        let mut count = 0;
        for example in task_examples(&span_corruption_task(&folder, merge), &options).unwrap() {
            let example = example.unwrap();
            let (inputs, targets) =
                (example.ints("inputs").unwrap(), example.ints("targets").unwrap());
            text.push_str(&reassemble(inputs, targets));
            full += usize::from(inputs.len() == 128 && targets.len() == 29);
            count += 1;
        }
        assert_eq!(text, documents.concat());
        if merge {
            // Only the last piece of each 128 documents is short, so that there is hardly any
            // padding.
            assert!(full >= count - 3, "{full} of {count} fill their lengths");
        }
    }
}

#[test]
fn targets_too_short_say_which_binding_to_change() {
    let folder = folder_of_documents(&["x"]);
    let tasks = tasks([span_corruption_task(&folder, true)]);
    let found = get_dataset(&config("spans", (512, 100)), &tasks, DatasetOptions::default());
    let error = found.err().unwrap();
    assert!(matches!(error, DataError::TargetsTooShort { needed: 114, .. }));
    assert_eq!(
        error.to_string(),
        "expected targets length for span corruption (114) is greater than configured targets \
         length (100); set TASK_FEATURE_LENGTHS = {'inputs': 512, 'targets': 114}"
    );
}
