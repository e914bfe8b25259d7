//! Processes that are killed, refused or out of space while they save.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use gimlet::checkpoint::{Array, Retention, Stored, Writer, remove_stale};
use gimlet::storage::Path;

use super::{names, newest_whole, save_sized, scratch};
use crate::child;

/// Columns of the arrays that are saved.
const LENGTH: usize = 1 << 12;

/// How often a writer is killed; this variable sets a greater number.
const KILLS: u64 = 50;
const KILLS_VARIABLE: &str = "GIMLET_TEST_KILLS";

/// Microseconds after which a child kills itself.
const LIFETIME: &str = "GIMLET_TEST_LIFETIME";

/// The folder in which this child works.
fn child_dir() -> Path {
    Path::parse(&child::task()).unwrap()
}

#[test]
#[ignore = "a child of another test"]
fn child_saves_until_it_is_killed() {
    let model_dir = child_dir();
    let lifetime: u64 = std::env::var(LIFETIME).unwrap().parse().unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_micros(lifetime));
        // SAFETY: ends this process as `kill -9` does.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) }
    });
    remove_stale(&model_dir).unwrap();
    let (reader, _) = newest_whole(&model_dir).unwrap();
    let mut step = reader.map_or(0, |reader| reader.step().unwrap());
    loop {
        step += 1;
        save_sized(&model_dir, step, LENGTH);
        let retention = Retention { keep: Some(2), keep_dataset_checkpoints: Some(1) };
        retention.apply(&model_dir, step, None).unwrap();
    }
}

#[test]
fn whenever_a_run_is_killed_its_newest_checkpoint_is_whole() {
    let (_dir, model_dir) = scratch();
    let one_save = time_of_a_save();
    let mut newest = 0;
    let kills = std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap());
    let mut draw = 5_u64;
    for _ in 0..kills {
        // From at once to after some saves.
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lifetime = (draw >> 33) % (6 * one_save);
        let mut child =
            child::command("checkpoint::crash::child_saves_until_it_is_killed", model_dir.as_str());
        let ended = child.env(LIFETIME, lifetime.to_string()).output().unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{ended:?}");
        let (found, skipped) = newest_whole(&model_dir).unwrap();
        assert!(skipped.is_empty(), "{skipped:?}");
        if let Some(reader) = found {
            let step = reader.step().unwrap();
            assert!(step >= newest, "step {step} after {newest}");
            newest = step;
            check_whole(reader.as_ref(), step);
        }
    }
    assert!(newest > 0, "no child lived long enough to save");
    remove_stale(&model_dir).unwrap();
    let are_whole = names(&model_dir).iter().all(|name| !name.contains(".tmp-"));
    assert!(are_whole, "{:?}", names(&model_dir));
}

/// Microseconds of a save that is not the process's first: on a cold disk, that one has taken thirty times as long.
fn time_of_a_save() -> u64 {
    let (_dir, model_dir) = scratch();
    save_sized(&model_dir, 1, LENGTH);
    let start = Instant::now();
    save_sized(&model_dir, 2, LENGTH);
    start.elapsed().as_micros() as u64
}

fn check_whole(reader: &dyn Stored, step: u64) {
    let arrays: Vec<_> = reader.leaves().iter().map(|leaf| leaf.name.to_string()).collect();
    assert_eq!(arrays.len(), 5);
    for name in arrays.iter().filter(|name| *name != "state/step") {
        let values = reader.read(name).unwrap().to_f32().unwrap();
        assert!(values.iter().all(|value| *value == step as f32), "{name} of step {step}");
    }
}

#[test]
#[ignore = "a child of another test"]
fn child_saves_into_a_full_disk() {
    let limit = libc::rlimit { rlim_cur: 10_000, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: plain system calls; a file that grows beyond the limit then fails as on a full disk.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
    println!("error: {}", try_save(&child_dir()).unwrap_err());
}

#[test]
#[ignore = "a child of another test"]
fn child_saves_where_it_may_not() {
    // SAFETY: plain system calls. Root may write everywhere, so become nobody.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgid(65_534), 0);
            assert_eq!(libc::setuid(65_534), 0);
        }
    }
    println!("error: {}", try_save(&child_dir()).unwrap_err());
}

/// Saves step 2: noise, which does not compress.
fn try_save(model_dir: &Path) -> Result<Path, Box<dyn std::error::Error>> {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state as f32
    };
    let values: Vec<f32> = (0..10_000).map(|_| noise()).collect();
    let writer = Writer::create(model_dir, 2, None)?;
    writer.array("target/a", Array::from_f32(&[10_000], &values).view())?;
    writer.array("state/step", Array::scalar_i32(2).view())?;
    Ok(writer.commit()?)
}

fn check_refusal(test: &str, model_dir: &Path, expected: &str) {
    let ended = child::command(test, model_dir.as_str()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{ended:?}");
    assert!(said.contains("error: ") && said.contains(expected), "{said}");
    assert_eq!(names(model_dir), ["checkpoint_1"], "{said}");
    let (newest, skipped) = newest_whole(model_dir).unwrap();
    assert!(skipped.is_empty());
    assert_eq!(newest.unwrap().step().unwrap(), 1);
}

#[test]
fn a_full_disk_leaves_nothing_half_visible() {
    let (_dir, model_dir) = scratch();
    super::save(&model_dir, 1);
    let test = "checkpoint::crash::child_saves_into_a_full_disk";
    check_refusal(test, &model_dir, "target.a/0`: the disk is full; free some space");
}

#[test]
fn no_permission_leaves_nothing_half_visible() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, model_dir) = scratch();
    super::save(&model_dir, 1);
    let mode = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode));
    mode(0o555).unwrap();
    let test = "checkpoint::crash::child_saves_where_it_may_not";
    check_refusal(test, &model_dir, "checkpoint_2.tmp-");
    check_refusal(test, &model_dir, "permission denied; check the owner and mode");
    mode(0o755).unwrap();
}
