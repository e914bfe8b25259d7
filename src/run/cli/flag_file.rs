//! `--flagfile`: flags from files. Source: abseil-py `flags/_flagvalues.py`, `read_flags_from_files`.
//!
//! A line is one flag, `--gin_file=my.gin`, without a shell's quotes; blank lines and those that
//! begin with `#` or `//` are skipped; a line `--flagfile=other` reads another file. The flags take
//! the place of the file's name, so that later ones win. absl skips a file that reads itself; here
//! it is an error.

use anyhow::{Context, bail};

use crate::storage::Path;

/// Replaces every `--flagfile=FILE` by the flags of the file.
///
/// # Errors
/// Files that cannot be read, or that read themselves.
pub fn expand(args: Vec<String>) -> Result<Vec<String>, anyhow::Error> {
    let mut out = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let file = match named(&arg) {
            Some(Some(file)) => file.to_string(),
            Some(None) => args.next().with_context(|| format!("`{arg}` names no file"))?,
            None => {
                let is_last = arg == "--";
                out.push(arg);
                if is_last {
                    break;
                }
                continue;
            }
        };
        read(&file, &mut Vec::new(), &mut out)?;
    }
    out.extend(args);
    Ok(out)
}

/// Returns the file in `--flagfile=FILE`; `Some(None)` if the next word names it.
fn named(arg: &str) -> Option<Option<&str>> {
    let flag = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    match flag.strip_prefix("flagfile")? {
        "" => Some(None),
        rest => rest.strip_prefix('=').map(Some),
    }
}

/// Adds the flags of a file; `reading` lists the files that include it.
fn read(file: &str, reading: &mut Vec<String>, out: &mut Vec<String>) -> Result<(), anyhow::Error> {
    let file = at_home(file.trim());
    if file.is_empty() {
        return Ok(());
    }
    reading.push(file.clone());
    if reading.iter().filter(|other| **other == file).count() > 1 {
        bail!("flag file `{file}` reads itself: {}", reading.join(" -> "));
    }
    let text = Path::parse(&file).and_then(|path| path.read());
    let text = text.with_context(|| format!("--flagfile={file} cannot be read"))?;
    let text = String::from_utf8(text).with_context(|| format!("flag file `{file}`"))?;
    for line in text.lines() {
        let is_comment = line.starts_with('#') || line.starts_with("//");
        if is_comment || line.trim().is_empty() {
            continue;
        }
        match named(line) {
            Some(Some(inner)) => read(inner, reading, out)?,
            Some(None) => bail!("flag file `{file}`: expected `--flagfile=FILE`, found `{line}`"),
            None => out.push(line.trim().to_string()),
        }
    }
    reading.pop();
    Ok(())
}

/// Replaces `~/` by the user's home.
fn at_home(file: &str) -> String {
    match (file.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(inner), Ok(home)) => format!("{home}/{inner}"),
        _ => file.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Expands words and files, in which `DIR` stands for a folder with these files; returns words
    /// and folder.
    fn expanded(files: &[(&str, &str)], args: &[&str]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = folder.path().display().to_string();
        for (name, text) in files {
            fs::write(folder.path().join(name), text.replace("DIR", &dir)).expect("it is written");
        }
        let args = args.iter().map(|arg| arg.replace("DIR", &dir)).collect();
        expand(args).map_err(|error| format!("{error:#}").replace(&dir, "DIR"))
    }

    #[test]
    fn flags_stand_where_their_file_is_named() {
        let files = [
            ("a", "# ours\n\n--x=1\n  \n//--y=2\n--flagfile=DIR/b\n  --z='a b'  \n"),
            ("b", "--inner"),
        ];
        let args = ["gimlet", "--first", "-flagfile=DIR/a", "--flagfile", "DIR/b", "--flagfile="];
        let expected = ["gimlet", "--first", "--x=1", "--inner", "--z='a b'", "--inner"];
        assert_eq!(expanded(&files, &args).expect("it can be read"), expected);
        let args = ["--", "--flagfile=DIR/a", "b"];
        assert_eq!(expanded(&[], &args).expect("nothing is read")[0], "--");
    }

    #[test]
    fn a_file_that_reads_itself_is_refused() {
        let files = [("a", "--flagfile=DIR/b\n"), ("b", "--flagfile=DIR/a\n")];
        let error = expanded(&files, &["--flagfile=DIR/a"]).expect_err("it has no end");
        assert_eq!(error, "flag file `DIR/a` reads itself: DIR/a -> DIR/b -> DIR/a");
        // Reading a file twice, one time after the other, is no cycle.
        let files = [("a", "--flagfile=DIR/b\n--flagfile=DIR/b\n"), ("b", "--x")];
        assert_eq!(expanded(&files, &["--flagfile=DIR/a"]).expect("it ends"), ["--x", "--x"]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = expanded(&[], &["--flagfile=DIR/none"]).expect_err("it is missing");
        assert!(error.starts_with("--flagfile=DIR/none cannot be read"), "{error}");
        assert_eq!(
            expanded(&[], &["--flagfile"]).expect_err("no file"),
            "`--flagfile` names no file"
        );
    }
}
