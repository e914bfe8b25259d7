//! The run over text files.

use std::io::Write;

use crate::checkpoint::RestoreMode;
use crate::interactive::file::score_lines_as;
use crate::interactive::{
    Asked, Engine, EngineParts, Format, InteractiveModel, LinesError, Progress, Text,
    generate_lines,
};
use crate::session::context::Context;
use crate::session::error::SessionError;
use crate::session::named_checkpoints::named_checkpoints;
use crate::storage::{Path, StorageError};
use crate::telemetry;

use super::spec::{AnswerFiles, FileWork, PredictFile, ScoreFiles};

/// Predicts or scores the lines of files. A file of results is whole or absent, and replaces an older one.
///
/// # Errors
/// See [`LinesError`]; the results of earlier checkpoints stay.
pub fn answer_files(spec: &AnswerFiles, context: &Context<'_>) -> Result<(), LinesError> {
    // Files that cannot be read are reported before the parameters are.
    let texts = texts(spec)?;
    let checkpoints =
        named_checkpoints(&spec.restore_checkpoint_cfg).map_err(SessionError::from)?;
    if let (FileWork::Score(_), [_, _, ..]) = (&spec.work.0, &checkpoints[..]) {
        return Err(unfit(format!(
            "there are {} checkpoints, and scores are those of one: bind `run.eval_checkpoint_step` to its step, or \
             to -1 for the newest",
            checkpoints.len()
        )));
    }
    for path in &checkpoints {
        let one = InteractiveModel {
            checkpoint_path: path.to_string(),
            restore_mode: RestoreMode::Specific,
            ..spec.model.clone()
        };
        let parts = EngineParts::restore(&one, &context.mesh)?;
        let engine = Engine::new(&one, &parts, one.batch_size.min(texts.len()))?;
        let batch_size = one.batch_size;
        let stop = context.stop;
        let progress = Progress { engine: &engine, batch_size, format: Format::Lines, stop };
        match &spec.work.0 {
            FileWork::Predict(work) => predict(work, &progress, parts.step(), texts.clone())?,
            FileWork::Score(work) => score(work, &progress, parts.step(), texts.clone())?,
        }
    }
    Ok(())
}

/// Reads the texts of all files.
fn texts(spec: &AnswerFiles) -> Result<Vec<Text>, LinesError> {
    let texts = match &spec.work.0 {
        FileWork::Predict(work) => {
            let text = |inputs: String| Text { inputs, targets: None };
            let repeated = |line: String| vec![text(line); work.repeats];
            lines(&work.input_file)?.into_iter().flat_map(repeated).collect()
        }
        FileWork::Score(work) => {
            let (inputs, targets) = (lines(&work.input_file)?, lines(&work.target_file)?);
            paired(inputs, targets).map_err(|[inputs, targets]| {
                unfit(format!(
                    "`{}` has {inputs} lines and `{}` {targets}: expected as many of both, whole multiples of the \
                     inputs, or one target for all inputs",
                    work.input_file, work.target_file
                ))
            })?
        }
    };
    match texts.is_empty() {
        true => Err(unfit(format!("`{}` has no line", spec.files()[0].1))),
        false => Ok(texts),
    }
}

/// Reads the lines of a file without the white space at their ends; an empty last one is none.
fn lines(file: &str) -> Result<Vec<String>, LinesError> {
    let read = |path: Path| path.read();
    let bytes = Path::parse(file).and_then(read).map_err(SessionError::from)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unfit(format!("`{file}` is not UTF-8 text from byte {at} on"))
    })?;
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_string()).collect();
    lines.pop_if(|last| last.is_empty());
    Ok(lines)
}

/// Pairs inputs with targets.
///
/// # Errors
/// The numbers of both, if they do not fit.
fn paired(inputs: Vec<String>, targets: Vec<String>) -> Result<Vec<Text>, [usize; 2]> {
    let (num_inputs, num_targets) = (inputs.len(), targets.len());
    if num_inputs == 0 || num_targets == 0 {
        return if num_inputs == num_targets {
            Ok(Vec::new())
        } else {
            Err([num_inputs, num_targets])
        };
    }
    let is_multiple = num_targets.is_multiple_of(num_inputs);
    if !is_multiple && num_targets != 1 {
        return Err([num_inputs, num_targets]);
    }
    let repeats = num_targets.div_ceil(num_inputs);
    let inputs = inputs.into_iter().flat_map(|line| vec![line; repeats]);
    let targets = targets.into_iter().cycle();
    Ok(inputs.zip(targets).map(|(inputs, target)| Text { inputs, targets: Some(target) }).collect())
}

fn predict(
    work: &PredictFile,
    progress: &Progress<'_>,
    step: u64,
    texts: Vec<Text>,
) -> Result<(), LinesError> {
    let decoding = progress.engine.decoding(&Default::default()).map_err(unfit)?;
    let (output, count) = (format!("{}-{step}", work.output_file), texts.len());
    write(&output, |out| {
        generate_lines(progress, &decoding, texts.into_iter().map(Ok), out).map(drop)
    })?;
    telemetry::notice(&format!("{output}: {count} predictions with step {step}"));
    Ok(())
}

fn score(
    work: &ScoreFiles,
    progress: &Progress<'_>,
    step: u64,
    texts: Vec<Text>,
) -> Result<(), LinesError> {
    let named = |ending: &str| format!("{}.{ending}", work.output_file);
    if work.save_texts {
        save_texts(&named, progress.engine, &texts)?;
    }
    let (output, count) = (named("scores"), texts.len());
    write(&output, |out| {
        let texts = texts.into_iter().map(Ok);
        score_lines_as(progress, texts, out, |_, score| format!("{}\n", general(*score)))
    })?;
    telemetry::notice(&format!("{output}: {count} scores with step {step}"));
    Ok(())
}

/// Writes the texts as the model reads them, and the lengths of the targets.
fn save_texts(
    named: &dyn Fn(&str) -> String,
    engine: &Engine<'_>,
    texts: &[Text],
) -> Result<(), LinesError> {
    let asked: Vec<Asked> = texts.iter().map(|text| engine.encoder().encode(text)).collect();
    let targets = |asked: &Asked| asked.targets.clone().expect("every text has targets");
    let save = |ending: &str, line: &dyn Fn(&Asked) -> String| {
        write(&named(ending), |out| {
            let line = |asked| line(asked).replace('\n', " ") + "\n";
            let text: String = asked.iter().map(line).collect();
            out.write_all(text.as_bytes()).map_err(LinesError::Write)
        })
    };
    save("inputs", &|asked| engine.encoder().decoded_inputs(&asked.inputs))?;
    save("targets", &|asked| engine.vocabulary().decode(&targets(asked)))?;
    save("lengths", &|asked| targets(asked).len().to_string())
}

/// Writes a file, which is whole or absent.
fn write(
    file: &str,
    body: impl FnOnce(&mut dyn Write) -> Result<(), LinesError>,
) -> Result<(), LinesError> {
    let stored = |error: StorageError| LinesError::Session(error.into());
    let path = Path::parse(file).map_err(stored)?;
    if let Some(folder) = path.parent() {
        folder.create_dir_all().map_err(stored)?;
    }
    let mut out = path.create_atomic().map_err(stored)?;
    body(&mut out)?;
    out.finish().map_err(stored)
}

fn unfit(message: String) -> LinesError {
    SessionError::Unfit(message).into()
}

/// Writes a number as C's `%g` does: six significant digits, without zeros at their end.
fn general(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("a number has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a whole number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{number:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        // python3 -c "print(['%g' % x for x in (...)])"
        let cases = [
            (-12.345678, "-12.3457"),
            (-0.5, "-0.5"),
            (123456.0, "123456"),
            (1234567.0, "1.23457e+06"),
            (-0.00001234567, "-1.23457e-05"),
            (0.0001, "0.0001"),
            (999999.9, "1e+06"),
            (-100.0, "-100"),
        ];
        cases.iter().for_each(|(number, text)| assert_eq!(general(*number), *text));
    }

    #[test]
    fn a_shorter_file_is_repeated() {
        let texts = |list: &[&str]| list.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        let pairs = |inputs: &[&str], targets: &[&str]| {
            let pairs = paired(texts(inputs), texts(targets))?.into_iter();
            Ok(pairs.map(|text| text.inputs + &text.targets.unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(pairs(&["a", "b"], &["1", "2", "3", "4"]), Ok(texts(&["a1", "a2", "b3", "b4"])));
        assert_eq!(pairs(&["a", "b"], &["1"]), Ok(texts(&["a1", "b1"])));
        assert_eq!(pairs(&["a", "b"], &["1", "2", "3"]), Err([2, 3]));
        assert_eq!(pairs(&["a"], &[]), Err([1, 0]));
    }
}
