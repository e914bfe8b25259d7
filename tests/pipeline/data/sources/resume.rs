//! Training continues at its position, with every source.

use gimlet::data::{DatasetOptions, DatasetState, get_dataset};

use super::*;

/// Takes batches, saves the position, takes more, and then takes those again from the position.
#[track_caller]
fn check_resume(source_and_steps: &str, features: BTreeMap<String, Feature>) {
    let text = format!(
        "it/seqio.Task:\n  output_features = {{}}\n{}",
        source_and_steps.replace("FOLDER", &folder().display().to_string())
    );
    let task = Task { output_features: features, ..task_of(text) };
    let tasks = tasks([Task { name: Some("ids".to_string()), ..task }]);
    let config = DatasetConfig { shuffle: true, ..config("ids", (24, 6)) };
    let start = |resume: Option<DatasetState>| {
        get_dataset(&config, &tasks, DatasetOptions { resume, ..DatasetOptions::default() })
            .unwrap()
    };
    let mut whole = start(None);
    for before in [1, 2, 4] {
        take(&mut whole, before);
        let state = serde_json::to_string(&whole.state()).unwrap();
        let expected = take(&mut whole, 5);
        assert_eq!(expected.len(), 5);
        let mut resumed = start(Some(serde_json::from_str(&state).unwrap()));
        assert_eq!(take(&mut resumed, 5), expected);
    }
}

#[test]
fn rows_and_arrays_and_generated_examples_resume() {
    let of_ids = features(&ids_vocabulary(), &["inputs", "targets"]);
    let rekeyed =
        "  preprocessors = [@rekey()]\nrekey.key_map = {'inputs': 'ids', 'targets': 'ids'}\n";
    for (source, file) in [
        ("ParquetDataSource", "rows.parquet"),
        ("ArrowDataSource", "rows.arrow"),
        ("ArrowDataSource", "rows.stream"),
        ("JsonLinesDataSource", "array.json"),
    ] {
        let text = format!(
            "  source = @seqio.{source}()\n{rekeyed}\
             seqio.{source}.split_to_filepattern = {{'train': 'FOLDER/{file}'}}\n"
        );
        check_resume(&text, of_ids.clone());
    }
    let generated = "  source = @seqio.GeneratedDataSource()\n  preprocessors = []\n\
                     GeneratedDataSource:\n  num_examples = {'train': 30}\n  kind = 'ids'\n  \
                     features = ['inputs', 'targets']\n  max_length = 6\n  vocab_size = 900\n";
    check_resume(generated, of_ids);
}

#[test]
fn few_shot_examples_resume() {
    let bytes = VocabularySpec::Byte(gimlet::vocab::ByteVocabulary::of(0));
    for fixed in ["False", "True"] {
        let text = format!(
            "  source = @FewshotDataSource()\n  preprocessors = [@fewshot_preprocessor(), \
             @seqio.preprocessors.tokenize()]\nFewshotDataSource:\n  original_source = \
             @seqio.CsvDataSource()\n  num_shots = 2\n  train_preprocessors = [@rekey()]\n  \
             eval_preprocessors = [@rekey()]\n  eval_on_fixed_exemplars = {fixed}\n  train_split = \
             'shots'\nseqio.CsvDataSource.split_to_filepattern = {{'train': 'FOLDER/table.csv', \
             'shots': 'FOLDER/table.csv'}}\nrekey.key_map = {{'inputs': 'text', 'targets': \
             'count'}}\n"
        );
        check_resume(&text, features(&bytes, &["inputs", "targets"]));
    }
}
