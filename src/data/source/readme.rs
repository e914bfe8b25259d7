//! The `configs` in the front matter of a data set's README on the hub.
//!
//! ```text
//! ---
//! configs:
//! - config_name: en
//!   default: true
//!   data_files:
//!   - split: train
//!     path: en/train-*
//! ---
//! ```
//! Only a part of YAML is supported: nested lists and maps by indentation, plain and quoted text,
//! and `[lists, in, brackets]`.

use std::collections::BTreeMap;

use super::patterns::FilePattern;

/// One configuration of a data set.
#[derive(Debug, Default, PartialEq)]
pub(super) struct HubConfig {
    pub name: String,
    pub is_default: bool,
    pub data_dir: Option<String>,
    /// Split to globs.
    pub data_files: BTreeMap<String, FilePattern>,
}

/// A piece of YAML.
#[derive(Debug, PartialEq)]
enum Yaml {
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

/// The configurations that a README lists; none if it has no `configs`.
pub(super) fn configs_of(readme: &str) -> Result<Vec<HubConfig>, String> {
    let mut lines = readme.lines().map(str::trim_end);
    if lines.next() != Some("---") {
        return Ok(Vec::new());
    }
    let front: Vec<&str> = lines.take_while(|line| *line != "---").collect();
    let Some(start) = front.iter().position(|line| line.starts_with("configs:")) else {
        return Ok(Vec::new());
    };
    let is_inner = |line: &&&str| line.is_empty() || line.starts_with([' ', '-', '#']);
    let inner: Vec<Line> =
        front[start + 1..].iter().take_while(is_inner).filter_map(|line| Line::new(line)).collect();
    let Yaml::List(configs) = block(&mut &inner[..])? else {
        return Err("expected a list".to_string());
    };
    configs.iter().map(config).collect()
}

fn config(yaml: &Yaml) -> Result<HubConfig, String> {
    let Yaml::Map(entries) = yaml else { return Err("expected `config_name: ...`".to_string()) };
    let mut config = HubConfig::default();
    for (key, value) in entries {
        match (&key[..], value) {
            ("config_name", Yaml::Text(name)) => config.name = name.clone(),
            ("default", Yaml::Text(text)) => config.is_default = text == "true",
            ("data_dir", Yaml::Text(folder)) => config.data_dir = Some(folder.clone()),
            ("data_files", files) => config.data_files = data_files(files)?,
            _ => {}
        }
    }
    Ok(config)
}

/// A pattern or several patterns for 'train', or entries of `split` and `path`.
fn data_files(yaml: &Yaml) -> Result<BTreeMap<String, FilePattern>, String> {
    let entries = match yaml {
        Yaml::List(entries) if entries.iter().any(|entry| matches!(entry, Yaml::Map(_))) => entries,
        Yaml::Map(splits) => {
            let split = |(name, files): &(String, Yaml)| Ok((name.clone(), patterns(files)?));
            return splits.iter().map(split).collect();
        }
        files => return Ok(BTreeMap::from([("train".to_string(), patterns(files)?)])),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let Yaml::Map(fields) = entry else { return Err("expected `split: ...`".to_string()) };
        let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, v)| v);
        match (field("split"), field("path")) {
            (Some(Yaml::Text(split)), Some(files)) => {
                found.insert(split.clone(), patterns(files)?);
            }
            _ => return Err("an entry of `data_files` lacks `split` or `path`".to_string()),
        }
    }
    Ok(found)
}

fn patterns(yaml: &Yaml) -> Result<FilePattern, String> {
    let texts = match yaml {
        Yaml::Text(text) => vec![text.clone()],
        Yaml::List(items) => {
            let text = |item: &Yaml| match item {
                Yaml::Text(text) => Ok(text.clone()),
                _ => Err("expected a list of file patterns".to_string()),
            };
            items.iter().map(text).collect::<Result<_, _>>()?
        }
        Yaml::Map(_) => return Err("expected file patterns".to_string()),
    };
    Ok(FilePattern(texts))
}

/// A line that is not blank, and its indentation.
#[derive(Clone, Debug)]
struct Line {
    indent: usize,
    text: String,
}

impl Line {
    fn new(line: &str) -> Option<Self> {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        (!text.is_empty() && !text.starts_with('#'))
            .then(|| Self { indent, text: text.to_string() })
    }
}

/// Parses the list or map of the next lines.
fn block(lines: &mut &[Line]) -> Result<Yaml, String> {
    let Some(first) = lines.first() else { return Err("the value is missing".to_string()) };
    let indent = first.indent;
    if !is_item(&first.text) {
        return map(lines, indent);
    }
    let mut items = Vec::new();
    while let Some(line) = lines.first().filter(|line| line.indent == indent && is_item(&line.text))
    {
        let rest = line.text[1..].trim_start();
        let inner = indent + line.text.len() - rest.len();
        if rest.is_empty() {
            *lines = &lines[1..];
            items.push(block(lines)?);
        } else if key_of(rest).is_some() {
            // The item's first entry follows the dash and is parsed like a separate line.
            let mut own = vec![Line { indent: inner, text: rest.to_string() }];
            let count = lines[1..].iter().take_while(|line| line.indent >= inner).count();
            own.extend_from_slice(&lines[1..=count]);
            *lines = &lines[count + 1..];
            let mut own = &own[..];
            items.push(map(&mut own, inner)?);
        } else {
            items.push(scalar(rest));
            *lines = &lines[1..];
        }
    }
    Ok(Yaml::List(items))
}

fn map(lines: &mut &[Line], indent: usize) -> Result<Yaml, String> {
    let mut entries = Vec::new();
    while let Some(line) = lines.first().filter(|line| line.indent == indent) {
        let Some((key, value)) = key_of(&line.text) else { break };
        *lines = &lines[1..];
        let value = match value {
            "" => {
                // Lists may have the same indentation as their key.
                let is_inner = |line: &&Line| {
                    line.indent > indent || (line.indent == indent && is_item(&line.text))
                };
                match lines.first().filter(is_inner) {
                    Some(_) => block(lines)?,
                    None => Yaml::Text(String::new()),
                }
            }
            value => scalar(value),
        };
        entries.push((key.to_string(), value));
    }
    match lines.first().filter(|line| line.indent >= indent && !is_item(&line.text)) {
        Some(line) => Err(format!("`{}` is not understood", line.text)),
        None => Ok(Yaml::Map(entries)),
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn key_of(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once(':')?;
    let is_key = key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let fits = is_key && (value.is_empty() || value.starts_with(' '));
    fits.then(|| (key, value.trim()))
}

fn scalar(text: &str) -> Yaml {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = inner.split(',').map(str::trim).filter(|item| !item.is_empty());
        return Yaml::List(items.map(scalar).collect());
    }
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote)
            && let Some((inner, _)) = inner.split_once(quote)
        {
            return Yaml::Text(inner.to_string());
        }
    }
    let comment = text.find(" #").unwrap_or(text.len());
    Yaml::Text(text[..comment].trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration with the patterns of each split.
    type Config<'a> = (&'a str, &'a [(&'a str, &'a [&'a str])]);

    fn check(readme: &str, expected: &[Config<'_>]) {
        let configs = configs_of(readme).unwrap();
        let shown: Vec<_> = configs
            .iter()
            .map(|config| {
                let files = config.data_files.iter();
                let files = files.map(|(split, FilePattern(globs))| (split.clone(), globs.clone()));
                (config.name.clone(), files.collect::<Vec<_>>())
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, files)| {
                let globs = |globs: &&[&str]| globs.iter().map(|glob| glob.to_string()).collect();
                let files = files.iter().map(|(split, files)| (split.to_string(), globs(files)));
                (name.to_string(), files.collect::<Vec<(String, Vec<String>)>>())
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn configurations_are_read_in_every_way_the_hub_writes_them() {
        let readme = "---\nlicense: mit\nconfigs:\n- config_name: en\n  default: true\n  \
                      data_files:\n  - split: train\n    path: en/train-*  # all\n  - split: test\n    \
                      path:\n    - \"a.csv\"\n    - 'b.csv'\n- config_name: fr\n  data_files: \
                      [\"x.json\", y.json]\n- config_name: de\n  data_dir: de\n  data_files:\n    \
                      train: t.json\ntags:\n- x\n---\n# Title\nconfigs:\n";
        check(
            readme,
            &[
                ("en", &[("test", &["a.csv", "b.csv"]), ("train", &["en/train-*"])]),
                ("fr", &[("train", &["x.json", "y.json"])]),
                ("de", &[("train", &["t.json"])]),
            ],
        );
        assert!(configs_of(readme).unwrap()[0].is_default);
        check("# no front matter\n", &[]);
        check("---\nlicense: mit\n---\n", &[]);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let readme = "---\nconfigs:\n- config_name: a\n  data_files:\n  - split: train\n---\n";
        assert!(configs_of(readme).unwrap_err().contains("lacks `split` or `path`"));
        assert!(configs_of("---\nconfigs:\n- a: b\n  ? c\n---\n").is_err());
    }
}
