//! Jinja as promptsource's templates use it: Python's notation of values, its methods of strings
//! and lists, promptsource's filters, and randomness that is a function of the example.

use std::fmt;
use std::sync::{Arc, Mutex};

use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, ValueKind, from_args};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use minijinja_contrib::pycompat;

use super::python_str::{python_json, python_str};
use crate::random::Draw;

/// The variable that holds the randomness of the current example.
pub(super) const RANDOMNESS: &str = "__randomness__";

/// An environment for templates.
pub(super) fn environment() -> Environment<'static> {
    let mut out = Environment::new();
    out.set_debug(false);
    out.set_undefined_behavior(UndefinedBehavior::Lenient);
    out.set_auto_escape_callback(|_| AutoEscape::None);
    out.set_formatter(|output, _, value| {
        output.write_str(&python_str(value)).map_err(|error| {
            Error::new(ErrorKind::BadSerialization, "the value cannot be written")
                .with_source(error)
        })
    });
    out.set_unknown_method_callback(python_method);
    out.add_function("zip", zip);
    out.add_filter("choice", choice);
    out.add_filter("random", choice);
    out.add_filter("most_frequent", most_frequent);
    out.add_filter("highlight", |text: String| {
        format!("<span style='color: #F08080'>{text}</span>")
    });
    out.add_filter("string", |value: Value| python_str(&value));
    out.add_filter("tojson", |value: Value| python_json(&value));
    out.add_filter("truncate", truncate);
    out.add_filter("round", round);
    out.add_filter("int", int);
    out.add_filter("float", float);
    out.add_filter("length", length);
    out.add_filter("count", length);
    out
}

/// The random values of one example, passed to its template.
pub(super) struct Randomness(Mutex<Draw>);

impl Randomness {
    /// The value that templates read as [`RANDOMNESS`].
    pub(super) fn value(draw: Draw) -> Value {
        Value::from_object(Self(Mutex::new(draw)))
    }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Randomness")
    }
}

impl Object for Randomness {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// A random item. Python's `random.choice`.
fn choice(state: &State<'_, '_>, items: Value) -> Result<Value, Error> {
    let items: Vec<Value> = items.try_iter()?.collect();
    let randomness = state.lookup(RANDOMNESS);
    let randomness =
        randomness.as_ref().and_then(|value| value.downcast_object_ref::<Randomness>());
    match (randomness, items.len()) {
        (_, 0) => Err(invalid("`choice` of an empty list")),
        (None, _) => Err(invalid("`choice` is random, and answer choices must not be")),
        (Some(randomness), count) => {
            let mut draw = randomness.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            Ok(items[draw.below(count)].clone())
        }
    }
}

/// The most frequent items, in the order of their first occurrences; no items for an empty list.
fn most_frequent(items: Value) -> Result<Value, Error> {
    let mut counts: Vec<(Value, usize)> = Vec::new();
    for item in items.try_iter()? {
        match counts.iter_mut().find(|(known, _)| *known == item) {
            Some((_, count)) => *count += 1,
            None => counts.push((item, 1)),
        }
    }
    let Some(most) = counts.iter().map(|(_, count)| *count).max() else {
        return Ok(Value::from(()));
    };
    let kept = counts.into_iter().filter(|(_, count)| *count == most);
    Ok(kept.map(|(item, _)| item).collect())
}

/// Python's `zip`.
fn zip(lists: Rest<Value>) -> Result<Value, Error> {
    let lists: Result<Vec<Vec<Value>>, Error> =
        lists.iter().map(|list| Ok(list.try_iter()?.collect())).collect();
    let lists = lists?;
    let shortest = lists.iter().map(Vec::len).min().unwrap_or(0);
    let row = |i: usize| lists.iter().map(|list| list[i].clone()).collect::<Value>();
    Ok((0..shortest).map(row).collect())
}

/// Cuts a long text at a space, if there is one. A built-in filter of Jinja.
fn truncate(text: Value, options: Rest<Value>) -> Result<String, Error> {
    type Options = (Option<usize>, Option<bool>, Option<String>, Option<usize>, Kwargs);
    let (length, killwords, end, leeway, named): Options = from_args(&options)?;
    let length = length.or(named.get("length")?).unwrap_or(255);
    let killwords = killwords.or(named.get("killwords")?).unwrap_or(false);
    let end = end.or(named.get("end")?).unwrap_or("...".to_string());
    let leeway = leeway.or(named.get("leeway")?).unwrap_or(5);
    named.assert_all_used()?;
    let text = python_str(&text);
    if text.chars().count() <= length + leeway {
        return Ok(text);
    }
    let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
    let cut = if killwords { None } else { kept.rsplit_once(' ') };
    Ok(format!("{}{end}", cut.map_or(kept.as_str(), |(before, _)| before)))
}

/// Rounds as Python does, halves to even digits. A built-in filter of Jinja.
fn round(
    number: f64,
    precision: Option<usize>,
    method: Option<String>,
    named: Kwargs,
) -> Result<f64, Error> {
    let precision = precision.or(named.get("precision")?).unwrap_or(0);
    let method = method.or(named.get("method")?).unwrap_or("common".to_string());
    named.assert_all_used()?;
    let shift = 10f64.powi(i32::try_from(precision).unwrap_or(i32::MAX));
    match &method[..] {
        "ceil" => Ok((number * shift).ceil() / shift),
        "floor" => Ok((number * shift).floor() / shift),
        // Decimal digits of the exact value, as in Python.
        "common" => format!("{number:.precision$}").parse().map_err(|_| invalid("not a number")),
        _ => Err(invalid("the method of `round` is 'common', 'ceil' or 'floor'")),
    }
}

/// Python's `int`, or a default for a value that is not a number. A built-in filter of Jinja.
fn int(value: Value, default: Option<i64>) -> Result<Value, Error> {
    if value.is_integer() {
        return Ok(value);
    }
    let whole = value.as_str().and_then(|text| text.trim().replace('_', "").parse::<i64>().ok());
    let whole = whole.or_else(|| number(&value).filter(|x| x.is_finite()).map(|x| x as i64));
    if value.is_undefined() {
        return Err(invalid("`int` of an undefined value"));
    }
    Ok(Value::from(whole.unwrap_or(default.unwrap_or(0))))
}

/// Python's `float`, or a default for a value that is not a number. A built-in filter of Jinja.
fn float(value: Value, default: Option<f64>) -> Result<f64, Error> {
    if value.is_undefined() {
        return Err(invalid("`float` of an undefined value"));
    }
    Ok(number(&value).unwrap_or(default.unwrap_or(0.0)))
}

fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value.clone()).ok(),
    }
}

/// The number of items; 0 for an undefined value. A built-in filter of Jinja.
fn length(value: Value) -> Result<usize, Error> {
    match value.len() {
        None if value.is_undefined() => Ok(0),
        Some(count) => Ok(count),
        None => Ok(value.try_iter()?.count()),
    }
}

fn invalid(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// Methods of Python's strings, lists and dicts.
fn python_method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match (value.kind(), method) {
        (ValueKind::String, "index") => {
            let (part,): (&str,) = from_args(args)?;
            let text = value.as_str().unwrap_or_default();
            let place = text.find(part).ok_or_else(|| invalid("`index`: substring not found"))?;
            Ok(Value::from(text[..place].chars().count()))
        }
        (ValueKind::String, "title") => {
            let () = from_args(args)?;
            Ok(Value::from(title(value.as_str().unwrap_or_default())))
        }
        (ValueKind::Seq, "index") => {
            let (wanted,): (&Value,) = from_args(args)?;
            let place = value.try_iter()?.position(|item| item == *wanted);
            place.map(Value::from).ok_or_else(|| invalid("`index`: the item is not in the list"))
        }
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// Python's `str.title`: a letter becomes upper case unless it follows another letter.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_letter = false;
    for c in text.chars() {
        if after_letter {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        after_letter = c.is_lowercase() || c.is_uppercase();
    }
    out
}
