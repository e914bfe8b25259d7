//! `gimlet table`, as a user calls it, on the folder of a sweep.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::json;
use tempfile::TempDir;

/// A metric of two steps, of a task of a run.
type Metric<'a> = (&'a str, &'a str, [f64; 2]);

/// Makes a point of a sweep with its record and metrics, in the folders of an evaluation of Mesh TensorFlow's program.
fn point(all: &Path, index: usize, values: &[(&str, &str)], metrics: &[Metric<'_>]) {
    let name = format!("point{index}");
    let evaluations = all.join(&name).join("validation_eval/inference_eval");
    fs::create_dir_all(all.join(&name).join("train")).unwrap();
    fs::create_dir_all(&evaluations).unwrap();
    for (task, metric, [first, last]) in metrics {
        let line = |step: u64, value: &f64| format!("{}\n", json!({"step": step, *metric: value}));
        let lines = line(10, first) + &line(20, last);
        fs::write(evaluations.join(format!("{task}-metrics.jsonl")), lines).unwrap();
    }
    fs::create_dir_all(all.join("_sweep")).unwrap();
    let record = json!({"index": index, "values": values, "command": [], "status": 0});
    fs::write(all.join("_sweep").join(name + ".json"), record.to_string()).unwrap();
}

/// Two rates with two seeds each.
fn rates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    rates_in(folder.path());
    folder
}

fn rates_in(all: &Path) {
    let scores = [[50.0, 40.0], [60.0, 50.0], [55.5, 55.5], [55.5, 55.5]];
    for (index, scores) in scores.into_iter().enumerate() {
        let rate = ["0.1", "0.01"][index / 2];
        let seed = ["1", "2"][index % 2];
        let values = [("optim.AdamW.lr", rate), ("RANDOM_SEED", seed)];
        point(all, index, &values, &[("sums", "exact_match", scores)]);
    }
}

/// Status, and what is printed, or the error.
fn table(folder: &Path, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.current_dir(folder).args(["table", "."]).args(words).output().unwrap();
    let is_printed = output.status.success();
    let text = String::from_utf8(if is_printed { output.stdout } else { output.stderr }).unwrap();
    (output.status.code().unwrap(), text)
}

fn printed(folder: &Path, words: &[&str]) -> String {
    let (status, text) = table(folder, words);
    assert_eq!(status, 0, "{text}");
    text
}

#[test]
fn seeds_are_one_row_and_the_best_value_is_marked_in_every_form() {
    let folder = rates();
    let text = printed(folder.path(), &["--title=Rates"]);
    let expected = "Rates\n\
        lr    runs  best exact_match  last exact_match\n\
        0.1   2     55 ± 7.0711       45 ± 7.0711\n\
        0.01  2     55.5 ± 0*         55.5 ± 0*\n";
    assert_eq!(text, expected);
    let csv = printed(folder.path(), &["--format=csv", "--metric=last exact_match"]);
    let expected = "lr,runs,last exact_match,last exact_match deviation\n\
        0.1,2,45,7.0710678118654755\n0.01,2,55.5,0\n";
    assert_eq!(csv, expected);
    let words = ["--format=markdown", "--metric=best exact_match", "--title=Rates"];
    let markdown = printed(folder.path(), &words);
    let expected = "**Rates**\n\n| lr   | runs | best exact_match |\n\
        | ---- | ---- | ---------------- |\n\
        | 0.1  | 2    | 55 ± 7.0711      |\n\
        | 0.01 | 2    | **55.5 ± 0**     |\n";
    assert_eq!(markdown, expected);
    let latex = printed(folder.path(), &["--format=latex", "--metric=best exact_match"]);
    let expected = "\\begin{tabular}{lrr}\n\\hline\nlr & runs & best exact\\_match \\\\\n\\hline\n\
        0.1 & 2 & 55 $\\pm$ 7.0711 \\\\\n0.01 & 2 & \\textbf{55.5 $\\pm$ 0} \\\\\n\\hline\n\\end{tabular}\n";
    assert_eq!(latex, expected);
}

#[test]
fn a_row_goes_over_tasks_and_columns_stand_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (row, task, score)) in
        [("b", "answers", 80.0), ("b", "xsum", 20.0), ("a", "answers", 81.0), ("a", "xsum", 19.0)]
            .into_iter()
            .enumerate()
    {
        let values = [("{row}", row), ("{task}", task)];
        point(folder.path(), index, &values, &[(task, "score", [score, score])]);
    }
    let text = printed(folder.path(), &["--over=task", "--metric=xsum score,best answers score"]);
    let expected = "row  runs  xsum score  answers score\n\
        b    2     20*         80\n\
        a    2     19          81*\n";
    assert_eq!(text, expected);
    for (words, told) in [
        (["--over=seed"], "the runs do not differ in `seed`, expected one of row, task"),
        (
            ["--metric=bleu"],
            "no run has the metric `bleu`, expected one of answers score, xsum score",
        ),
    ] {
        let (status, text) = table(folder.path(), &words);
        assert_eq!((status, text.contains(told)), (2, true), "{text}");
    }
}

#[test]
fn equal_points_of_two_sweeps_are_two_rows() {
    let folder = tempfile::tempdir().unwrap();
    ["small", "base"].into_iter().for_each(|sweep| rates_in(&folder.path().join(sweep)));
    let text = printed(folder.path(), &["--metric=best exact_match"]);
    let firsts: Vec<_> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(firsts, ["sweep", "base", "base", "small", "small"]);
}

#[test]
fn folders_without_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (status, text) = table(folder.path(), &[]);
    assert_eq!(status, 2);
    assert!(text.contains("`.` is not the MODEL_DIR of a run, and holds none"), "{text}");
}
