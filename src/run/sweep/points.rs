//! The points of a sweep: their names, and the flags that each adds to the command.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Error, anyhow, bail, ensure};

use crate::gin::{Value, ValueKind};

use super::record::SWEEP_DIR;
use super::spec::{Axes, Sweep};

/// The macro that T5X's runs, ours and t5-experiments' read as their seed.
const SEED: &str = "RANDOM_SEED";
/// The name that stands for the number of a point.
const INDEX: &str = "index";
/// The name that stands for the place of a seed.
const RUN: &str = "run";
/// The characters of a folder's name beside letters and digits.
const IN_NAMES: &str = "._+-";
/// The longest part of a path, in bytes, that every storage takes.
const LONGEST_NAME: usize = 255;

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its name, a relative path.
    pub name: String,
    /// The flags that it adds to the command.
    pub flags: Vec<String>,
    /// The values as texts, by the names of bindings, flags and parts of the command.
    pub values: Vec<(String, String)>,
}

/// The values of a point by name.
type Setting = Vec<(String, Value)>;

impl Sweep {
    /// Returns the points, in order.
    ///
    /// # Errors
    /// Names that are given twice, lists of `zip` with different lengths, points that would share a folder.
    pub fn points(&self) -> Result<Vec<Point>, Error> {
        let settings = self.settings()?;
        let points: Vec<Point> = settings
            .iter()
            .enumerate()
            .map(|(index, setting)| {
                let values = setting.iter().map(|(name, value)| (name.clone(), text(value)));
                let values: Vec<_> = values.collect();
                Ok(Point { name: self.name_of(index, setting)?, flags: flags(setting), values })
            })
            .collect::<Result<_, Error>>()?;
        check_names(&points)?;
        Ok(points)
    }

    fn settings(&self) -> Result<Vec<Setting>, Error> {
        let mut axes: Vec<Vec<Setting>> = self.grid.0.iter().map(alone).collect();
        axes.extend(zipped(&self.zip)?);
        let seed = |seed: &i64| vec![(SEED.to_string(), Value::unplaced((*seed).into()))];
        axes.extend((!self.seeds.is_empty()).then(|| self.seeds.iter().map(seed).collect()));
        ensure!(
            !axes.is_empty(),
            "gimlet.Sweep has no values: bind its grid, as in gimlet.Sweep.grid = {{'BATCH_SIZE': [32, 64]}}"
        );
        let mut seen = BTreeSet::new();
        for (name, _) in axes.iter().flat_map(|axis| &axis[0]) {
            ensure!(seen.insert(name), "gimlet.Sweep gives values of `{name}` twice");
        }
        Ok(axes.iter().fold(vec![Vec::new()], |points, axis| {
            let with =
                |point: &Setting| axis.iter().map(|more| [&point[..], more].concat()).collect();
            points.iter().flat_map(|point| -> Vec<Setting> { with(point) }).collect()
        }))
    }

    fn name_of(&self, index: usize, setting: &Setting) -> Result<String, Error> {
        let Some(template) = &self.name else {
            let part =
                |(name, value): &(String, Value)| format!("{}={}", short(name), label(name, value));
            return Ok(setting.iter().map(part).collect::<Vec<_>>().join(","));
        };
        let mut labels = BTreeMap::from([(INDEX, index.to_string())]);
        for (name, value) in setting {
            labels.insert(short(name), label(name, value));
            labels.insert(name, label(name, value));
        }
        let seed = self.seeds.iter().position(|seed| labels.get(SEED) == Some(&seed.to_string()));
        if let Some(place) = seed {
            labels.insert(RUN, (place + 1).to_string());
        }
        filled(template, &labels)
    }
}

/// The values of one name.
fn alone((name, values): &(String, Vec<Value>)) -> Vec<Setting> {
    values.iter().map(|value| vec![(name.clone(), value.clone())]).collect()
}

/// The values that change together, if there are any.
fn zipped(zip: &Axes) -> Result<Option<Vec<Setting>>, Error> {
    let Some((first, values)) = zip.0.first() else { return Ok(None) };
    for (name, others) in &zip.0 {
        ensure!(
            others.len() == values.len(),
            "gimlet.Sweep.zip has {} values of `{first}` and {} of `{name}`, expected lists of one length",
            values.len(),
            others.len()
        );
    }
    let at = |place: usize| zip.0.iter().map(move |(name, all)| (name.clone(), all[place].clone()));
    Ok(Some((0..values.len()).map(|place| at(place).collect()).collect()))
}

fn flags(setting: &Setting) -> Vec<String> {
    let flag = |(name, value): &(String, Value)| match name.starts_with("--") {
        false => format!("--gin.{name}={value}"),
        true => format!("{name}={}", text(value)),
    };
    setting.iter().filter(|(name, _)| !is_part(name)).map(flag).collect()
}

/// Whether a name is that of a part of the command's words: `{task}`.
pub fn is_part(name: &str) -> bool {
    name.starts_with('{') && name.ends_with('}')
}

/// A value as a word of the command line: a text without its quotes.
fn text(value: &Value) -> String {
    match &value.kind {
        ValueKind::Str(text) => text.clone(),
        _ => value.to_string(),
    }
}

/// The last part of a name: `lr` of `optim.AdamW.lr`, of `--lr` and of `{lr}`.
pub fn short(name: &str) -> &str {
    let name = if is_part(name) { &name[1..name.len() - 1] } else { name };
    name.trim_start_matches("--").rsplit(['.', '/']).next().unwrap_or(name)
}

/// A value as a part of a folder's name: of a path its last part, without the ending of a configuration. That of a part of the command
/// is taken whole, since other words have it too.
fn label(name: &str, value: &Value) -> String {
    if is_part(name) {
        return text(value);
    }
    let text = match &value.kind {
        ValueKind::Str(text) => {
            text.trim_end_matches('/').rsplit('/').next().unwrap_or(text).to_string()
        }
        _ => value.to_string(),
    };
    let text =
        [".gin", ".json"].iter().find_map(|ending| text.strip_suffix(ending)).unwrap_or(&text);
    let is_kept = |c: char| c.is_alphanumeric() || IN_NAMES.contains(c);
    let parts = text.split(|c| !is_kept(c)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("_")
}

/// Replaces the names in braces.
fn filled(template: &str, labels: &BTreeMap<&str, String>) -> Result<String, Error> {
    let mut name = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (key, after) = after.split_once('}').ok_or_else(|| {
            anyhow!("gimlet.Sweep.name is `{template}`, in which a `{{` has no `}}`")
        })?;
        let Some(label) = labels.get(key) else {
            let known: Vec<&str> = labels.keys().copied().collect();
            bail!(
                "gimlet.Sweep.name has `{{{key}}}`, and the sweep gives no values of `{key}`, but of {}",
                known.join(", ")
            );
        };
        name.extend([before, label]);
        rest = after;
    }
    name.push_str(rest);
    Ok(name)
}

fn check_names(points: &[Point]) -> Result<(), Error> {
    let mut seen = BTreeMap::new();
    for point in points {
        let Point { name, flags, .. } = point;
        let longest = name.split('/').map(str::len).max().unwrap_or(0);
        ensure!(
            longest <= LONGEST_NAME,
            "the folder of a point would have a name of {longest} bytes, expected at most {LONGEST_NAME}: give shorter ones \
             with gimlet.Sweep.name"
        );
        ensure!(
            name.split('/').all(|part| !["", ".", "..", SWEEP_DIR].contains(&part)),
            "a point's name would be `{name}`, expected a relative path: see gimlet.Sweep.name"
        );
        if let Some(other) = seen.insert(name, flags) {
            bail!(
                "two points would have the folder `{name}`, those with {} and with {}: give them names that differ with \
                 gimlet.Sweep.name",
                other.join(" "),
                flags.join(" ")
            );
        }
    }
    Ok(())
}
