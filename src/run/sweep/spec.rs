//! `gimlet.Sweep`: the values that a sweep goes through.

use crate::gin::{Configurable, Diagnostic, Evaluator, FromGin, Reported, Value, ValueKind};

/// The points of `gimlet sweep`: every combination of the values in `grid`, with each place of the lists in `zip`, with each seed. A
/// name that begins with `--` is a flag of the command, and one in braces, `{task}`, a part of its words; any other is the name of a
/// gin binding, `BATCH_SIZE` or `optim.AdamW.weight_decay`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.Sweep")]
pub struct Sweep {
    /// A dict from names to lists of values, all of which are combined. The last name changes fastest.
    #[gin(default = Axes::default())]
    pub grid: Axes,
    /// A dict from names to lists of values of one length, which change together, faster than those of `grid`.
    #[gin(default = Axes::default())]
    pub zip: Axes,
    /// Values of the macro RANDOM_SEED, which change fastest; none leaves the seed to the command.
    #[gin(default = Vec::new())]
    pub seeds: Vec<i64>,
    /// The name of a point, which is also that of its folder: `'lr{lr}/run_{run}'`. A name in braces stands for the value that the
    /// point has, and the part of it after the last point or slash suffices; `{run}` is the place of its seed, from 1, and `{index}` the number of the point, from 0. By default
    /// all values: `lr=0.001,RANDOM_SEED=1`.
    #[gin(default = None)]
    pub name: Option<String>,
}

/// Names with the values that each takes, in the order written. A macro may give a list; values in it are not evaluated, since the
/// command of a point reads them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axes(
    /// Names of flags, parts or bindings, with at least one value each.
    pub Vec<(String, Vec<Value>)>,
);

impl FromGin for Axes {
    fn expected() -> String {
        "a dict from names of bindings, flags or parts of the command to lists of values"
            .to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Dict(entries) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let read = |(key, values): &(Value, Value)| {
            let name = cx.read::<String>(key)?;
            let values = &cx.read::<Value>(values)?;
            let (ValueKind::List(items) | ValueKind::Tuple(items)) = &values.kind else {
                return Err(cx.mismatch(values, &format!("a list of the values of `{name}`")));
            };
            if items.is_empty() {
                let message = format!("`{name}` has no values, so the sweep has no points");
                return Err(cx.report(Diagnostic::error(values.span, message)));
            }
            Ok((name, items.clone()))
        };
        entries.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn to_gin(&self) -> Option<ValueKind> {
        let text = |name: &String| Value::unplaced(ValueKind::Str(name.clone()));
        let list = |values: &Vec<Value>| Value::unplaced(ValueKind::List(values.clone()));
        let entry = |(name, values): &(String, Vec<Value>)| (text(name), list(values));
        Some(ValueKind::Dict(self.0.iter().map(entry).collect()))
    }
}
