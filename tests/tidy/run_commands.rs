//! The command in the first comment of each file of `runs/`, as users type it.

use std::fs;
use std::path::{Path, PathBuf};

use gimlet::gin::{Loaded, Request, load};
use gimlet::run::{Library, registry};

/// A file of `runs/` with its command.
#[derive(Clone)]
pub struct RunCommand {
    /// Its path below the package.
    pub file: String,
    /// The words after `gimlet train`, without the shell's quotes.
    pub words: Vec<String>,
}

impl RunCommand {
    /// The values of a flag, in order.
    pub fn values(&self, flag: &str) -> Vec<String> {
        let start = format!("{flag}=");
        self.words.iter().filter_map(|word| word.strip_prefix(&start)).map(str::to_string).collect()
    }

    /// Loads its gin files and bindings.
    pub fn loaded(&self) -> Result<Loaded, String> {
        let of_flag = |word: &String| {
            let (name, value) = word.strip_prefix("--gin.")?.split_once('=')?;
            Some(format!("{name} = {value}"))
        };
        let bindings = self.words.iter().filter_map(of_flag).chain(self.values("--gin_bindings"));
        let request = Request {
            files: self.values("--gin_file"),
            bindings: bindings.map(|text| ("flag".to_string(), text)).collect(),
            search_paths: self.values("--gin_search_paths"),
            ..Request::default()
        };
        load(&request, &Library, &registry()).map_err(|diagnostics| diagnostics.render(false))
    }

    /// The command with more words.
    pub fn with(&self, words: impl IntoIterator<Item = String>) -> Self {
        Self { file: self.file.clone(), words: self.words.iter().cloned().chain(words).collect() }
    }
}

/// Returns the trainings among the files of `runs/`, by their paths.
pub fn run_commands() -> Vec<RunCommand> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("runs are readable");
        let file = path.strip_prefix(root).expect("it is below the package").display().to_string();
        Some(RunCommand { file, words: command(&text, "gimlet train ")? })
    };
    gin_files("runs").into_iter().filter_map(of).collect()
}

/// Returns the words after `start` in the comments of a file; a line that ends in `\` continues.
pub fn command(text: &str, start: &str) -> Option<Vec<String>> {
    let comments = text.lines().filter_map(|line| line.strip_prefix('#')).map(str::trim);
    let mut lines = comments.skip_while(|line| !line.starts_with(start));
    let mut command = String::new();
    loop {
        let line = lines.next()?;
        match line.strip_suffix('\\') {
            Some(part) => command += part,
            None => break command += line,
        }
    }
    Some(words(&command[start.len()..]))
}

/// Splits as a shell does, for double quotes only.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in command.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().expect("there is one").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// All gin files below a folder of the package, in order.
pub fn gin_files(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("folders are readable") {
            let path = entry.expect("entries are readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "gin") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
