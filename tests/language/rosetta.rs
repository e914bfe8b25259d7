//! The scripts of `runs/rosetta`, with `echo` in place of Gimlet and of srun.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/rosetta")
}

/// Runs a script with these variables and no others but PATH.
fn run(script: &str, variables: &str) -> Output {
    let mut command = Command::new("bash");
    command.arg(scripts().join(script)).env_clear();
    command.env("PATH", std::env::var_os("PATH").expect("there is a PATH"));
    let pairs = variables.split_whitespace().map(|pair| pair.split_once('=').expect("a pair"));
    command.envs(pairs).output().expect("bash starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn variables_of_t5x_s_scripts_become_bindings() {
    let machine = "GIMLET=echo T5X_WORKSPACE_DIR=/runs TFDS_DATA_DIR=/data SLURM_STEP_NUM_TASKS=16";
    let check = |variables: &str, expected: &[&str]| {
        let ended = run("multiprocess.sh", &format!("{machine} {variables}"));
        let line = text(&ended.stdout);
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        for words in expected {
            assert!(line.contains(words), "`{words}` is not in {line}");
        }
    };
    check(
        "SLURM_STEP_TASKS_PER_NODE=8(x2) T5_SIZE=xxl BSIZE_PER_GPU=36 TP_SIZE=8 PREC=float32",
        &[
            "--gin_file=t5x/contrib/gpu/t5/t5_1_1/examples/xxl_pile_pretrain.gin",
            "--gin.BATCH_SIZE=72",
            "num_partitions=8",
            "--gin.network.T5Config.dtype='bfloat16'",
            "fuse_qkv_params=1",
            "--multiprocess_gpu",
            "--gin.TRAIN_STEPS=1000000",
        ],
    );
    check(
        "FT_TASK=squad1 T5_SIZE=small ENABLE_FP8=0 PREC=float32 ENC_SL=956 DEC_SL=256 PACK=1 CHECKPOINT_DISABLE=1",
        &[
            "examples/small_squad1_finetune_adam.gin",
            "--gin.network.T5Config.dtype='float32'",
            "--gin.TASK_FEATURE_LENGTHS={'inputs': 956, 'targets': 256}",
            "--gin.train/utils.DatasetConfig.pack=1",
            "--gin.utils.CheckpointConfig.save=None",
        ],
    );
    let uneven = run("multiprocess.sh", &format!("{machine} SLURM_STEP_TASKS_PER_NODE=2(x2),1"));
    assert_eq!(uneven.status.code(), Some(1));
    assert!(text(&uneven.stderr).contains("the same number on every host"));
}

#[test]
fn a_job_names_its_data_in_one_way() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| scratch.path().join(name).display().to_string();
    std::fs::write(scratch.path().join("srun"), "#!/bin/sh\necho srun \"$@\"; env\n")
        .expect("a file");
    let mut permissions = std::fs::metadata(at("srun")).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(at("srun"), permissions).expect("a file of ours");
    let path = format!("{}:{}", scratch.path().display(), std::env::var("PATH").expect("a PATH"));
    let job = format!(
        "PATH={path} SLURM_SUBMIT_DIR=/repo SLURM_JOB_NUM_NODES=2 BASE_T5X_WORKSPACE_DIR={} BASE_T5X_OUTPUTS_DIR={}",
        at("runs"),
        at("logs")
    );
    for data in ["", "BASE_TFDS_DATA_DIR=/data DATASET_MAP=/mnt/squad:squad"] {
        let refused = run("slurm.sub", &format!("{job} {data}"));
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("give one of BASE_TFDS_DATA_DIR"));
    }
    let check = |data: &str, expected: &[&str]| {
        let ended = run("slurm.sub", &format!("{job} {data}"));
        let output = text(&ended.stdout);
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        for words in expected {
            assert!(output.contains(words), "`{words}` is not in {output}");
        }
    };
    check("BASE_TFDS_DATA_DIR=/data", &["srun --ntasks-per-node=8", "TFDS_DATA_DIR=/data\n"]);
    check(
        "DATASET_MAP=/mnt/pile:ThePile,/mnt/squad:squad",
        &["--path_map=/t5x_home/datasets/squad=/mnt/squad", "/ThePile=/mnt/pile"],
    );
    check(
        "DATASET_MAP=/mnt/squad:squad CONTAINER=image",
        &["--container-image=image", "/mnt/squad:/t5x_home/datasets/squad"],
    );
}
