//! The flags that make up a configuration: gin files and bindings, and options for reading them.

use clap::{Args, Command};

use crate::data::Caches;
use crate::gin::{Request, SkipUnknown, module_of_file};

/// Encloses, inside a `--gin_bindings` value, the flag that the user typed.
const TYPED_AS: char = '\u{1}';

/// Gin files and bindings, and options for reading them.
#[derive(Args, Clone, Debug, Default)]
pub struct GinFileArgs {
    /// Gin file; may be repeated, later files win.
    #[arg(long = "gin_file", value_name = "FILE")]
    pub gin_file: Vec<String>,
    /// Bind X to V, which wins over every file; may be repeated: `--gin.TRAIN_STEPS=100`.
    // `bindings` rewrites these flags before clap sees them; here they are documented.
    #[arg(long = "gin.X", value_name = "V", require_equals = true)]
    pub gin_x: Option<String>,
    /// Gin statement that wins over every file; may be repeated. `--gin.X=V` is short for
    /// `--gin_bindings='X = V'`.
    #[arg(long = "gin_bindings", alias = "gin_param", value_name = "BINDING")]
    pub gin_bindings: Vec<String>,
    /// Folders in which gin files and task files are searched, after the working directory.
    #[arg(
        long = "gin_search_paths",
        value_name = "DIR,...",
        value_delimiter = ',',
        default_value = "."
    )]
    pub gin_search_paths: Vec<String>,
    /// Drop bindings of configurables that are not known: all, or those with these selectors.
    #[arg(
        long = "skip_unknown",
        value_name = "SELECTOR,...",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub skip_unknown: Option<Vec<String>>,
}

/// Reads the value of `--module_import`, which is no file's name.
pub fn parse_module(text: &str) -> Result<String, String> {
    match module_of_file(text) {
        None => Ok(text.to_string()),
        Some(module) => Err(format!(
            "expected a module as gin's `import` names it, found a file; the module is `{module}`"
        )),
    }
}

/// Flags that make up the configuration of a run.
#[derive(Args, Clone, Debug)]
pub struct GinArgs {
    /// Gin files and bindings.
    #[command(flatten)]
    pub files: GinFileArgs,
    /// Folder of TFDS datasets.
    #[arg(long = "tfds_data_dir", value_name = "DIR")]
    pub tfds_data_dir: Option<String>,
    /// Folders with cached tasks.
    #[arg(long = "seqio_additional_cache_dirs", value_name = "DIR,...", value_delimiter = ',')]
    pub seqio_additional_cache_dirs: Vec<String>,
    /// Treat warnings as errors.
    #[arg(long = "strict")]
    pub strict: bool,
    /// Local folder to read instead of a bucket or hub dataset: gs://t5-data=DIR; for tfds:// a folder in
    /// any storage. May be repeated, and comes before those of the variable GIMLET_PATH_MAP.
    #[arg(long = "path_map", value_name = "PREFIX=DIR")]
    pub path_map: Vec<String>,
    /// The flags with which `gimlet cache` finds the tasks, if they are not those of the gin files: the run's own
    /// program takes others.
    #[arg(skip)]
    pub task_flags: Option<Vec<String>>,
}

impl GinFileArgs {
    /// Returns the texts to load.
    pub fn request(&self) -> Request {
        Request {
            files: self.gin_file.clone(),
            bindings: self.bindings(),
            search_paths: self.gin_search_paths.clone(),
            skip_unknown: self.skip_unknown(),
            ..Request::default()
        }
    }

    /// Puts files and a binding before all others, which win over them; `flag` names the binding in messages.
    pub fn precede(&mut self, files: Vec<String>, binding: Option<(&str, String)>) {
        self.gin_file.splice(0..0, files);
        let bound = binding.map(|(flag, statement)| marked(flag, &statement));
        self.gin_bindings.splice(0..0, bound);
    }

    /// Adds a binding that a flag stands for, which wins over those before it.
    pub fn bind(&mut self, flag: &str, statement: &str) {
        self.gin_bindings.push(marked(flag, statement));
    }

    /// `(flag as typed, statement)` of each binding, in order.
    pub fn bindings(&self) -> Vec<(String, String)> {
        self.gin_bindings.iter().map(|text| typed(text)).collect()
    }

    /// Converts the flag; without a value, it means all.
    fn skip_unknown(&self) -> SkipUnknown {
        match &self.skip_unknown {
            None => SkipUnknown::No,
            Some(names) if names.iter().all(String::is_empty) => SkipUnknown::All,
            Some(names) => SkipUnknown::Named(names.clone()),
        }
    }
}

impl GinArgs {
    /// Returns the folders with caches of a run's tasks, and the flags with which `gimlet cache` finds
    /// the same tasks.
    pub fn caches(&self) -> Caches {
        let mut flags = Vec::new();
        if self.files.gin_search_paths.iter().any(|folder| folder != ".") {
            flags.push(format!("--gin_search_paths={}", self.files.gin_search_paths.join(",")));
        }
        flags.extend(self.task_flags.clone().unwrap_or_else(|| self.file_flags()));
        flags.extend(self.path_map.iter().map(|entry| format!("--path_map={entry}")));
        Caches { folders: self.seqio_additional_cache_dirs.clone(), task_flags: flags }
    }

    /// Returns the flags that name the gin files and bindings.
    fn file_flags(&self) -> Vec<String> {
        let files = self.files.gin_file.iter();
        let mut flags: Vec<String> = files.map(|file| format!("--gin_file={file}")).collect();
        // A flag of the run's own, which stands for a binding, says nothing about its tasks.
        let bindings =
            self.files.bindings().into_iter().filter(|(flag, _)| flag.starts_with("--gin"));
        flags.extend(bindings.map(|(flag, statement)| {
            let name = flag.strip_prefix("--gin.").map(|name| format!("{name} = "));
            let value = name.and_then(|name| statement.strip_prefix(&name).map(str::to_string));
            format!("{flag}={}", value.unwrap_or(statement))
        }));
        flags.extend(
            self.files
                .skip_unknown
                .iter()
                .map(|names| format!("--skip_unknown={}", names.join(","))),
        );
        flags
    }
}

/// Reads words that are nothing but such flags; `None` if others are among them.
pub fn parse_flags<T: Args>(words: Vec<String>) -> Option<T> {
    let command = T::augment_args(Command::new("gimlet").args_override_self(true));
    let words = ["gimlet".to_string()].into_iter().chain(bindings(words).ok()?);
    T::from_arg_matches(&command.try_get_matches_from(words).ok()?).ok()
}

/// Rewrites `--gin.X=V` to `--gin_bindings=X = V`, as T5X's `rewrite_gin_args` does. Words after `--` stay as they
/// are.
///
/// # Errors
/// `--gin.X` without `=`.
pub fn bindings(words: Vec<String>) -> Result<Vec<String>, anyhow::Error> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (words, rest) = words.split_at(end);
    let bound = words.iter().cloned().map(binding);
    bound.chain(rest.iter().cloned().map(Ok)).collect()
}

/// Returns `(flag as typed, statement)` of a value of `--gin_bindings`.
fn typed(binding: &str) -> (String, String) {
    match binding.strip_prefix(TYPED_AS).and_then(|marked| marked.split_once(TYPED_AS)) {
        Some((flag, statement)) => (flag.to_string(), statement.to_string()),
        None => ("--gin_bindings".to_string(), binding.to_string()),
    }
}

fn binding(arg: String) -> Result<String, anyhow::Error> {
    let Some(binding) = arg.strip_prefix("--gin.") else { return Ok(arg) };
    let Some((name, value)) = binding.split_once('=') else {
        anyhow::bail!("gin bindings must be of the form '--gin.<param>=<value>', got: {arg}");
    };
    let statement = marked(&format!("--gin.{name}"), &format!("{name} = {value}"));
    Ok(format!("--gin_bindings={statement}"))
}

/// Returns a value of `--gin_bindings` that says which flag was typed.
fn marked(flag: &str, statement: &str) -> String {
    format!("{TYPED_AS}{flag}{TYPED_AS}{statement}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_a_run_find_its_tasks_again() {
        let flags = [
            "--gin_file=a.gin",
            "--gin_search_paths=x,y",
            "--gin.MODEL_DIR='/m'",
            "--gin_bindings=import b",
            "--path_map=gs://c=d",
            "--seqio_additional_cache_dirs=e",
        ];
        let gin: GinArgs = parse_flags(flags.map(str::to_string).to_vec()).expect("well formed");
        let caches = gin.caches();
        assert_eq!(caches.folders, ["e"]);
        let expected = [
            "--gin_search_paths=x,y",
            "--gin_file=a.gin",
            "--gin.MODEL_DIR='/m'",
            "--gin_bindings=import b",
            "--path_map=gs://c=d",
        ];
        assert_eq!(caches.task_flags, expected);
    }
}
