//! The processes of a run: their number and place, the transport and the links between them, and the mesh that they make.

use std::env;
use std::fmt::Write;
use std::process::Command;

use anyhow::anyhow;

use crate::launch::{DistributedArgs, World};
use crate::partition::{LocalDevice, Process};
use crate::run::commands::describe_mesh;
use crate::run::configure::configure;
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::library::Library;
use crate::run::world::{Backend, backend, visible_gpus, world};
use crate::train::Train;

use super::DoctorArgs;

/// The variable with Gloo's network device.
const INTERFACE: &str = "GLOO_SOCKET_IFNAME";

/// Describes the processes of which a launcher has started this one, or which flags ask for, and the run that gin files describe
/// on them; `None` for all but the first process, which speaks for all.
///
/// # Errors
/// Launchers and flags that contradict themselves, and mistakes in the run.
pub fn describe(args: &DoctorArgs, color: bool) -> Result<Option<String>, Failure> {
    let world = world(&DistributedArgs::default())?;
    if world.as_ref().is_some_and(|world| world.rank > 0) {
        return Ok(None);
    }
    let visible = visible_gpus();
    let count = match (args.nproc_per_node, &world) {
        (Some(count), _) => count,
        (None, Some(world)) => world.size,
        (None, None) => visible.max(1),
    };
    if count == 0 {
        return Err(Failure::usage(anyhow!("--nproc_per_node is 0, expected at least 1")));
    }
    let mut out = String::new();
    if count > 1 {
        describe_world(world.as_ref(), count, &mut out);
        describe_transport(visible, backend()?, &mut out);
    }
    let has_no_run = args.gin.files.gin_file.is_empty() && args.gin.files.gin_bindings.is_empty();
    match has_no_run {
        true if count > 1 => describe_meshes(count, &mut out),
        true => {}
        false => describe_run(&args.gin, count, color, &mut out)?,
    }
    Ok(Some(out))
}

fn describe_world(world: Option<&World>, count: usize, out: &mut String) {
    let _ = match world {
        Some(world) => writeln!(
            out,
            "processes     {count}, {} on this host, started by {}; they meet at {}:{}",
            world.local_size, world.launcher, world.master_addr, world.master_port
        ),
        None => writeln!(out, "processes     {count} on this host"),
    };
}

fn describe_transport(visible: usize, backend: Backend, out: &mut String) {
    let (backend, link) = match (visible, backend) {
        (0, _) | (_, Backend::Gloo) => {
            let device = env::var(INTERFACE);
            let device = device.unwrap_or_else(|_| "that of the host's name".to_string());
            ("gloo", format!("network device: {device}"))
        }
        (_, Backend::Nccl) => ("nccl", gpu_links()),
    };
    let _ = writeln!(out, "backend       {backend}");
    let _ = writeln!(out, "link          {link}");
}

/// Describes how NVIDIA's tool says that GPUs are joined.
fn gpu_links() -> String {
    let found = Command::new("nvidia-smi").args(["topo", "-m"]).output();
    let text = found.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let link = text.ok().and_then(|text| link_of_first(&text));
    link.unwrap_or_else(|| "unknown: `nvidia-smi topo -m` does not say".to_string())
}

/// Returns the link from the first GPU to the second one in the matrix of `nvidia-smi topo -m`.
fn link_of_first(matrix: &str) -> Option<String> {
    let row = matrix.lines().find(|line| line.starts_with("GPU0"))?;
    let link = row.split_whitespace().nth(2)?;
    let meaning = match link.strip_prefix("NV") {
        Some(count) => format!("{count} NVLinks"),
        None if ["PIX", "PXB", "PHB"].contains(&link) => "PCI Express".to_string(),
        None => "PCI Express and the links between processors".to_string(),
    };
    Some(format!("{link} between the first two GPUs: {meaning}"))
}

/// Names the sizes of the model axis that these processes can have.
fn describe_meshes(count: usize, out: &mut String) {
    let sizes = (1..=count).filter(|size| count.is_multiple_of(*size));
    let sizes: Vec<String> = sizes.map(|size| size.to_string()).collect();
    let _ = writeln!(
        out,
        "mesh          {count} divide batches; num_partitions can be {}; --gin_file=FILE says what a run needs",
        sizes.join(", ")
    );
}

/// Describes the run of gin files on so many processes, with the lines of its dry run.
fn describe_run(gin: &GinArgs, count: usize, color: bool, out: &mut String) -> Result<(), Failure> {
    let configured = configure::<Train>(gin, &Library, color)?;
    let process = Process { rank: 0, count };
    let mesh = configured.spec.mesh(process, LocalDevice::Cpu).map_err(Failure::usage)?;
    describe_mesh(&configured.spec, &mesh, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_from_nvidias_matrix() {
        let matrix = |link: &str| {
            format!(
                "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \t{link}\tPIX\t0-15\nGPU1\t{link}\t X \tPIX\t0-15\n"
            )
        };
        let said = |link: &str| link_of_first(&matrix(link)).expect("two GPUs");
        assert_eq!(said("NV18"), "NV18 between the first two GPUs: 18 NVLinks");
        assert_eq!(said("PHB"), "PHB between the first two GPUs: PCI Express");
        assert!(said("SYS").ends_with("the links between processors"));
        assert_eq!(link_of_first("no devices were found"), None);
    }
}
