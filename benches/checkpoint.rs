//! Measures saving and restoring a state of the shapes in a file, and writing and reading as many
//! bytes as one plain file; prints a JSON line for each. `benches/peers/compare_checkpoint.py`
//! makes the list and runs this beside T5X's own Checkpointer and Orbax.
//!
//! ```text
//! cargo bench --no-default-features --bench checkpoint -- --operation=save --arrays=FILE --dir=DIR
//! ```
//! The operations are `save`, `restore`, `plain_write`, `plain_read` and `import`, which reads all
//! arrays of `--file=FILE.safetensors` and takes neither a list nor a folder (`compare_import.py`);
//! `touch` only prepares the memory. When the clock stops, written data are on the disk and read
//! data in memory.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Instant;

use gimlet::checkpoint::{Array, Compression, Procedure, Retention, Saver, Saving, checkpoint_dir};
use gimlet::models::open;
use gimlet::storage::Path;
use serde_json::{Value, json};

/// The step that is saved.
const STEP: u64 = 1000;

/// The plain file.
const PLAIN: &str = "plain.bin";

/// Number of bytes that a plain program writes or reads at once.
const PIECE: usize = 1 << 20;

/// Memory that is touched before the clock starts.
const TOUCHED: usize = 4 << 30;

fn main() {
    // `cargo test --benches` runs this without arguments.
    let Some(operation) = option("operation") else { return };
    if operation == "touch" {
        std::hint::black_box(vec![1_u8; TOUCHED]);
        return;
    }
    if operation == "import" {
        println!("{}", import(&option("file").expect("--file=FILE.safetensors")));
        return;
    }
    let list = std::fs::read(option("arrays").expect("--arrays=FILE")).expect("a file");
    let shapes: Vec<(String, Vec<usize>)> = serde_json::from_slice(&list).expect("names, shapes");
    let dir = Path::parse(&option("dir").expect("--dir=DIR")).expect("a folder");
    let bytes: usize = shapes.iter().map(|(_, shape)| 4 * shape.iter().product::<usize>()).sum();
    let mut line = match &operation[..] {
        "save" => save(&dir, &state(&shapes)),
        "restore" => restore(&dir, shapes.len()),
        "plain_write" => plain_write(&dir, &state(&shapes)),
        "plain_read" => plain_read(&dir, bytes),
        other => panic!("no operation {other}"),
    };
    line["operation"] = json!(operation);
    line["bytes"] = json!(bytes);
    line["peak_rss_mb"] = json!(usage().ru_maxrss as f64 / 1024.0);
    println!("{line}");
}

/// Lets a process touch memory and release it. A virtual machine gets its memory page by page from
/// its host, and the first use of a page takes longer than a write to it. Without this, a program
/// that runs after another one has released much memory would be faster than that one.
fn touch_memory() {
    let touched = std::env::current_exe()
        .and_then(|exe| std::process::Command::new(exe).arg("--operation=touch").status());
    assert!(touched.expect("a process starts").success(), "{TOUCHED} bytes of memory are free");
}

/// `--name=value`.
fn option(name: &str) -> Option<String> {
    let prefix = format!("--{name}=");
    std::env::args().find_map(|arg| arg.strip_prefix(&prefix).map(str::to_string))
}

/// `none`, `gzip1` or `zstd3`: a name and a level.
fn codec() -> Compression {
    let codec = option("codec").unwrap_or("none".to_string());
    let (name, level) = codec.split_at(codec.find(char::is_numeric).unwrap_or(codec.len()));
    match name {
        "none" => Compression::None,
        "gzip" => Compression::Gzip(level.parse().expect("a level")),
        "zstd" => Compression::Zstd(level.parse().expect("a level")),
        other => panic!("no codec {other}"),
    }
}

/// Saves like a run: `stall_seconds` is the waiting time of the steps, `seconds` lasts until the
/// checkpoint is whole. Measures the second of two saves, which reuses the memory of the first; the
/// first checkpoint is removed before the clock starts.
fn save(dir: &Path, state: &[(String, Array)]) -> Value {
    let (model_dir, compression) = (dir.clone(), codec());
    let mut saver = Saver::new(Saving {
        model_dir,
        target_dtype: None,
        compression,
        retention: Retention::default(),
        procedure: Procedure::default(),
    });
    let mut save = |step: u64| {
        let start = Instant::now();
        let copied = saver.save(step, None, |snapshot| {
            state.iter().for_each(|(name, array)| snapshot.array(name, array.view()));
            snapshot.array("state/step", Array::scalar_i32(step as i32).view());
        });
        copied.expect("nothing is under way");
        let stall_seconds = start.elapsed().as_secs_f64();
        saver.wait().expect("the disk has room");
        (stall_seconds, start.elapsed().as_secs_f64())
    };
    touch_memory();
    let (_, first_seconds) = save(STEP - 1);
    checkpoint_dir(dir, STEP - 1).remove_dir_all().expect("a folder that can be written");
    let folder = File::open(dir.local().expect("a local folder")).expect("a folder");
    folder.sync_all().expect("a disk that works");
    touch_memory();
    let cpu = cpu_seconds();
    let (stall_seconds, seconds) = save(STEP);
    json!({
        "seconds": seconds,
        "first_seconds": first_seconds,
        "stall_seconds": stall_seconds,
        "cpu_seconds": cpu_seconds() - cpu,
    })
}

/// Restores like a run: every byte is checked.
fn restore(dir: &Path, num_arrays: usize) -> Value {
    touch_memory();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let stored = open(&checkpoint_dir(dir, STEP)).expect("`save` has run");
    let leaves = stored.leaves();
    let names: Vec<&str> = leaves.iter().map(|leaf| leaf.name).collect();
    let mut restored = Vec::new();
    let keep = &mut |_: &str, array| {
        restored.push(array);
        Ok(())
    };
    stored.read_each(&names, keep).expect("it is whole");
    assert_eq!(restored.len(), num_arrays + 1, "every array and the step");
    json!({"seconds": start.elapsed().as_secs_f64(), "cpu_seconds": cpu_seconds() - cpu})
}

/// Reads every array of a file of another program to memory, under T5X's names and in its order of
/// axes.
fn import(file: &str) -> Value {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let stored = open(&Path::parse(file).expect("a path")).expect("a file of safetensors");
    let leaves = stored.leaves();
    let names: Vec<&str> = leaves.iter().map(|leaf| leaf.name).collect();
    let (mut bytes, mut read) = (0, Vec::new());
    let keep = &mut |_: &str, array: Array| {
        bytes += array.data.len();
        read.push(array);
        Ok(())
    };
    stored.read_each(&names, keep).expect("it is whole");
    json!({
        "operation": "import",
        "bytes": bytes,
        "seconds": start.elapsed().as_secs_f64(),
        "cpu_seconds": cpu_seconds() - cpu,
        "peak_rss_mb": usage().ru_maxrss as f64 / 1024.0,
    })
}

fn plain_write(dir: &Path, state: &[(String, Array)]) -> Value {
    let path = dir.join(PLAIN).local().expect("a local folder");
    touch_memory();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut file = File::create(path).expect("a folder that can be written");
    for piece in state.iter().flat_map(|(_, array)| array.data.chunks(PIECE)) {
        file.write_all(piece).expect("the disk has room");
    }
    file.sync_all().expect("the disk works");
    json!({"seconds": start.elapsed().as_secs_f64(), "cpu_seconds": cpu_seconds() - cpu})
}

fn plain_read(dir: &Path, bytes: usize) -> Value {
    let path = dir.join(PLAIN).local().expect("a local folder");
    touch_memory();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut file = File::open(path).expect("`plain_write` has run");
    let mut read = vec![0; bytes];
    for piece in read.chunks_mut(PIECE) {
        file.read_exact(piece).expect("as many bytes as were written");
    }
    std::hint::black_box(&read);
    json!({"seconds": start.elapsed().as_secs_f64(), "cpu_seconds": cpu_seconds() - cpu})
}

/// Returns arrays of normally distributed numbers, which are hardly compressible, like trained
/// parameters.
fn state(shapes: &[(String, Vec<usize>)]) -> Vec<(String, Array)> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let array = |(name, shape): &(String, Vec<usize>)| {
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|_| noise.normal() * 0.05).collect();
        (name.clone(), Array::from_f32(shape, &values))
    };
    shapes.iter().map(array).collect()
}

struct Noise(u64);

impl Noise {
    /// Between 0 and 1, by xorshift.
    fn uniform(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 40) as f32 + 0.5) / (1 << 24) as f32
    }

    fn normal(&mut self) -> f32 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f32::consts::TAU * angle).cos()
    }
}

fn cpu_seconds() -> f64 {
    let usage = usage();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn usage() -> libc::rusage {
    // SAFETY: `rusage` is plain data for which zeros are valid, and the call only writes it.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}
