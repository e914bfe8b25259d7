//! `gimlet doctor`: the capabilities of this build and machine, and commands that fix missing parts.
//!
//! The machine is described here, libtorch in the second program: [`report`] joins the two, so that
//! the machine is described even if libtorch is absent or cannot be loaded.

#[cfg(feature = "torch")]
mod libtorch;
mod places;
mod processes;

#[cfg(feature = "torch")]
pub use libtorch::{BUILD, describe_device, libtorch};
use std::fmt::Write;
use std::fs;
use std::thread::available_parallelism;

use clap::Args;

use crate::storage::{CREDENTIALS, Credentials};
use crate::telemetry::counted;

use super::failure::Failure;
use super::gin_flags::GinArgs;
use super::output::write;
use super::start::torch_command;
use super::version;

/// A line of the report: the topic and its state.
pub type Fact = (&'static str, String);

/// Arguments of `gimlet doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Folders, such as gs://BUCKET/runs: tries the operations of a run there, and says which
    /// permission is missing.
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    /// A run: says its mesh, the memory of each device, and the bytes that a step sends.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Number of processes of the run; by default those of the launcher, or one for each visible GPU.
    #[arg(long = "nproc_per_node", alias = "nproc-per-node", value_name = "N")]
    pub nproc_per_node: Option<usize>,
}

/// Returns the report, a line a fact. Credentials are named, but their values are never shown.
pub fn report(libtorch: &[Fact]) -> String {
    let mut facts = vec![("gimlet", version::version())];
    facts.extend_from_slice(libtorch);
    facts.push(("CPU", cpu()));
    let mut facts: Vec<_> =
        facts.into_iter().map(|(name, fact)| (name.to_string(), fact)).collect();
    facts.extend(CREDENTIALS.iter().map(credentials));
    let mut out = String::new();
    for (name, value) in facts {
        let _ = writeln!(out, "{name:<13} {value}");
    }
    out
}

/// Examines the given folders. Returns false if there are none: the report is then of libtorch, too.
///
/// # Errors
/// Paths that have no meaning, permissions that are missing, mistakes in a run.
pub fn without_torch(args: &DoctorArgs, color: bool) -> Result<bool, Failure> {
    match &args.paths[..] {
        [] => processes::describe(args, color).map(|_| false),
        places => examine(places).map(|()| true),
    }
}

/// Prints the whole report, in `gimlet-torch`.
#[cfg(feature = "torch")]
pub fn tell(args: &DoctorArgs, color: bool) -> Result<(), Failure> {
    match processes::describe(args, color)? {
        Some(described) => write(&format!("{}{described}", report(&libtorch()))),
        None => Ok(()),
    }
}

/// Prints `gimlet-torch`'s report of libtorch; if that fails, the machine and the remedy.
pub fn diagnose(args: &[String], doctor: &DoctorArgs, color: bool) -> Result<(), Failure> {
    let trouble = match torch_command() {
        Err(failure) => failure.to_string(),
        Ok(mut command) => match command.args(&args[1..]).output() {
            Ok(output) if output.status.success() => {
                return write(&String::from_utf8_lossy(&output.stdout));
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.lines().next().unwrap_or("it said nothing").to_string();
                format!("cannot be loaded: {said}")
            }
            Err(error) => format!("cannot start {}: {error}", command.get_program().display()),
        },
    };
    match processes::describe(doctor, color)? {
        Some(described) => write(&format!("{}{described}", report(&[("libtorch", trouble)]))),
        None => Ok(()),
    }
}

/// Tries the actions of a run in each of the folders; status 1 means that a permission is missing.
fn examine(places: &[String]) -> Result<(), Failure> {
    let mut is_sound = true;
    for place in places {
        let examined = places::examine(place).map_err(Failure::usage)?;
        write(&examined.report)?;
        is_sound &= examined.is_sound;
    }
    if is_sound { Ok(()) } else { Err(Failure::Said) }
}

fn cpu() -> String {
    format!("{}; {}", counted(cores(), "core"), bfloat16(&cpu_flags()))
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Returns the number of cores with the model's name, if the kernel tells it: `8 cores, AMD EPYC 9R14`.
#[cfg(feature = "torch")]
fn processors() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = format!("CPU, {}", counted(cores(), "core"));
    name.map_or(cores.clone(), |(_, name)| format!("{cores}, {name}"))
}

/// Returns the instruction sets that the kernel names; empty if it uses another format.
fn cpu_flags() -> Vec<String> {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    flags.unwrap_or_default().split_whitespace().map(str::to_string).collect()
}

/// Whether matrix products in bfloat16 are faster than in float32 here.
fn bfloat16(flags: &[String]) -> String {
    let fast = ["amx_bf16", "avx512_bf16", "bf16"];
    match fast.iter().find(|fast| flags.iter().any(|flag| flag == *fast)) {
        Some(flag) => format!("bfloat16 is fast ({flag})"),
        None => "bfloat16 is slower than float32: set the network's dtype = 'float32'".to_string(),
    }
}

fn credentials(of: &Credentials) -> (String, String) {
    let found = match of.found() {
        Some(place) => format!("credentials in {place}"),
        None => format!("public data only; credentials would be looked for in ${}", of.variable()),
    };
    (format!("{}://", of.scheme), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_bfloat16_instructions_are_named() {
        let flags = ["avx512_bf16", "amx_bf16"].map(str::to_string);
        assert_eq!(bfloat16(&flags), "bfloat16 is fast (amx_bf16)");
        assert!(bfloat16(&[]).ends_with("dtype = 'float32'"));
    }

    #[test]
    fn libtorch_stands_between_the_program_and_the_machine() {
        let report = report(&[("libtorch", "absent".to_string())]);
        let names: Vec<_> = report.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names[..3], ["gimlet", "libtorch", "CPU"]);
    }
}
