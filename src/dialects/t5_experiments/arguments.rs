//! The words of a command line as Python's argparse reads them, after transformers' `HfArgumentParser` has declared
//! the fields of the Trainer. Source: CPython `argparse.py`, transformers 4.17 `hf_argparser.py`.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;

use gimlet_gin::{Json, did_you_mean, repr_str};

use super::flags::{Effect, Flag, Kind, OF_LAUNCHER, OWN};

/// The beginning of a word that binds a value of gin.
const BINDING: &str = "--gin.";

/// The values of a program's flags.
#[derive(Clone, Debug)]
pub struct Arguments {
    flags: Vec<&'static Flag>,
    given: BTreeMap<&'static str, Json>,
    /// `(flag as typed, statement)` of each `--gin.NAME=VALUE`.
    pub bindings: Vec<(String, String)>,
}

impl Arguments {
    /// Reads the words after a program's name; of a flag that is repeated, the last value counts.
    ///
    /// # Errors
    /// The first word that is no flag, or a flag whose value is missing or of another form.
    pub fn parse(tables: &[&'static [Flag]], words: &[String]) -> Result<Self, String> {
        let flags = tables.iter().copied().chain([OWN]).flatten().collect();
        let mut arguments = Self { flags, given: BTreeMap::new(), bindings: Vec::new() };
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            if let Some(binding) = word.strip_prefix(BINDING) {
                let Some((name, value)) = binding.split_once('=') else {
                    return Err(format!("`{word}` has no value, expected `{word}=VALUE`"));
                };
                let statement = format!("{name} = {value}");
                arguments.bindings.push((format!("{BINDING}{name}"), statement));
                continue;
            }
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let flag = arguments.find(name)?;
            let value = joined.or_else(|| match flag.kind {
                Kind::Switch => None,
                _ => words.next_if(|next| !is_flag(next)),
            });
            arguments.given.insert(flag.name, read(flag, value)?);
        }
        Ok(arguments)
    }

    /// Finds a flag by its name, or by the beginning of one name only.
    fn find(&self, word: &str) -> Result<&'static Flag, String> {
        let names = || self.flags.iter().map(|flag| flag.name);
        let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) else {
            return Err(format!(
                "`{word}` belongs to no flag, expected words that begin with `--`"
            ));
        };
        let flags = || self.flags.iter().copied();
        let begun: Vec<_> = flags().filter(|flag| flag.name.starts_with(name)).collect();
        match (flags().find(|flag| flag.name == name), &begun[..]) {
            (Some(flag), _) => Ok(flag),
            (None, [flag]) => Ok(flag),
            (None, []) => {
                let help = did_you_mean(&name.replace('-', "_"), names());
                Err(format!("there is no flag `{word}`: {help}"))
            }
            (None, several) => {
                let several: Vec<_> = several.iter().map(|it| format!("`--{}`", it.name)).collect();
                Err(format!("`{word}` is short for several flags: {}", several.join(", ")))
            }
        }
    }

    /// Returns the value of a flag; null if the program has no such flag.
    fn value(&self, name: &str) -> Json {
        let flag = self.flags.iter().find(|flag| flag.name == name);
        let given = self.given.get(name).cloned();
        given.or_else(|| flag.map(|flag| default(flag))).unwrap_or(Json::Null)
    }

    /// Whether the program has a flag.
    pub fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag.name == name)
    }

    /// Whether the program fine-tunes.
    pub fn is_tuning(&self) -> bool {
        self.has("from_pretrained")
    }

    /// Whether the program pretrains a BERT.
    pub fn is_bert(&self) -> bool {
        self.has("use_nsp")
    }

    /// Whether the program leaves devices and formats of numbers to Accelerate.
    pub fn is_for_accelerate(&self) -> bool {
        !self.has("fp16")
    }

    /// Whether a flag of Adafactor is on, which fine-tuning on SCROLLS leaves at the optimizer's own default.
    pub fn adafactor(&self, flag: &str) -> bool {
        if self.has(flag) { self.is(flag) } else { flag != "warmup_init" }
    }

    /// Whether the run has data for validations, which the data sets of SCROLLS always have.
    pub fn has_valid_data(&self) -> bool {
        !self.has("valid_data_path") || self.text("valid_data_path").is_some()
    }

    /// Returns a text; `None` if it is not given and has no default. An empty text counts as none, as in Python.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Json::Text(text) => Some(text).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// Returns a whole number; `None` if it is not given and has no default.
    pub fn int(&self, name: &str) -> Option<i128> {
        match self.value(name) {
            Json::Int(number) => Some(number),
            _ => None,
        }
    }

    /// Returns a number; `None` if it is not given and has no default.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Json::Float(number) => Some(number),
            _ => None,
        }
    }

    /// Returns a value as gin writes it.
    pub fn gin(&self, name: &str) -> String {
        match self.value(name) {
            Json::Text(text) => repr_str(&text),
            Json::Bool(true) => "True".to_string(),
            Json::Bool(false) => "False".to_string(),
            Json::Null => "None".to_string(),
            number => number.dumps(),
        }
    }

    /// Returns a path where the program looks for it, which changes to `--working_dir` first.
    pub fn path(&self, name: &str) -> Option<String> {
        let path = self.text(name)?;
        Some(if name == "working_dir" { at_home(path) } else { self.in_working_dir(path) })
    }

    /// Returns a path where the program looks for it.
    pub fn in_working_dir(&self, path: String) -> String {
        let path = at_home(path).trim_end_matches('/').to_string();
        let folder = at_home(self.text("working_dir").unwrap_or_default());
        let is_whole = path.starts_with('/') || path.contains("://");
        if is_whole || folder == "." { path } else { format!("{folder}/{path}") }
    }

    /// Returns the steps between validations; `None` if there are no data for them, or no interval.
    pub fn valid_interval(&self) -> Option<i128> {
        if !self.has_valid_data() {
            return None;
        }
        let interval = self.int("valid_interval").or_else(|| self.int("log_interval"));
        interval.filter(|steps| *steps > 0)
    }

    /// Whether a switch is on.
    pub fn is(&self, name: &str) -> bool {
        self.value(name) == Json::Bool(true)
    }

    /// Returns the given flags whose value is not the default.
    pub fn changed(&self) -> impl Iterator<Item = &'static Flag> {
        let is_changed = |flag: &&&'static Flag| self.value(flag.name) != default(flag);
        self.flags.iter().filter(is_changed).copied()
    }

    /// Returns every argument of the program with its value, in the order of `config.json`.
    pub fn record(&self) -> Vec<(String, Json)> {
        let is_own = |flag: &&Flag| OWN.iter().chain(OF_LAUNCHER).any(|own| own.name == flag.name);
        let recorded = self.flags.iter().copied().filter(|flag| !is_own(flag));
        recorded.map(|flag| (flag.name.to_string(), self.value(flag.name))).collect()
    }
}

/// Puts the user's home for `~`, as Python's `expanduser` does.
fn at_home(path: String) -> String {
    match (path.strip_prefix('~'), env::var("HOME")) {
        (Some(rest), Ok(home)) if rest.is_empty() || rest.starts_with('/') => home + rest,
        _ => path,
    }
}

/// Whether argparse takes a word for a flag, and not for the value of one.
fn is_flag(word: &str) -> bool {
    let digits = |text: &str| text.chars().all(|letter| letter.is_ascii_digit());
    let is_number = |text: &str| match text.split_once('.') {
        Some((whole, part)) => digits(whole) && digits(part) && !part.is_empty(),
        None => digits(text) && !text.is_empty(),
    };
    let is_value = |text: &str| text.is_empty() || is_number(text) || text.contains(' ');
    word.strip_prefix('-').is_some_and(|text| !is_value(text))
}

/// Returns the value that a flag has if it is not given.
fn default(flag: &Flag) -> Json {
    match (flag.kind, flag.default) {
        (_, "None") => Json::Null,
        // The default of a number may be a whole one, which `config.json` shows.
        (Kind::Float, text) => text.parse().map(Json::Int).unwrap_or_else(|_| typed(flag, text)),
        (_, text) => typed(flag, text),
    }
}

/// Reads a default of the table.
fn typed(flag: &Flag, text: &str) -> Json {
    let value = match flag.kind {
        Kind::Switch => Ok(Json::Bool(false)),
        _ => read(flag, Some(text)),
    };
    value.expect("a default of the table has the form of its flag")
}

/// Reads a flag's value.
fn read(flag: &Flag, value: Option<&str>) -> Result<Json, String> {
    let name = flag.name;
    let Some(text) = value else {
        return match flag.kind {
            Kind::Switch | Kind::Bool => Ok(Json::Bool(true)),
            _ => Err(format!("`--{name}` has no value, expected `--{name} VALUE`")),
        };
    };
    let number = text.trim().replace('_', "");
    let (read, expected) = match flag.kind {
        Kind::Switch => (None, "no value"),
        Kind::Bool => (truth(text).map(Json::Bool), "True or False"),
        Kind::Text => (Some(Json::Text(text.to_string())), "a text"),
        Kind::Int => (number.parse().ok().map(Json::Int), "a whole number"),
        Kind::Float => (number.parse().ok().map(Json::Float), "a number"),
    };
    read.ok_or_else(|| format!("`--{name}` is `{text}`, expected {expected}"))
}

/// Reads a truth value in any of the spellings of `HfArgumentParser`.
fn truth(text: &str) -> Option<bool> {
    match &text.to_lowercase()[..] {
        "yes" | "true" | "t" | "y" | "1" => Some(true),
        "no" | "false" | "f" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// Describes the flags of a program: form, default and part in the run.
pub fn help(tables: &[&'static [Flag]]) -> String {
    let mut out = String::new();
    let is_tuning = tables.iter().copied().flatten().any(|flag| flag.name == "from_pretrained");
    for flag in tables.iter().copied().chain([OWN]).flatten() {
        let form = match flag.kind {
            Kind::Text => " TEXT",
            Kind::Int => " N",
            Kind::Float => " X",
            Kind::Bool => " [True|False]",
            Kind::Switch => "",
        };
        let effect = match flag.effect {
            Effect::Translated => String::new(),
            Effect::InTuning(_) if is_tuning => String::new(),
            Effect::InTuning(reason) | Effect::Nothing(reason) => format!("; no effect: {reason}"),
            Effect::With(other) => format!("; with --{other}"),
        };
        let left = format!("--{}{form}", flag.name);
        let _ = writeln!(out, "  {left:<36} default {}{effect}", flag.default);
    }
    out + "  --gin.NAME=VALUE                     bind a value of gin, which wins over the flags\n"
}

#[cfg(test)]
mod tests {
    use super::super::PROGRAMS;
    use super::*;

    /// The tables of a program.
    fn tables(name: &str) -> &'static [&'static [Flag]] {
        PROGRAMS.iter().find(|program| program.name == name).expect(name).flags
    }

    fn parse(line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Arguments::parse(tables("t5"), &words)
    }

    fn check(line: &str, flag: &str, expected: &Json) {
        let arguments = parse(line).unwrap_or_else(|message| panic!("{line}: {message}"));
        assert_eq!(arguments.value(flag), *expected, "{line}");
    }

    /// Python 3.9 and transformers 4.17 read the same.
    #[test]
    fn words_are_read_as_argparse_reads_them() {
        let text = |text: &str| Json::Text(text.to_string());
        check("--lr 1e-02", "lr", &Json::Float(0.01));
        check("--lr=5", "lr", &Json::Float(5.0));
        check("--lr -5", "lr", &Json::Float(-5.0));
        check("--lr 1 --lr 2", "lr", &Json::Float(2.0));
        check("--iters 1_000", "iters", &Json::Int(1000));
        check("--grad 2", "gradient_accumulation_steps", &Json::Int(2));
        check("--save_best", "save_best", &Json::Bool(true));
        check("--save_best --lr 1", "save_best", &Json::Bool(true));
        check("--save_best False", "save_best", &Json::Bool(false));
        check("--save_best=y", "save_best", &Json::Bool(true));
        check("--scale_parameter", "scale_parameter", &Json::Bool(true));
        check("", "max_loss_scale", &Json::Int(16_777_216));
        check("", "weight_decay", &Json::Float(0.0));
        check("", "lr_drop_eps", &Json::Float(1e-8));
        check("", "model_path", &Json::Null);
        check("--task=prefix_lm", "task", &text("prefix_lm"));
        check("--dry_run", "dry_run", &Json::Bool(true));
    }

    #[test]
    fn words_that_argparse_refuses_are_refused() {
        let refused = |line: &str, part: &str| {
            let message = parse(line).expect_err(line);
            assert!(message.contains(part), "{line}: {message}");
        };
        refused("--batchsize 4", "there is no flag `--batchsize`: did you mean `batch_size`?");
        refused("--batch-size 4", "did you mean `batch_size`?");
        refused("--lr_drop 1", "`--lr_drop` is short for several flags: `--lr_drop_factor`");
        refused("--iters 1.5", "`--iters` is `1.5`, expected a whole number");
        refused("--lr -1e-5", "`--lr` has no value");
        refused("--lr", "`--lr` has no value, expected `--lr VALUE`");
        refused("--save_best maybe", "`--save_best` is `maybe`, expected True or False");
        refused("--scale_parameter=True", "`--scale_parameter` is `True`, expected no value");
        refused("--scale_parameter True", "`True` belongs to no flag");
        refused("-lr 1", "`-lr` belongs to no flag");
        refused("--gin.a", "`--gin.a` has no value");
    }

    #[test]
    fn every_flag_of_the_help_fits_its_table() {
        let help = help(tables("t5"));
        assert_eq!(help.lines().count(), tables("t5").concat().len() + OWN.len() + 1);
        let line = help.lines().find(|line| line.contains("--fp16_allreduce")).expect("listed");
        assert!(line.contains("[True|False]") && line.contains("no effect: gradients"), "{line}");
        let generates = |help: &str| {
            let mut lines = help.lines();
            let line = lines.find(|line| line.contains("--use_generate_on_valid")).expect("listed");
            !line.contains("no effect")
        };
        assert!(!generates(&help));
        assert!(
            generates(&super::help(tables("hyp"))) && generates(&super::help(tables("scrolls")))
        );
    }
}
