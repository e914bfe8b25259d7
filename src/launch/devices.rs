//! Counts the GPUs that CUDA shows to a process, without loading CUDA.

use std::fs;
use std::path::Path;

/// The variable that chooses GPUs.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Returns the number of GPUs that a process with this environment sees. `num_present` counts those of the
/// machine.
pub fn num_visible(
    variable: &dyn Fn(&str) -> Option<String>,
    num_present: impl FnOnce() -> usize,
) -> usize {
    let num_present = num_present();
    let Some(chosen) = variable(VISIBLE) else { return num_present };
    let chosen: Vec<&str> = chosen.split(',').map(str::trim).collect();
    // CUDA shows the GPUs before the first name that is not valid, and none if a GPU is named twice.
    let num_valid = chosen.iter().take_while(|name| is_valid(name, num_present)).count();
    let is_twice = (1..num_valid).any(|at| chosen[..at].contains(&chosen[at]));
    if is_twice { 0 } else { num_valid.min(num_present) }
}

/// Returns the number of GPUs of this machine: in a container, of those that it was given.
pub fn num_present() -> usize {
    let is_gpu = |name: &str| {
        let number = name.strip_prefix("nvidia");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    match num_entries("/dev", is_gpu) {
        0 => num_entries("/proc/driver/nvidia/gpus", |_| true),
        number => number,
    }
}

fn num_entries(folder: impl AsRef<Path>, is_counted: impl Fn(&str) -> bool) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_counted)).count()
}

/// Whether a name can be that of a GPU: an index, or the start of a UUID.
fn is_valid(name: &str, num_present: usize) -> bool {
    match name.parse::<usize>() {
        Ok(index) => index < num_present,
        Err(_) => name.starts_with("GPU-") || name.starts_with("MIG-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chosen: Option<&str>, num_present: usize, expected: usize) {
        let variable = |name: &str| (name == VISIBLE).then_some(chosen)?.map(str::to_string);
        assert_eq!(num_visible(&variable, || num_present), expected, "{chosen:?} of {num_present}");
    }

    #[test]
    fn the_chosen_gpus_are_counted_as_cuda_does() {
        check(None, 8, 8);
        check(None, 0, 0);
        check(Some(""), 8, 0);
        check(Some("-1"), 8, 0);
        check(Some("0,1"), 8, 2);
        check(Some("0, 7"), 8, 2);
        check(Some("0,8,1"), 8, 1);
        check(Some("1,-1,2"), 8, 1);
        check(Some("1,1"), 8, 0);
        check(Some("GPU-8932f937,GPU-12ab"), 8, 2);
        check(Some("0,1"), 0, 0);
    }

    #[test]
    fn only_numbered_files_are_gpus() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let is_gpu = |name: &str| name.trim_start_matches("nvidia").parse::<u32>().is_ok();
        assert_eq!(num_entries(dir.path(), is_gpu), 2);
        assert_eq!(num_entries(dir.path().join("none"), |_| true), 0);
    }
}
