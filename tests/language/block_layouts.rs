//! Compares layouts of blocks with those that DeepSpeed draws: block_layouts.py writes the reference.

use gimlet::gin::{Configurable, Evaluator, Registry, Request, load};
use gimlet::nn::{BlockGrid, BlockLayout, PythonRandom, SparsityConfig};
use gimlet::run::Library;
use serde::Deserialize;
use serde_json::{Map, Value};

/// `attention.sparsity = ..`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "attention")]
struct Attention {
    /// The layout under test.
    sparsity: SparsityConfig,
}

/// A layout of DeepSpeed.
#[derive(Deserialize)]
struct Case {
    config: String,
    arguments: Map<String, Value>,
    seq_len: usize,
    seed: u64,
    layout: Vec<String>, // of each head its rows
    next_random: f64,    // of Python's generator
}

/// The configuration of a class with these arguments, as gin writes them.
fn sparsity(config: &str, arguments: &[(String, String)]) -> SparsityConfig {
    let arguments = arguments.iter().map(|(name, value)| format!("bert.{config}.{name} = {value}"));
    let statements =
        [format!("attention.sparsity = @bert.{config}()")].into_iter().chain(arguments);
    let bindings = statements.map(|statement| ("case".to_string(), statement)).collect();
    let registry = Registry::default().with::<Attention>();
    let request = Request { bindings, ..Request::default() };
    let loaded = load(&request, &Library, &registry).expect("the statements are correct");
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let attention = evaluator.evaluate_in::<Attention>("");
    attention.unwrap_or_else(|_| panic!("{:?}", evaluator.into_diagnostics())).sparsity
}

/// A number, a truth or a list of numbers as gin writes it.
fn gin(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        other => other.to_string(),
    }
}

fn rows(layout: &BlockLayout) -> Vec<String> {
    let all = 0..layout.num_blocks();
    let digit = |reads| if reads { '1' } else { '0' };
    let of_head = |head: &BlockGrid| {
        let row = |row| all.clone().map(|column| digit(head.reads(row, column))).collect();
        all.clone().map(row).collect::<Vec<String>>().join(" ")
    };
    layout.heads().iter().map(of_head).collect()
}

#[test]
fn layouts_and_the_numbers_that_they_draw_are_those_of_deepspeed() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("block_layouts.json")).expect("it is JSON");
    for case in cases {
        let arguments: Vec<(String, String)> =
            case.arguments.iter().map(|(name, value)| (name.clone(), gin(value))).collect();
        let config = sparsity(&case.config, &arguments);
        let mut random = PythonRandom::new(case.seed);
        let layout = config.layout(case.seq_len, &mut random).expect("DeepSpeed draws it");
        assert_eq!(rows(&layout), case.layout, "{config:?}");
        assert_eq!(random.random(), case.next_random, "{config:?}");
    }
}

#[test]
fn a_cropped_layout_has_the_first_rows_and_columns() {
    let config = sparsity("FixedSparsityConfig", &[("num_heads".to_string(), "1".to_string())]);
    let layout = config.layout(96, &mut PythonRandom::new(0)).expect("it is correct");
    assert_eq!(rows(&layout), ["111101 111101 111101 111101 000111 000111"]);
    // 70 positions have a fifth block, of 6.
    assert_eq!(rows(&layout.cropped(70)), ["11110 11110 11110 11110 00011"]);
    assert_eq!(layout.cropped(96), layout);
}

#[test]
fn the_mean_number_of_keys_follows_the_pairs_of_blocks() {
    let config = sparsity("FixedSparsityConfig", &[("num_heads".to_string(), "1".to_string())]);
    let layout = config.layout(96, &mut PythonRandom::new(0)).expect("it is correct");
    assert_eq!(layout.mean_keys(96), 16.0 * 26.0 / 6.0);
    assert_eq!(layout.mean_keys(64), 64.0);
}

/// Compares the message for rows of 64 positions in blocks of 16.
fn refused(config: &str, arguments: &[(&str, &str)], expected: &str) {
    let all = [("num_heads", "2")].iter().chain(arguments);
    let arguments: Vec<(String, String)> =
        all.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let found = sparsity(config, &arguments).layout(64, &mut PythonRandom::new(0));
    assert_eq!(found.expect_err("it is a mistake"), format!("bert.{config}.{expected}"));
}

#[test]
fn parameters_that_contradict_each_other_or_the_length_are_refused() {
    let fixed =
        |arguments: &[_], expected: &str| refused("FixedSparsityConfig", arguments, expected);
    fixed(&[("block", "24")], "block is 24, expected a divisor of the greatest length of rows, 64");
    fixed(&[("block", "0")], "block is 0, expected at least 1");
    fixed(
        &[("num_global_blocks", "3")],
        "num_local_blocks is 4, expected a multiple of num_global_blocks, 3",
    );
    let different = ("different_layout_per_head", "True");
    fixed(
        &[("num_different_global_patterns", "2")],
        "num_different_global_patterns is 2, expected 1, or different_layout_per_head = True",
    );
    fixed(
        &[("num_different_global_patterns", "5"), different],
        "num_different_global_patterns is 5, expected 1 to num_local_blocks / num_global_blocks, 4 / 1 = 4",
    );
    let horizontal = [("attention", "'unidirectional'"), ("horizontal_global_attention", "True")];
    let expected =
        "horizontal_global_attention is True, expected False where attention is 'unidirectional'";
    fixed(&horizontal, expected);
    refused("VariableSparsityConfig", &horizontal, expected);
    refused(
        "VariableSparsityConfig",
        &[("local_window_blocks", "[2, 0]")],
        "local_window_blocks is [2, 0], expected a list of numbers that are at least 1",
    );
    refused(
        "BSLongformerSparsityConfig",
        &[("global_block_end_indices", "[0]")],
        "global_block_end_indices is [0], expected None, or for each number of global_block_indices, [0], a greater one",
    );
    let big_bird =
        |arguments: &[_], expected: &str| refused("BigBirdSparsityConfig", arguments, expected);
    big_bird(
        &[("num_random_blocks", "5")],
        "num_random_blocks is 5, expected at most 4, the blocks of a row of the greatest length",
    );
    big_bird(
        &[("num_random_blocks", "2"), ("attention", "'unidirectional'")],
        "num_random_blocks is 2, expected at most 1 where attention is 'unidirectional': the first block reads itself",
    );
    refused(
        "LocalSlidingWindowSparsityConfig",
        &[("num_sliding_window_blocks", "5")],
        "num_sliding_window_blocks is 5, expected at most 4, the blocks of a row of the greatest length",
    );
    let listed =
        |rows: &str, expected: &str| refused("ListedSparsityConfig", &[("rows", rows)], expected);
    listed(
        "['1111']",
        "rows is a list of 1 texts, expected 4 or 8 rows: of one head or of all, one for each block of a row of the greatest length",
    );
    for row in ["11111", "0000", "1121"] {
        let expected = format!(
            "rows is a list with '{row}', expected a 0 or 1 in each for each of the 4 blocks of a row of the greatest length, and \
             not only 0"
        );
        listed(&format!("['1000', '{row}', '1110', '1111']"), &expected);
    }
}

#[test]
fn listed_blocks_are_those_of_one_head_or_of_each() {
    let check = |listed: &str, expected: [&str; 2]| {
        let arguments = [("num_heads", "2"), ("rows", listed)];
        let arguments = arguments.map(|(name, value)| (name.to_string(), value.to_string()));
        let config = sparsity("ListedSparsityConfig", &arguments);
        let layout = config.layout(32, &mut PythonRandom::new(0)).expect("it is correct");
        assert_eq!(rows(&layout), expected);
    };
    check("['10', '11']", ["10 11", "10 11"]);
    check("['10', '11', '01', '10']", ["10 11", "01 10"]);
}
