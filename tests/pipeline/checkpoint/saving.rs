//! Saving in parallel with other work, on several threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gimlet::checkpoint::{
    Array, ArrayView, Best, Compression, KeepBest, MetricMode, Procedure, Retention, Saver, Saving,
    Snapshot, Writer, checkpoint_dir, list_steps, write_arrays,
};
use gimlet::models::open;
use gimlet::storage::Path;

use super::{names, save, scratch};

#[test]
fn arrays_without_a_place_of_their_own_are_refused() {
    let (_dir, dir) = scratch();
    let array = Array::from_f32(&[2], &[1.0, 2.0]);
    let writer = Writer::create(&dir, 1, None).unwrap();
    for name in ["..", ".", "checkpoint", "gimlet"] {
        let message = writer.array(name, array.view()).unwrap_err().to_string();
        assert!(message.contains("a name that no folder can have"), "{name}: {message}");
    }
    writer.array("target/b.c", array.view()).unwrap();
    writer.array("target/b.c", array.view()).unwrap();
    let message = writer.array("target/b/c", array.view()).unwrap_err().to_string();
    assert!(message.contains("in the folder `target.b.c` of `target/b.c`"), "{message}");
    writer.array("target/a", array.view()).unwrap();
    writer.array("target/a/b", array.view()).unwrap();
    let message = writer.commit().unwrap_err().to_string();
    assert!(message.contains("`target/a/b` lies below another array"), "{message}");
    assert!(names(&dir).is_empty());
}

/// Enough arrays for all threads, of sizes from one element to some chunks' worth of rows.
fn arrays() -> Vec<(String, Array)> {
    let array = |at: usize| {
        let values: Vec<f32> = (0..at * at * 50).map(|i| (i % 977) as f32 - at as f32).collect();
        (format!("target/layers_{at}/kernel"), Array::from_f32(&[at * at, 50], &values))
    };
    let scale = ("target/scale".to_string(), Array::from_f32(&[1], &[3.0]));
    (1..20).map(array).chain([scale]).collect()
}

fn views(arrays: &[(String, Array)]) -> Vec<(&str, ArrayView<'_>)> {
    arrays.iter().map(|(name, array)| (&name[..], array.view())).collect()
}

fn saver(model_dir: &Path, keep: Option<usize>) -> Saver {
    let retention = Retention { keep, keep_dataset_checkpoints: None };
    let (model_dir, compression) = (model_dir.clone(), Compression::None);
    Saver::new(Saving {
        model_dir,
        target_dtype: None,
        compression,
        retention,
        procedure: Procedure::default(),
    })
}

/// Returns a state whose values are all the step.
fn copy(step: u64) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| {
        for (name, array) in arrays() {
            let values = vec![step as f32; array.data.len() / 4];
            snapshot.array(&name, Array::from_f32(&array.shape, &values).view());
        }
        snapshot.array("state/step", Array::scalar_i32(step as i32).view());
        snapshot.extra("gimlet/run.json", step.to_string().into_bytes());
    }
}

#[test]
fn what_several_threads_write_is_read_back_by_several() {
    let (_dir, model_dir) = scratch();
    let arrays = arrays();
    let writer = Writer::create(&model_dir, 5, None).unwrap();
    write_arrays(&writer, &views(&arrays)).unwrap();
    writer.array("state/step", Array::scalar_i32(5).view()).unwrap();
    let stored = open(&writer.commit().unwrap()).unwrap();
    stored.verify().unwrap();
    let names: Vec<&str> = arrays.iter().map(|(name, _)| &name[..]).collect();
    let mut seen = Vec::new();
    let visit = &mut |name: &str, array| {
        seen.push((name.to_string(), array));
        Ok(())
    };
    stored.read_each(&names, visit).unwrap();
    assert_eq!(seen, arrays);
}

#[test]
fn a_run_changes_its_state_while_the_copy_is_written() {
    let (_dir, model_dir) = scratch();
    let mut saver = saver(&model_dir, None);
    for step in 1..=4 {
        // Each save overwrites the memory of the previous one, which must be over by then.
        saver.save(step, None, copy(step)).unwrap();
        saver.check().unwrap();
    }
    saver.wait().unwrap();
    assert_eq!(list_steps(&model_dir).unwrap(), [1, 2, 3, 4]);
    for step in 1..=4 {
        let stored = open(&checkpoint_dir(&model_dir, step)).unwrap();
        assert_eq!(stored.extra("gimlet/run.json").unwrap().unwrap(), step.to_string().as_bytes());
        assert_eq!(stored.step().unwrap(), step);
        for leaf in stored.leaves().iter().filter(|leaf| leaf.name != "state/step") {
            let values = stored.read(leaf.name).unwrap().to_f32().unwrap();
            assert!(values.iter().all(|value| *value == step as f32), "{} of {step}", leaf.name);
        }
    }
}

#[test]
fn a_snapshot_of_other_arrays_holds_nothing_of_the_one_before() {
    let (_dir, model_dir) = scratch();
    let mut saver = saver(&model_dir, None);
    saver.save(1, None, copy(1)).unwrap();
    let smaller = |snapshot: &mut Snapshot| {
        snapshot.array("target/scale", Array::from_f32(&[2], &[1.0, 2.0]).view());
        snapshot.array("state/step", Array::scalar_i32(2).view());
    };
    saver.save(2, None, smaller).unwrap();
    saver.wait().unwrap();
    let stored = open(&checkpoint_dir(&model_dir, 2)).unwrap();
    let found: Vec<&str> = stored.leaves().iter().map(|leaf| leaf.name).collect();
    assert_eq!(found, ["state/step", "target/scale"]);
    assert_eq!(stored.read("target/scale").unwrap().to_f32().unwrap(), [1.0, 2.0]);
    assert_eq!(stored.extra("gimlet/run.json").unwrap(), None);
}

#[test]
fn what_goes_wrong_is_told_once_and_leaves_nothing() {
    let (_dir, model_dir) = scratch();
    // A file is in the place of the folder of checkpoints.
    let blocked = model_dir.join("blocked");
    blocked.write_atomic(b"").unwrap();
    let mut saver = saver(&blocked, None);
    saver.save(1, None, copy(1)).unwrap();
    let message = saver.wait().unwrap_err().to_string();
    assert!(message.contains("blocked"), "{message}");
    saver.wait().unwrap();
    // The next save reports the previous one.
    saver.save(2, None, copy(2)).unwrap();
    saver.save(3, None, copy(3)).unwrap_err();
    saver.wait().unwrap();
    assert_eq!(names(&model_dir), ["blocked"]);
}

#[test]
fn a_saver_that_goes_out_of_use_finishes_its_work() {
    let (_dir, model_dir) = scratch();
    let mut saver = saver(&model_dir, Some(1));
    saver.save(1, None, copy(1)).unwrap();
    saver.save(2, None, copy(2)).unwrap();
    drop(saver);
    assert_eq!(names(&model_dir), ["checkpoint_2"]);
}

/// Prunes the checkpoints of `steps`; returns those that stay. Expectations follow T5X's
/// `SaveBestCheckpointer._remove_old_checkpoints`.
fn prune(steps: &[u64], keep: usize, rule: KeepBest, metrics: &[(u64, f64)]) -> Vec<u64> {
    let (_dir, model_dir) = scratch();
    steps.iter().for_each(|step| drop(save(&model_dir, *step)));
    let metrics = metrics.iter().copied().collect::<BTreeMap<_, _>>();
    let retention = Retention { keep: Some(keep), keep_dataset_checkpoints: None };
    retention.apply(&model_dir, u64::MAX, Some(&Best { keep: rule, metrics })).unwrap();
    list_steps(&model_dir).unwrap()
}

fn rule(mode: MetricMode) -> KeepBest {
    let metric = "train/accuracy".to_string();
    KeepBest { metric, mode, keep_without_metrics: true, force_keep_period: None }
}

#[test]
fn the_best_stay_beside_the_newest() {
    let metrics = [(1, 0.9), (2, 0.1), (3, 0.5), (4, 0.7), (5, 0.0)];
    let steps = [1, 2, 3, 4, 5];
    assert_eq!(prune(&steps, 2, rule(MetricMode::Max), &metrics), [1, 4, 5]);
    assert_eq!(prune(&steps, 2, rule(MetricMode::Min), &metrics), [2, 3, 5]);
    assert_eq!(prune(&steps, 4, rule(MetricMode::Max), &metrics), steps);
    // Of equal ones the newer stays.
    let equal = metrics.map(|(step, _)| (step, 1.0));
    assert_eq!(prune(&steps, 1, rule(MetricMode::Max), &equal), [4, 5]);
    assert_eq!(prune(&steps, 1, rule(MetricMode::Min), &equal), [4, 5]);
}

#[test]
fn checkpoints_without_a_metric_stay_or_go_first() {
    let (steps, metrics) = ([1, 2, 3, 4, 5], [(2, 0.1), (3, 0.5), (4, f64::NAN)]);
    assert_eq!(prune(&steps, 1, rule(MetricMode::Max), &metrics), [1, 3, 5]);
    let strict = |mode| KeepBest { keep_without_metrics: false, ..rule(mode) };
    assert_eq!(prune(&steps, 2, strict(MetricMode::Max), &metrics), [2, 3, 5]);
    assert_eq!(prune(&steps, 1, strict(MetricMode::Min), &metrics), [2, 5]);
    assert_eq!(prune(&steps, 2, strict(MetricMode::Max), &[]), [3, 4, 5]);
    assert_eq!(prune(&steps, 2, rule(MetricMode::Max), &[]), steps);
}

#[test]
fn multiples_of_a_period_stay_and_do_not_count() {
    let metrics = [(10, 0.1), (11, 0.2), (12, 0.3), (20, 0.0), (21, 0.9)];
    let forced = KeepBest { force_keep_period: Some(10), ..rule(MetricMode::Max) };
    assert_eq!(prune(&[10, 11, 12, 20, 21], 1, forced, &metrics), [10, 12, 20, 21]);
}

#[test]
fn a_changed_byte_is_noticed_by_whoever_reads_the_array() {
    let (_dir, model_dir) = scratch();
    let mut saver = saver(&model_dir, None);
    saver.save(1, None, copy(1)).unwrap();
    saver.wait().unwrap();
    let checkpoint = checkpoint_dir(&model_dir, 1);
    let array = "target/layers_7/kernel";
    for (file, expected) in [("0.0", "has changed"), (".zarray", ""), ("0.0", "truncated")] {
        let path = checkpoint.join("target.layers_7.kernel").join(file);
        let whole = path.read().unwrap();
        let mut bytes = whole.clone();
        match expected {
            "truncated" => bytes.truncate(whole.len() - 1),
            // Not compressed: only Gimlet's checksums show it. In the text, a blank.
            _ => *bytes.last_mut().unwrap() ^= 0x2a,
        }
        std::fs::write(path.local().unwrap(), bytes).unwrap();
        let stored = open(&checkpoint).unwrap();
        let error = stored.read(array).unwrap_err();
        assert!(error.is_damage(), "{error}");
        for words in ["target.layers_7.kernel", file, expected] {
            assert!(error.to_string().contains(words), "{error}");
        }
        stored.read("target/layers_6/kernel").unwrap();
        std::fs::write(path.local().unwrap(), whole).unwrap();
        stored.read(array).unwrap();
    }
    checkpoint.join("gimlet/run.json").remove_file().unwrap();
    let error = open(&checkpoint).unwrap().extra("gimlet/run.json").unwrap_err();
    assert!(error.to_string().contains("`gimlet/run.json` is missing"), "{error}");
}

#[test]
fn what_is_written_is_counted_for_who_waits() {
    let (_dir, model_dir) = scratch();
    let written = Arc::new(AtomicU64::new(0));
    let writer = Writer::create(&model_dir, 1, None).unwrap().counting(written.clone());
    let array = Array::from_f32(&[3, 5], &[1.0; 15]);
    write_arrays(&writer, &[("target/a", array.view()), ("target/b", array.view())]).unwrap();
    assert_eq!(written.load(Ordering::Relaxed), 2 * 15 * 4);
}
