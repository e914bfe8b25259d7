//! `gimlet sweep`, as a user calls it, over a command that takes milliseconds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

/// A sweep over three sizes of a vocabulary, of which the last is too large for the text.
const SIZES: &str = "gimlet.Sweep.grid = {'--vocab_size': [20, 24, 5000]}\n";
/// The same without the last.
const GOOD_SIZES: &str = "gimlet.Sweep.grid = {'--vocab_size': [20, 24]}\n";
/// The command of a point.
const TRAIN: [&str; 4] = ["vocab", "train", "--input=text.txt", "--model_prefix={folder}"];

fn folder(sweep: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..200).map(|line| format!("ab cd ef {line}\n")).collect();
    fs::write(folder.path().join("text.txt"), text).unwrap();
    fs::write(folder.path().join("sweep.gin"), sweep).unwrap();
    fs::create_dir(folder.path().join("all")).unwrap();
    folder
}

/// Status, standard output and standard error of a sweep into `all/`.
fn sweep_with(
    folder: &Path,
    flags: &[&str],
    command: &[&str],
    variable: Option<(&str, &str)>,
) -> (i32, String, String) {
    let mut sweep = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    sweep.current_dir(folder).env_remove("SLURM_ARRAY_TASK_ID").env_remove("JOB_COMPLETION_INDEX");
    sweep.args(["sweep", "sweep.gin", "--folder=all"]).args(flags).args(command).envs(variable);
    let output = sweep.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn sweep(folder: &Path, flags: &[&str]) -> (i32, String, String) {
    sweep_with(folder, flags, &TRAIN, None)
}

fn states(folder: &Path) -> Vec<String> {
    let (status, listed, error) = sweep(folder, &["--list"]);
    assert_eq!(status, 0, "{error}");
    let state = |line: &str| line.split_whitespace().nth(1).unwrap().to_string();
    listed.lines().map(state).collect()
}

#[test]
fn points_run_once_and_failed_ones_again() {
    let folder = folder(SIZES);
    let (status, listed, _) = sweep(folder.path(), &["--list"]);
    assert_eq!(status, 0);
    assert_eq!(listed.lines().next(), Some("0  waiting     all/vocab_size=20    --vocab_size=20"));

    let (status, out, error) = sweep(folder.path(), &[]);
    assert_eq!(status, 1, "{error}");
    assert!(
        out.contains("all/vocab_size=20.model") && out.contains("vocab_size=24.model"),
        "{out}"
    );
    let told = "1 point of 3 failed; the same command runs what failed again:\n  2  vocab_size=5000: status 2, log \
                all/_sweep/vocab_size=5000.log\n";
    assert!(error.ends_with(told), "{error}");
    assert_eq!(states(folder.path()), ["finished", "finished", "failed"]);
    let log = fs::read_to_string(folder.path().join("all/_sweep/vocab_size=5000.log")).unwrap();
    assert!(log.starts_with("error: ") && error.contains(&log), "{log}");

    fs::remove_file(folder.path().join("all/vocab_size=20.model")).unwrap();
    let (status, out, error) = sweep(folder.path(), &[]);
    assert_eq!((status, &*out), (1, ""));
    assert!(error.contains("2 points had finished before"), "{error}");
    let again = fs::read_to_string(folder.path().join("all/_sweep/vocab_size=5000.log")).unwrap();
    assert_eq!(again, log.repeat(2));

    // Another command is another experiment.
    let command = [&TRAIN[..], &["--character_coverage=1.0"]].concat();
    let (_, listed, _) = sweep_with(folder.path(), &["--list"], &command, None);
    assert_eq!(listed.matches(" waiting ").count(), 3, "{listed}");

    // A command that only describes a run leaves no record.
    let command = [&TRAIN[..], &["--help=true"]].concat();
    sweep_with(folder.path(), &[], &command, None);
    assert_eq!(states(folder.path()), ["finished", "finished", "failed"]);
}

#[test]
fn one_point_is_chosen_by_a_flag_or_by_the_number_of_an_array_s_task() {
    let folder = folder(GOOD_SIZES);
    let (status, _, error) = sweep(folder.path(), &["--index=1"]);
    assert_eq!(status, 0, "{error}");
    assert!(error.starts_with("point 1: vocab_size=24\n"), "{error}");
    assert_eq!(states(folder.path()), ["waiting", "finished"]);
    let (status, out, error) = sweep(folder.path(), &["--index=1"]);
    assert_eq!((status, &*out), (0, ""), "{error}");
    assert!(error.contains("has finished already"), "{error}");

    let of_variable = |name, value| sweep_with(folder.path(), &[], &TRAIN, Some((name, value)));
    let (status, _, error) = of_variable("JOB_COMPLETION_INDEX", "0");
    assert_eq!(status, 0, "{error}");
    assert_eq!(states(folder.path()), ["finished", "finished"]);
    for (value, message) in [
        (
            "2",
            "SLURM_ARRAY_TASK_ID is 2, and the sweep has 2 points: expected a number from 0 to 1",
        ),
        ("x", "SLURM_ARRAY_TASK_ID is `x`, expected the number of a point"),
    ] {
        let (status, _, error) = of_variable("SLURM_ARRAY_TASK_ID", value);
        assert_eq!((status, error.contains(message)), (2, true), "{error}");
    }
}

#[test]
fn parts_of_the_command_and_the_place_of_flags_are_filled_in() {
    let text = "SIZES = [20, 24]\ngimlet.Sweep:\n  grid = {'{size}': %SIZES}\n  name = 'v{size}_{index}'\n";
    let folder = folder(text);
    let command = ["vocab", "train", "{flags}", "--input=text.txt", "--vocab_size={size}"];
    let (status, _, error) =
        sweep_with(folder.path(), &[], &[&command[..], &["--model_prefix={point}"]].concat(), None);
    assert_eq!(status, 0, "{error}");
    assert!(
        folder.path().join("v20_0.model").exists() && folder.path().join("v24_1.model").exists()
    );
    let (status, _, error) = sweep_with(folder.path(), &[], &TRAIN, None);
    assert_eq!(status, 2);
    let told = "the sweep gives values of `{size}`, and no word of the command has it";
    assert!(error.contains(told), "{error}");
}

#[test]
fn mistakes_are_told_before_a_point_runs() {
    for (sweep_file, told) in [
        ("gimlet.Sweep.seeds = []\n", "gimlet.Sweep has no values: bind its grid"),
        (
            "gimlet.Sweep.grid = {'A': [1], '--a': []}\n",
            "`--a` has no values, so the sweep has no points",
        ),
        (
            "gimlet.Sweep.grid = {'A': [1, 2]}\ngimlet.Sweep.zip = {'A': [3, 4]}\n",
            "gimlet.Sweep gives values of `A` twice",
        ),
        (
            "gimlet.Sweep.zip = {'A': [3, 4], 'B': [5]}\n",
            "gimlet.Sweep.zip has 2 values of `A` and 1 of `B`, expected lists of one length",
        ),
        (
            "gimlet.Sweep:\n  grid = {'A': [3, 4]}\n  name = 'x{b}'\n",
            "gimlet.Sweep.name has `{b}`, and the sweep gives no values of `b`, but of A",
        ),
        (
            "gimlet.Sweep:\n  grid = {'A': [3, 4]}\n  name = 'x'\n",
            "two points would have the folder `x`, those with --gin.A=3 and with --gin.A=4",
        ),
        ("gimlet.Sweep:\n  grid = {'A': [3, 4]}\n  name = '../{A}'\n", "expected a relative path"),
        ("gimlet.Sweep.grid = {'A': 3}\n", "a list of the values of `A`"),
    ] {
        let folder = folder(sweep_file);
        let (status, out, error) = sweep(folder.path(), &[]);
        assert_eq!((status, &*out), (2, ""), "{error}");
        assert!(error.contains(told), "expected {told}, found {error}");
    }
    // A command that is mistaken is not tried again and again.
    let folder = folder(SIZES);
    let (status, _, error) = sweep_with(folder.path(), &[], &["vocab", "tran", "{folder}"], None);
    assert_eq!(status, 2);
    let told =
        "commands of the first two points are mistaken, as told above, so no other was begun";
    assert!(error.contains(told), "{error}");
    let (_, listed, _) =
        sweep_with(folder.path(), &["--list"], &["vocab", "tran", "{folder}"], None);
    assert_eq!(listed.matches(" failed ").count(), 2, "{listed}");
    let (status, _, error) = sweep_with(folder.path(), &[], &["vocab", "train"], None);
    assert_eq!(
        (status, error.contains("has `{folder}` or `{point}`, so all")),
        (2, true),
        "{error}"
    );
}

/// The folders of the points of a sweep among the runs.
fn listed(sweep: &str, more: &[&str], command: &[&str]) -> Vec<String> {
    let mut list = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    list.current_dir(env!("CARGO_MANIFEST_DIR")).args(["sweep", sweep, "--folder=x", "--list"]);
    let output = list.args(more).args(command).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sweep}: {error}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().nth(2).unwrap().to_string()).collect()
}

#[test]
fn the_grids_of_t5_experiments_have_the_points_and_folders_of_its_scripts() {
    for (name, count, first, last) in [
        (
            "hyp",
            54,
            "t5-base/lr1e-04_linear_adamw_wd1e-03_256/run_1",
            "t5-base/lr1e-05_constant_with_warmup_adamw_wd1e-03_1024/run_3",
        ),
        (
            "contract_nli",
            90,
            "t5-base/lr3e-04_linear_adamw_wd1e-03_len256_it9000/run_1",
            "t5-base/lr2e-05_constant_with_warmup_adamw_wd1e-03_len1024_it9000/run_3",
        ),
        (
            "qasper",
            180,
            "t5-base/lr3e-04_linear_adamw_wd1e-03_len256_it3200/run_1",
            "t5-base/lr2e-05_constant_with_warmup_adamw_wd1e-03_len1024_it6400/run_3",
        ),
        (
            "quality",
            90,
            "t5-base/lr3e-04_linear_adamw_wd1e-03_len256_it6400/run_1",
            "t5-base/lr2e-05_constant_with_warmup_adamw_wd1e-03_len1024_it6400/run_3",
        ),
    ] {
        let file = format!("runs/t5_experiments/{name}_sweep.gin");
        let points = listed(&file, &[], &["t5_experiments", "hyp", "--model_path={folder}"]);
        assert_eq!(points.len(), count, "{name}");
        assert_eq!(points[0], format!("x/{first}"));
        assert_eq!(points[count - 1], format!("x/{last}"));
    }
}

#[test]
fn the_tables_of_the_t5_paper_have_every_row_and_each_task() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/t5_paper");
    let names = |folder: &str| -> BTreeSet<String> {
        let files = fs::read_dir(root.join(folder)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.map(|name| format!("{folder}/{}", name.trim_end_matches(".gin"))).collect()
    };
    let groups = [
        "architectures",
        "baseline",
        "datasets",
        "multitask",
        "nopretrain",
        "objectives",
        "scaling",
    ];
    let rows: BTreeSet<String> = groups.into_iter().flat_map(names).collect();
    let command = ["t5_mesh_transformer", "--model_dir={folder}", "--gin_file={row}.gin", "{task}"];
    let leave_one_out = listed("runs/t5_paper/tables/leave_one_out.gin", &[], &command);
    let mut found: BTreeSet<String> =
        leave_one_out.iter().map(|name| name[2..name.rfind('/').unwrap()].to_string()).collect();
    for table in names("tables").iter().filter(|name| name.contains("/table_")) {
        let rows = format!("--gin_file=runs/t5_paper/{table}.gin");
        let pretrained =
            listed("runs/t5_paper/tables/pretrain.gin", &[&rows], &command[..command.len() - 1]);
        let tuned = listed("runs/t5_paper/tables/finetune.gin", &[&rows], &command);
        assert_eq!(tuned.len(), 7 * pretrained.len(), "{table}");
        assert_eq!(tuned[0], format!("{}/glue_v002_proportional", pretrained[0]));
        found.extend(pretrained.iter().map(|name| name[2..].to_string()));
    }
    // Two settings of the published runs are in no table of the paper.
    found.extend(["1-5", "3"].map(|lengths| format!("objectives/obj-reg_{lengths}_15_u_u")));
    assert_eq!(found, rows);
}
