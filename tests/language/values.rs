//! Values print as in Python, and read back.

use gimlet::gin::{FileId, Span, Value, ValueKind, parse_value, pformat};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::golden::folder;

fn read(text: &str) -> Value {
    parse_value(FileId(0), text).unwrap_or_else(|error| panic!("{text}\n{error:#?}"))
}

#[test]
fn values_print_as_python_prints_them() {
    let text = std::fs::read_to_string(folder("values.json")).expect("made by reference.py");
    let cases: Vec<serde_json::Value> =
        serde_json::from_str(&text).expect("reference.py writes JSON");
    for case in cases {
        let repr = case["repr"].as_str().expect("a case has its repr");
        let value = read(repr);
        assert_eq!(value.to_string(), repr);
        for entry in case["pformat"].as_array().expect("a case has layouts") {
            let width = entry[0].as_u64().expect("a width") as usize;
            assert_eq!(Some(pformat(&value, width).as_str()), entry[1].as_str(), "width {width}");
        }
    }
}

fn value(kind: ValueKind) -> Value {
    Value { kind, span: Span { file: FileId(0), start: 0, end: 0 } }
}

/// Any value that holds neither references nor macros.
pub fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(ValueKind::None),
        any::<bool>().prop_map(ValueKind::Bool),
        any::<i128>().prop_map(|int| ValueKind::Int(int.into())),
        any::<f64>().prop_filter("nan has no literal", |x| !x.is_nan()).prop_map(ValueKind::Float),
        any::<String>().prop_map(ValueKind::Str),
        "[ -~\n]{0,100}".prop_map(ValueKind::Str),
        any::<Vec<u8>>().prop_map(ValueKind::Bytes),
    ]
    .prop_map(value);
    scalar.prop_recursive(4, 64, 8, |item| {
        let items = || prop::collection::vec(item.clone(), 0..8);
        prop_oneof![
            items().prop_map(ValueKind::List),
            items().prop_map(ValueKind::Tuple),
            prop::collection::btree_map("\\PC{0,12}", item.clone(), 0..8).prop_map(|entries| {
                let key = |key| value(ValueKind::Str(key));
                ValueKind::Dict(entries.into_iter().map(|(k, v)| (key(k), v)).collect())
            }),
        ]
        .prop_map(value)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0), failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_printed_value_reads_back(value in any_value(), width in 1usize..100) {
        prop_assert_eq!(&read(&value.to_string()), &value);
        let multi_line = format!("({})", pformat(&value, width));
        prop_assert_eq!(&read(&multi_line), &value);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[ab.=/@%'\"\\[\\](){}:,#\\\\\n\t 01-\u{e9}]{0,60}") {
        let _ = gimlet::gin::parse(FileId(0), &text);
        let _ = parse_value(FileId(0), &text);
    }
}
