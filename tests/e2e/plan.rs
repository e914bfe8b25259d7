//! `gimlet plan` beside measured steps, and `gimlet doctor` of several processes.

use std::fs;
use std::path::Path;

use crate::command::Train;
use crate::folder::Folder;

/// The quickstart's run, which writes nothing but logs, into a folder.
fn quickstart(model_dir: &Path) -> Train {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Train::new(root)
        .gin_file("runs/quickstart/pretrain.gin")
        .bind_text("MODEL_DIR", model_dir)
        .bind("TRAIN_STEPS", 13)
        .bind("train.stats_period", 1)
        .bind("train.eval_period", 0)
        .bind("train.infer_eval_dataset_cfg", "None")
        .bind("utils.SaveCheckpointConfig.period", "None")
}

/// Returns the seconds of a run's steps but the first three.
fn measured(folder: &Folder, count: usize) -> Vec<f64> {
    let model_dir = folder.path("measured");
    let words = ["launch", "--nproc_per_node", &count.to_string(), "train"];
    let run = quickstart(&model_dir).num_threads((2 / count).max(1));
    if count == 1 { run } else { run.tool(&words) }.succeeds();
    let lines = fs::read_to_string(model_dir.join("train/metrics.jsonl")).expect("measurements");
    fs::remove_dir_all(&model_dir).expect("it can be removed");
    let seconds = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        line["timing/seconds"].as_f64()
    };
    lines.lines().filter_map(seconds).skip(3).collect()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Returns the predicted seconds of a step of so many processes that divide batches.
fn predicted(folder: &Folder, count: usize, measured: f64) -> f64 {
    let plan = quickstart(&folder.path("none")).tool(&["plan"]);
    let flags = [format!("--cpus={count}"), format!("--measured_step={measured}s")];
    let plan = flags.into_iter().fold(plan.arg("--rows=100"), Train::arg).run();
    assert_eq!(plan.status, Some(0), "{}", plan.stderr);
    let mesh = format!("{count}x10");
    let row = plan.stdout.lines().map(str::trim).find(|line| {
        let start: String = line.split_whitespace().take(4).collect();
        start == mesh
    });
    let row = row.unwrap_or_else(|| panic!("no row of {mesh} in {}", plan.stdout));
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let (number, unit) = cells[7].split_once(' ').expect("a time has a unit");
    let number: f64 = number.parse().expect("a number");
    if unit == "ms" { number / 1e3 } else { number }
}

#[test]
#[ignore = "takes minutes of measurements with nothing else on the machine: `make soak` runs it"]
fn steps_of_one_to_four_processes_take_the_predicted_time() {
    let folder = Folder::new();
    let mut seconds = [1, 2, 4].map(|count| (count, Vec::new()));
    for _ in 0..3 {
        for (count, seconds) in &mut seconds {
            seconds.extend(measured(&folder, *count));
        }
    }
    let medians = seconds.map(|(count, seconds)| (count, median(seconds)));
    for (count, measured) in medians {
        let predicted = predicted(&folder, count, medians[0].1);
        let error = predicted / measured - 1.0;
        println!(
            "{count} processes: {measured:.3} s measured, {predicted:.3} s predicted, {:+.0}%",
            100.0 * error
        );
        assert!(error.abs() < 0.2, "{count} processes: {error:+.2}");
    }
}

#[test]
fn doctor_says_the_mesh_of_a_run_and_what_a_device_holds() {
    let folder = Folder::new();
    let doctor = folder.pretrain(1).bind_text("MODEL_DIR", "none").tool(&["doctor"]);
    let two = doctor.bind("partitioning.PjitPartitioner.num_partitions", 2);
    let said = two.clone().arg("--nproc_per_node=4").run();
    assert_eq!(said.status, Some(0), "{}", said.stderr);
    for line in [
        "processes     4 on this host",
        "backend       gloo",
        "memory       ",
        "mesh         4 processes: 2 divide batches, 2 the model",
        "bytes sent by each process a step",
    ] {
        assert!(said.stdout.contains(line), "`{line}` is missing:\n{}", said.stdout);
    }
    // Under a launcher the first process speaks for all.
    let launched = |rank: &str| {
        let place =
            [("RANK", rank), ("WORLD_SIZE", "2"), ("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", "2")];
        let master = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")];
        let places = place.into_iter().chain(master);
        places.fold(two.clone(), |doctor, (name, value)| doctor.env(name, value)).run()
    };
    let first = launched("0").stdout;
    assert!(first.contains("processes     2, 2 on this host, started by torchrun"), "{first}");
    assert_eq!(launched("1").stdout, "");
}
