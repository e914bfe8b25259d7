//! Derived values equal Python's results, and print as text that reads back.

use gimlet::gin::{
    Diagnostics, Expression, FileId, Loaded, MacroUse, Operator, Registry, Request, Span, Value,
    ValueKind, configurable, load, parse_value, registry_of, tree,
};
use gimlet::run::Library;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::golden::folder;

/// A configurable that takes anything.
fn anything() -> Registry {
    let file = r#"{"configurables": [{"selector": "m.f", "kwargs": true}]}"#;
    registry_of([("m.json", file)]).expect("a schema")
}

/// The macros of reference.py, and the texts.
fn loaded(texts: &[&str], registry: &Registry) -> Result<Loaded, Diagnostics> {
    let macros = [
        "A = 7",
        "B = -3",
        "C = 0.1",
        "D = 1e999",
        "Y = True",
        "N = None",
        "Z = 0",
        "E = 1000000000000000000000000000000",
        "T = \"a'b\"",
    ];
    let bind = |text: &&str| (text.to_string(), text.to_string());
    let bindings = macros.iter().chain(texts).map(bind).collect();
    load(&Request { bindings, ..Request::default() }, &Library, registry)
}

/// Returns the value of `f.x = text`, or the first line of the error.
fn value_of(text: &str, others: &[&str]) -> Result<String, String> {
    let registry = anything();
    let binding = format!("f.x = {text}");
    let loaded = loaded(&[&[binding.as_str()], others].concat(), &registry)
        .map_err(|diagnostics| diagnostics.list[0].message.clone())?;
    let root = configurable("f", &loaded, &registry).expect("it is declared");
    Ok(tree(&loaded.config, &registry, root)["f.x"].clone())
}

#[test]
fn dicts_have_one_text_whatever_the_order_of_their_entries() {
    for text in [r"{'b': 7, 'a': [1]}", r"{'a': [1], 'b': 7}"] {
        assert_eq!(value_of(text, &[]).as_deref(), Ok("{'a': [1], 'b': 7}"), "{text}");
    }
}

#[test]
fn expressions_come_to_what_python_computes() {
    let text = std::fs::read_to_string(folder("derived.json")).expect("made by reference.py");
    let cases: Vec<(String, String)> = serde_json::from_str(&text).expect("pairs of texts");
    for (text, expected) in cases {
        match (value_of(&text, &[]), expected.strip_suffix("Error")) {
            (Ok(found), None) => assert_eq!(found.replace("1e999", "inf"), expected, "{text}"),
            (Err(message), Some(error)) => {
                let says = match error {
                    "ZeroDivision" => "division by zero",
                    "Type" => "needs numbers",
                    "Name" => "is not defined",
                    other => panic!("{text}: Python raises {other}Error"),
                };
                assert!(message.contains(says), "{text}: {message}");
            }
            (found, _) => panic!("{text}: found {found:?}, Python gives {expected}"),
        }
    }
}

#[test]
fn results_stay_small() {
    let squares: Vec<String> =
        (0..20).map(|i| format!("M{} = %(M{i} * M{i})", i + 1)).chain(["M0 = 2".into()]).collect();
    let squares: Vec<&str> = squares.iter().map(String::as_str).collect();
    assert_eq!(
        value_of("%(M3 + 0)", &squares[..3].iter().chain(&["M0 = 2"]).copied().collect::<Vec<_>>()),
        Ok("256".into())
    );
    assert_eq!(value_of("%M20", &squares), Err("the result has too many digits".into()));
    let doubled: Vec<String> = (0..30)
        .map(|i| format!("S{} = f'{{S{i}}}{{S{i}}}'", i + 1))
        .chain(["S0 = 'ab'".into()])
        .collect();
    let doubled: Vec<&str> = doubled.iter().map(String::as_str).collect();
    assert_eq!(value_of("%S30", &doubled), Err("the text is longer than 1048576 bytes".into()));
}

#[test]
fn macros_that_lead_back_to_themselves_are_found_in_expressions() {
    for (text, other) in
        [("%X", "X = %(X + 1)"), ("%(X + 1)", "X = f'{X}'"), ("1", "X = [%(X * 2)]")]
    {
        assert_eq!(
            value_of(text, &[other]),
            Err("macro `X` is defined by itself".into()),
            "{other}"
        );
    }
}

#[test]
fn what_no_typed_parameter_reads_is_computed_too() {
    for other in ["X = %(1 / Z)", "X = {'a': [%(1 / Z)]}", "s/f.y = (%(1 / Z),)"] {
        assert_eq!(value_of("1", &[other]), Err("division by zero".into()), "{other}");
    }
    assert_eq!(value_of("f'{X}'", &["X = [1]"]), Err("a list cannot stand in a text".into()));
    assert_eq!(
        value_of("%(1.5 + X)", &[&format!("X = 1{}", "0".repeat(400))]),
        Err("an integer is too large for a float".into())
    );
}

fn leaf(kind: ValueKind) -> Expression {
    let span = Span { file: FileId(0), start: 0, end: 0 };
    Expression::Value(Box::new(Value { kind, span }))
}

/// Numbers are written without a sign: a sign is an operator.
fn operand() -> impl Strategy<Value = Expression> {
    let name = |scope: Vec<&str>, name: &str| {
        let scope = scope.into_iter().map(str::to_string).collect();
        leaf(ValueKind::Macro(MacroUse { scope, name: name.to_string() }))
    };
    prop_oneof![
        any::<u64>().prop_map(|int| leaf(ValueKind::Int(int.into()))),
        (0.0..1e300).prop_map(|float| leaf(ValueKind::Float(float))),
        "[a-zA-Z_][a-z0-9_]{0,6}".prop_map(move |text| name(Vec::new(), &text)),
        Just(name(vec!["s", "t"], "M")),
    ]
}

fn arithmetic() -> impl Strategy<Value = Expression> {
    use Operator::{Add, Divide, FloorDivide, Modulo, Multiply, Subtract};
    let operator = prop::sample::select(vec![Add, Subtract, Multiply, Divide, FloorDivide, Modulo]);
    operand().prop_recursive(5, 40, 2, move |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Expression::Negative(Box::new(inner))),
            (inner.clone(), operator.clone(), inner).prop_map(|(left, operator, right)| {
                Expression::Operation(Box::new(left), operator, Box::new(right))
            }),
        ]
    })
}

/// Generates `f'...'` whose pieces of text are between other pieces.
fn interpolated() -> impl Strategy<Value = Expression> {
    let piece = any::<String>().prop_filter("a piece has characters", |text| !text.is_empty());
    let pair = (arithmetic(), piece.prop_map(|text| leaf(ValueKind::Str(text))));
    prop::collection::vec(pair, 1..4).prop_map(|pairs| {
        Expression::Text(pairs.into_iter().flat_map(|(value, text)| [value, text]).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0), failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_printed_expression_reads_back(expression in prop_oneof![arithmetic(), interpolated()]) {
        let text = expression.to_string();
        let read = parse_value(FileId(0), &text).unwrap_or_else(|error| panic!("{text}\n{error:?}"));
        prop_assert_eq!(read.kind, plain(expression), "{}", text);
    }
}

/// A single operand in `%( )` is an expression too.
fn plain(expression: Expression) -> ValueKind {
    ValueKind::Computed(expression)
}
