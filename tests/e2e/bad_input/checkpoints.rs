//! Checkpoints that are damaged, missing, or another model's.

use std::fs;
use std::path::Path;

use gimlet::checkpoint::Stored;

use super::{USER, WORLD, assert_fails, check};
use crate::folder::{Folder, steps};

#[test]
fn a_model_dir_of_another_model_is_left_alone() {
    let folder = Folder::new();
    folder.pretrain(4).succeeds();
    let config = fs::read(folder.path("model/config.gin")).expect("the run wrote it");
    check(
        &folder.pretrain(8).bind("network.T5Config.num_encoder_layers", 2),
        USER,
        &["model/checkpoint_4", "encoder/layers_1/", "MODEL_DIR"],
    );
    check(
        &folder.pretrain(8).bind("network.T5Config.mlp_dim", 64),
        USER,
        &["model/checkpoint_4", "mlp", "32", "64", "MODEL_DIR"],
    );
    assert_eq!(fs::read(folder.path("model/config.gin")).ok(), Some(config));
    assert_eq!(steps(&folder.path("model")), [0, 4]);
}

#[test]
fn a_step_beyond_the_end() {
    let folder = Folder::new();
    folder.pretrain(8).succeeds();
    check(&folder.pretrain(4), USER, &["total_steps (4)", "step (8)", "TRAIN_STEPS"]);
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before() {
    let folder = Folder::new();
    folder.pretrain(8).succeeds();
    flip_a_byte(&folder.path("model/checkpoint_8"));
    let ended = folder.pretrain(12).succeeds();
    let stderr = &ended.stderr;
    for words in
        ["checkpoint_8", "damaged", "falling back", "restored step 4", "finished at step 12"]
    {
        assert!(stderr.contains(words), "`{words}` is not in:\n{stderr}");
    }
    for step in [0, 4, 8, 12] {
        crate::arrays::open(&folder.path("model"), step).verify().expect("is whole again");
    }

    steps(&folder.path("model"))
        .iter()
        .for_each(|step| flip_a_byte(&folder.path(&format!("model/checkpoint_{step}"))));
    check(
        &folder.pretrain(16),
        WORLD,
        &["no checkpoint in", "can be read", "checkpoint_12", "remove these folders"],
    );
    assert_eq!(steps(&folder.path("model")), [0, 4, 8, 12]);
}

#[test]
fn what_cannot_be_restored() {
    let folder = Folder::new();
    let restore = |path: &str, mode: &str| {
        folder
            .pretrain(4)
            .bind_text("utils.RestoreCheckpointConfig.path", path)
            .bind_text("utils.RestoreCheckpointConfig.mode", mode)
    };
    check(&restore("no/checkpoint_4", "specific"), USER, &["no/checkpoint_4", "not found"]);
    check(&restore("no/folder", "latest"), USER, &["no/folder", "folder of checkpoints"]);
    check(
        &restore("held-out.txt", "specific"),
        USER,
        &["`held-out.txt` is not a checkpoint", "a file of another kind", "`DIR/checkpoint_N`"],
    );
    check(
        &restore("gs://bucket/t5/checkpoint_4", "specific"),
        USER,
        &["gs://bucket/t5/checkpoint_4", "--path_map gs://bucket=DIR"],
    );
    check(&restore("x", "all"), USER, &["'all'", "'specific'", "'latest'"]);
    assert_fails(&restore("x", "newest").run(), USER, &["'newest'", "'latest'"]);
}

/// Damages the largest file.
fn flip_a_byte(checkpoint: &Path) {
    let mut files = Vec::new();
    collect(checkpoint, &mut files);
    let (_, file) = files.into_iter().max().expect("a checkpoint has files");
    let mut bytes = fs::read(&file).expect("is readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("can be written");
}

fn collect(folder: &Path, files: &mut Vec<(u64, std::path::PathBuf)>) {
    for entry in fs::read_dir(folder).expect("is readable") {
        let path = entry.expect("is readable").path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push((fs::metadata(&path).expect("is readable").len(), path)),
        }
    }
}
