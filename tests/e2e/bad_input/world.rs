//! A system that refuses: no space, no permission.

use std::os::unix::process::CommandExt;

use super::{USER, WORLD, assert_fails, check};
use crate::arrays;
use crate::command::Ended;
use crate::folder::{Folder, steps};

/// Bytes that a file may have: enough for all but the embeddings.
const LIMIT: u64 = 64 << 10;

#[test]
fn a_full_disk_leaves_the_last_checkpoint() {
    let folder = Folder::new();
    // Embeddings that are larger than anything else.
    let pretrain = |steps| folder.pretrain(steps).bind("network.T5Config.vocab_size", 2048);
    pretrain(4).succeeds();
    let mut command = pretrain(12).command();
    // SAFETY: both are async-signal-safe. Beyond the limit a write fails as on a full disk.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let ended = Ended::new(command.output().expect("gimlet starts"));
    assert_fails(&ended, WORLD, &["model/checkpoint_8", "the disk is full", "free some space"]);
    assert_eq!(steps(&folder.path("model")), [0, 4]);

    pretrain(12).succeeds();
    pretrain(12).bind_text("MODEL_DIR", "whole").succeeds();
    let [found, expected] = ["model", "whole"].map(|dir| arrays::open(&folder.path(dir), 12));
    arrays::assert_same(&found, &expected);
}

#[test]
fn no_permission() {
    // Nobody may write there, not even root.
    let folder = Folder::new();
    let run = folder.pretrain(4).bind_text("MODEL_DIR", "/sys/gimlet/model");
    check(&run, WORLD, &["/sys/gimlet", "permission denied", "owner and mode"]);
}

#[test]
fn a_model_dir_that_is_a_file() {
    let folder = Folder::new();
    let run = folder.pretrain(4).bind_text("MODEL_DIR", "held-out.txt");
    check(&run, USER, &["MODEL_DIR `held-out.txt` is a file", "expected a folder"]);
    let run = folder.pretrain(4).bind_text("MODEL_DIR", "held-out.txt/model");
    check(&run, USER, &["`held-out.txt/model`", "a part of the path is a file"]);
}
