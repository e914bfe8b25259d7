//! Command lines whose command is missing or late: the words to type instead.

use clap::Command;

/// Describes the mistake in the first word, and the words to type instead.
pub fn mistake(words: &[String], command: &Command) -> Option<String> {
    let is_global = |word: &String| {
        let mut known =
            command.get_arguments().filter_map(clap::Arg::get_long).chain(["help", "version"]);
        word.strip_prefix("--").map_or(word.len() == 2, |name| known.any(|known| known == name))
    };
    let flags = words[1..].iter().take_while(|word| word.starts_with('-'));
    let misplaced = flags.into_iter().find(|word| !is_global(word))?;
    let is_command = |word: &&String| command.find_subcommand(word).is_some();
    let place = words[1..].iter().position(|word| is_command(&word));
    let (name, rest) = match place {
        Some(place) => {
            (words[place + 1].as_str(), [&words[1..=place], &words[place + 2..]].concat())
        }
        None => ("train", words[1..].to_vec()),
    };
    let rest = rest.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let line = format!("gimlet {name} {rest}");
    Some(match place {
        Some(_) => format!("`{misplaced}` comes before the command: write `{line}`"),
        None => format!("no command is given: say first what to do, as in `{line}`"),
    })
}

/// Quotes a word for a shell; only the value of a flag is quoted.
fn quoted(word: &str) -> String {
    let quote = |text| shlex::try_quote(text).unwrap_or(text.into()).into_owned();
    match word.split_once('=').filter(|(name, _)| name.starts_with('-')) {
        Some((name, value)) => format!("{name}={}", quote(value)),
        None => quote(word),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::CommandLine;
    use super::*;

    fn check(line: &str, expected: Option<&str>) {
        let words = shlex::split(line).expect("well formed");
        assert_eq!(mistake(&words, &CommandLine::command()).as_deref(), expected, "{line}");
    }

    #[test]
    fn flags_before_the_command_are_put_behind_it() {
        check(
            r#"gimlet --gin_file=a.gin train --gin.MODEL_DIR="'/m'""#,
            Some(concat!(
                "`--gin_file=a.gin` comes before the command: write ",
                r#"`gimlet train --gin_file=a.gin --gin.MODEL_DIR="'/m'"`"#
            )),
        );
        check(
            "gimlet -q --gin_file a.gin eval",
            Some("`--gin_file` comes before the command: write `gimlet eval -q --gin_file a.gin`"),
        );
        check(
            "gimlet --gin_file=a.gin",
            Some(
                "no command is given: say first what to do, as in `gimlet train --gin_file=a.gin`",
            ),
        );
        for line in [
            "gimlet -q train --gin_file=a",
            "gimlet --verbose train",
            "gimlet --help",
            "gimlet --version",
            "gimlet",
        ] {
            check(line, None);
        }
    }
}
