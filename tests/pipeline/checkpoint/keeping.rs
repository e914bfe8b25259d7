//! The checkpoints and files that are kept, pruned and cleaned up.

use std::time::{Duration, SystemTime};

use gimlet::checkpoint::{Retention, Writer, checkpoint_dir, latest, list_steps, remove_stale};
use gimlet::models::open;
use gimlet::storage::Path;

use super::{everywhere, names, save, scratch};

fn prune(model_dir: &Path, keep: Option<usize>, keep_dataset_checkpoints: Option<usize>) {
    Retention { keep, keep_dataset_checkpoints }.apply(model_dir, u64::MAX, None).unwrap();
}

#[test]
fn a_plain_file_may_have_the_name_of_a_checkpoint() {
    everywhere(|model_dir| {
        model_dir.create_dir_all().unwrap();
        checkpoint_dir(model_dir, 5).write_atomic(b"\x80").unwrap();
        save(model_dir, 6);
        assert_eq!(list_steps(model_dir).unwrap(), [5, 6]);
        prune(model_dir, Some(1), None);
        assert_eq!(names(model_dir), ["checkpoint_6"]);
    });
}

#[test]
fn the_newest_and_the_pinned_stay() {
    everywhere(|model_dir| {
        for step in [9, 10, 100, 1000] {
            save(model_dir, step);
        }
        checkpoint_dir(model_dir, 9).join("PINNED").write_atomic(b"").unwrap();
        prune(model_dir, None, None);
        prune(model_dir, Some(0), None);
        assert_eq!(list_steps(model_dir).unwrap(), [9, 10, 100, 1000]);
        prune(model_dir, Some(2), None);
        assert_eq!(list_steps(model_dir).unwrap(), [9, 100, 1000]);
        assert_eq!(names(model_dir), ["checkpoint_100", "checkpoint_1000", "checkpoint_9"]);
    });
}

#[test]
fn links_stay_and_what_lies_behind_them() {
    let (_dir, model_dir) = scratch();
    let elsewhere = model_dir.join("elsewhere");
    elsewhere.create_dir_all().unwrap();
    save(&elsewhere, 5);
    [6, 7].iter().for_each(|step| drop(save(&model_dir, *step)));
    let before = elsewhere.sizes().unwrap();
    let link = checkpoint_dir(&model_dir, 5).local().unwrap();
    std::os::unix::fs::symlink("elsewhere/checkpoint_5", link).unwrap();
    prune(&model_dir, Some(1), Some(1));
    assert_eq!(list_steps(&model_dir).unwrap(), [5, 7]);
    assert_eq!(elsewhere.sizes().unwrap(), before);
    assert!(checkpoint_dir(&model_dir, 5).is_link().unwrap());
    let stale = model_dir.join("checkpoint_8.tmp-1");
    std::os::unix::fs::symlink("elsewhere", stale.local().unwrap()).unwrap();
    remove_stale(&model_dir).unwrap();
    assert!(stale.is_link().unwrap());
    assert_eq!(elsewhere.sizes().unwrap(), before);
}

#[test]
fn what_was_just_saved_stays_though_a_later_one_is_damaged() {
    everywhere(|model_dir| {
        [1, 3, 9].iter().for_each(|step| drop(save(model_dir, *step)));
        let damaged = checkpoint_dir(model_dir, 9).join("target.a/0.0");
        damaged.remove_file().unwrap();
        let retention = Retention { keep: Some(1), keep_dataset_checkpoints: Some(1) };
        let removed = retention.apply(model_dir, 3, None).unwrap();
        assert_eq!(removed, [checkpoint_dir(model_dir, 1)]);
        let left = open(&checkpoint_dir(model_dir, 3)).unwrap();
        assert!(left.extra("gimlet/train_ds-000-of-001.json").unwrap().is_some());
    });
}

#[test]
fn old_data_positions_go_and_their_checkpoints_stay_whole() {
    everywhere(|model_dir| {
        for step in [1, 2, 3] {
            save(model_dir, step);
        }
        prune(model_dir, None, Some(1));
        for (step, expected) in [(1, false), (2, false), (3, true)] {
            let reader = open(&checkpoint_dir(model_dir, step)).unwrap();
            reader.verify().unwrap();
            let data = reader.extra("gimlet/train_ds-000-of-001.json").unwrap();
            assert_eq!(data.is_some(), expected, "step {step}");
        }
    });
}

#[test]
fn leftovers_of_dead_writers_go_and_those_of_living_ones_stay() {
    let (_dir, model_dir) = scratch();
    save(&model_dir, 1);
    let dead = model_dir.join("checkpoint_2.tmp-1700000000.gimlet");
    dead.join("target.a").create_dir_all().unwrap();
    // Without Gimlet's mark it may belong to a T5X run elsewhere, and it is new.
    model_dir.join("checkpoint_3.tmp-1700000000").create_dir_all().unwrap();
    model_dir.join("notes.tmp-1.gimlet").create_dir_all().unwrap();
    let living = Writer::create(&model_dir, 4, None).unwrap();
    assert_eq!(remove_stale(&model_dir).unwrap(), [dead]);
    living.commit().unwrap();
    assert_eq!(
        names(&model_dir),
        ["checkpoint_1", "checkpoint_3.tmp-1700000000", "checkpoint_4", "notes.tmp-1.gimlet"]
    );
}

#[test]
fn files_that_killed_writers_left_go_and_others_stay() {
    let (_dir, model_dir) = scratch();
    save(&model_dir, 1);
    let create = |name: &str, age: u64| {
        let local = model_dir.join(name).local().unwrap();
        let file = std::fs::File::create(local).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    };
    // The machine is another one, so only the age decides.
    create(".config.gin.tmp-00000000-4242-7", 7200);
    create(".config.gin.tmp-00000000-4242-8", 0);
    create(".notes.tmp-4242", 7200);
    let removed = remove_stale(&model_dir).unwrap();
    assert_eq!(removed, [model_dir.join(".config.gin.tmp-00000000-4242-7")]);
    let left = [".config.gin.tmp-00000000-4242-8", ".notes.tmp-4242", "checkpoint_1"];
    assert_eq!(names(&model_dir), left);
}

#[test]
fn the_latest_is_asked_of_a_folder_of_checkpoints() {
    let (_dir, model_dir) = scratch();
    assert_eq!(latest(&model_dir).unwrap(), None);
    save(&model_dir, 9);
    let newest = save(&model_dir, 10);
    assert_eq!(latest(&model_dir).unwrap(), Some(newest.clone()));
    let check = |path: &Path, expected: &str| {
        let message = latest(path).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(&newest, "use mode = 'specific'");
    check(&model_dir.join("none"), "needs an existing folder");
    let tensorflow = model_dir.join("tf");
    tensorflow.create_dir_all().unwrap();
    tensorflow.join("checkpoint").write_atomic(b"model_checkpoint_path: \"x\"").unwrap();
    // Its file names the newest, as T5X reads it.
    assert_eq!(latest(&tensorflow).unwrap(), Some(tensorflow));
}
