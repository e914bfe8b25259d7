//! t5's `unsupervised` tasks, whose objective a run defines in gin: the bindings of the
//! published operative configurations, all of which are read.

use gimlet::data::{Example, ExampleOptions, TaskProvider, task_examples};
use gimlet::run::{GinTasks, Library, registry};

use super::*;

/// The declarations of t5's tasks, to which the run's bindings apply too.
const TASKS: &str = "
byte/seqio.ByteVocabulary.extra_ids = 100
byte/seqio.Feature.vocabulary = @byte/seqio.ByteVocabulary()
book/seqio.TextLineDataSource.split_to_filepattern = {'train': 'PATTERN'}
rekey/seqio.preprocessors.rekey.key_map = {'targets': 'text'}
unsupervised_book/seqio.Task:
  source = @book/seqio.TextLineDataSource()
  preprocessors = [
    @rekey/seqio.preprocessors.rekey(),
    @seqio.preprocessors.tokenize(),
    @t5.data.preprocessors.unsupervised(),
    @seqio.preprocessors.append_eos(),
  ]
  output_features = {'inputs': @byte/optional/seqio.Feature(), 'targets': @byte/seqio.Feature()}
byte/optional/seqio.Feature.required = False
";

const SPANS: &str = "
inputs_length = 64
noise_density = 0.15
mean_noise_span_length = 3.0
preprocessors.unsupervised.preprocessors = [
    @preprocessors.select_random_chunk,
    @preprocessors.reduce_concat_tokens,
    @preprocessors.split_tokens,
    @preprocessors.denoise,
]
preprocessors.select_random_chunk.feature_key = 'targets'
preprocessors.select_random_chunk.max_length = 65536
preprocessors.reduce_concat_tokens.feature_key = 'targets'
preprocessors.reduce_concat_tokens.batch_size = 128
preprocessors.split_tokens.feature_key = 'targets'
preprocessors.split_tokens.max_tokens_per_segment = @preprocessors.random_spans_tokens_length()
preprocessors.denoise.inputs_fn = @preprocessors.noise_span_to_unique_sentinel
preprocessors.denoise.noise_density = %noise_density
preprocessors.denoise.noise_mask_fn = @preprocessors.random_spans_noise_mask
preprocessors.denoise.targets_fn = @preprocessors.nonnoise_span_to_unique_sentinel
preprocessors.random_spans_helper.extra_tokens_per_span_inputs = 1
preprocessors.random_spans_helper.extra_tokens_per_span_targets = 1
preprocessors.random_spans_helper.inputs_length = %inputs_length
preprocessors.random_spans_helper.mean_noise_span_length = %mean_noise_span_length
preprocessors.random_spans_helper.noise_density = %noise_density
preprocessors.random_spans_noise_mask.mean_noise_span_length = %mean_noise_span_length
";

const BERT_LIKE: &str = "
preprocessors.unsupervised.preprocessors = [
    @preprocessors.select_random_chunk,
    @preprocessors.reduce_concat_tokens,
    @preprocessors.split_tokens_to_inputs_length,
    @preprocessors.denoise,
]
preprocessors.select_random_chunk.max_length = 65536
preprocessors.denoise.inputs_fn = @preprocessors.noise_token_to_random_token_or_sentinel
preprocessors.denoise.noise_density = 0.15
preprocessors.denoise.noise_mask_fn = @preprocessors.iid_noise_mask
preprocessors.denoise.targets_fn = None
preprocessors.noise_token_to_random_token_or_sentinel.random_prob = 0.2
preprocessors.noise_token_to_random_token.num_reserved_tokens = 3
preprocessors.sentinel_id.return_value = 300
";

const PREFIX: &str = "
preprocessors.unsupervised.preprocessors = [
    @preprocessors.select_random_chunk,
    @preprocessors.split_tokens_to_inputs_length,
    @preprocessors.denoise,
]
preprocessors.select_random_chunk.max_length = 65536
preprocessors.denoise.inputs_fn = @preprocessors.drop_nonnoise_tokens
preprocessors.denoise.noise_density = 0.5
preprocessors.denoise.noise_mask_fn = @preprocessors.random_prefix_noise_mask
preprocessors.denoise.targets_fn = @preprocessors.drop_noise_tokens
";

/// Ids of inputs and targets.
type Pair = (Vec<i32>, Vec<i32>);

/// Returns `(inputs, targets)` of the task under a run's bindings, and the warnings.
fn examples(run: &str, pattern: &str) -> (Vec<Pair>, Vec<String>) {
    examples_of(run, &TASKS.replace("PATTERN", pattern))
}

/// Does the same for another task file.
fn examples_of(run: &str, tasks: &str) -> (Vec<Pair>, Vec<String>) {
    let registry = registry();
    let mut loaded =
        load_texts(run, tasks).unwrap_or_else(|error| panic!("{}", error.render(false)));
    let train = (String::new(), registry.get("t5x.train.train").unwrap());
    let unread = loaded.settle(&[train], &registry);
    let warnings = unread.iter().map(|warning| warning.message.clone()).collect();
    let TaskOrMixture::Task(task) =
        GinTasks::new(loaded, registry).get("unsupervised_book").unwrap()
    else {
        panic!("a task was expected");
    };
    let lengths = [("inputs".to_string(), 64), ("targets".to_string(), 64)];
    let options = ExampleOptions {
        split: "train".to_string(),
        lengths: Some(BTreeMap::from(lengths)),
        ..ExampleOptions::default()
    };
    let pair = |example: Result<Example, _>| {
        let example = example.unwrap();
        let ids = |key| example.ints(key).unwrap_or_default().to_vec();
        (ids("inputs"), ids("targets"))
    };
    (task_examples(&task, &options).unwrap().map(pair).collect(), warnings)
}

fn book() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> =
        (0..50).map(|i| format!("line {i} ") + &"xyz".repeat(i % 9) + ".").collect();
    std::fs::write(folder.path().join("book.txt"), lines.join("\n")).unwrap();
    let pattern = format!("{}/book.txt", folder.path().display());
    (folder, pattern, lines.concat())
}

/// The bytes of ids as characters, without sentinels and EOS.
fn text(ids: impl IntoIterator<Item = i32>) -> String {
    ids.into_iter()
        .filter(|id| (3..259).contains(id))
        .map(|id| char::from((id - 3) as u8))
        .collect()
}

#[test]
fn span_corruption_made_of_its_parts() {
    let (_folder, pattern, book) = book();
    let (examples, warnings) = examples(SPANS, &pattern);
    assert_eq!(warnings, [""; 0], "all that the run binds is read");
    let whole = &examples[..examples.len() - 1];
    // 70 tokens make inputs of 64 and targets of 14, EOS included.
    assert!(whole.iter().all(|(inputs, targets)| (inputs.len(), targets.len()) == (64, 14)));
    let tokens: usize =
        examples.iter().map(|(i, t)| text(i.clone()).len() + text(t.clone()).len()).sum();
    assert_eq!(tokens, book.len());
}

#[test]
fn random_tokens_and_sentinels_for_noise() {
    let (_folder, pattern, book) = book();
    let (examples, warnings) = examples(BERT_LIKE, &pattern);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(text(examples.iter().flat_map(|(_, targets)| targets.clone())), book);
    let pairs = examples.iter().flat_map(|(inputs, targets)| inputs.iter().zip(targets));
    let (changed, kept): (Vec<_>, Vec<_>) = pairs.partition(|(input, target)| input != target);
    let sentinels = changed.iter().filter(|(input, _)| **input == 300).count();
    assert!(changed.iter().all(|(input, _)| (3..=358).contains(*input)));
    let density = changed.len() as f64 / (changed.len() + kept.len()) as f64;
    assert!((0.11..0.19).contains(&density), "{density}");
    let share = sentinels as f64 / changed.len() as f64;
    assert!((0.7..0.9).contains(&share), "{share}");
}

#[test]
fn a_prefix_and_the_rest() {
    let (_folder, pattern, book) = book();
    let (examples, warnings) = examples(PREFIX, &pattern);
    assert_eq!(warnings, [""; 0]);
    let joined = examples.iter().flat_map(|(inputs, targets)| [inputs, targets]);
    assert_eq!(text(joined.flatten().copied()), book);
}

#[test]
fn a_list_that_is_called_is_refused_with_the_reason() {
    let (_folder, pattern, _) = book();
    let run = "preprocessors.unsupervised.preprocessors = [@preprocessors.denoise()]";
    let error = load_texts(run, &TASKS.replace("PATTERN", &pattern)).err().unwrap();
    let rendered = error.render(false);
    assert!(rendered.contains("drop the parentheses: `@preprocessors.denoise`"), "{rendered}");
}

/// t5's own files, at the paths by which others include them.
#[test]
fn every_objective_of_the_library_is_what_its_name_says() {
    let (_folder, pattern, book) = book();
    let sorted = |text: &str| {
        let mut bytes: Vec<u8> = text.bytes().collect();
        bytes.sort_unstable();
        bytes
    };
    let objectives = Library::files().into_iter().filter_map(|(name, _)| {
        let name = name.strip_prefix("<gimlet>/gin/objectives/")?.strip_suffix(".gin")?;
        Some(name.to_string())
    });
    let objectives: Vec<String> = objectives.collect();
    assert_eq!(objectives.len(), 16);
    for name in objectives {
        let run = format!("include 'objectives/{name}.gin'\ninputs_length = 64");
        let (examples, warnings) = examples(&run, &pattern);
        assert_eq!(warnings, [""; 0], "{name}");
        let inputs = text(examples.iter().flat_map(|(inputs, _)| inputs.clone()));
        let targets = text(examples.iter().flat_map(|(_, targets)| targets.clone()));
        let (input_share, target_share) =
            (inputs.len() as f64 / book.len() as f64, targets.len() as f64 / book.len() as f64);
        match &name[..] {
            "denoise" | "iid_15_m_f" | "iid_15_r10s90_f" => {
                assert_eq!(targets, book, "{name}");
                assert!((0.8..0.9).contains(&input_share), "{name} {input_share}");
            }
            "all_permute" => {
                assert_eq!(targets, book);
                assert!(inputs != book && sorted(&inputs) == sorted(&book));
            }
            "lm" => assert_eq!((&*inputs, &*targets), ("", &*book)),
            _ => {
                assert_eq!(sorted(&(inputs + &targets)), sorted(&book), "{name}");
                let share = match &name[..] {
                    "iid_10_u_u" => 0.1,
                    "iid_25_u_u" => 0.25,
                    "iid_50_u_u" | "prefix_lm" => 0.5,
                    _ => 0.15,
                };
                assert!((target_share - share).abs() < 0.04, "{name} {target_share}");
            }
        }
    }
}

/// In gin a function called by another one runs in the scope of that call.
#[test]
fn functions_run_in_the_scope_of_the_task_that_calls_them() {
    let (_folder, pattern, book) = book();
    let run = "
        preprocessors.unsupervised.preprocessors = [@preprocessors.split_tokens, @preprocessors.denoise]
        preprocessors.split_tokens.max_tokens_per_segment = 40
        preprocessors.denoise:
          noise_density = 1.0
          noise_mask_fn = @preprocessors.iid_noise_mask
          inputs_fn = @preprocessors.noise_token_to_sentinel
        preprocessors.sentinel_id.return_value = 300
        scoped/preprocessors.sentinel_id.return_value = 301
    ";
    let run = run.replace("\n        ", "\n");
    for (scope, id) in [("", 300), ("scoped/", 301)] {
        let tasks = TASKS.replace("PATTERN", &pattern);
        let tasks = tasks.replace("@t5.data.prep", &format!("@{scope}t5.data.prep"));
        let (examples, warnings) = examples_of(&run, &tasks);
        assert_eq!(warnings, [""; 0]);
        let inputs: Vec<i32> = examples.iter().flat_map(|(inputs, _)| inputs.clone()).collect();
        assert!(inputs.iter().all(|&found| found == id || found == 1), "{scope} {inputs:?}");
        assert_eq!(text(examples.into_iter().flat_map(|(_, targets)| targets)), book);
    }
}
