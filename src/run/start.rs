//! Starts `gimlet-torch`, the second program, so that it finds a libtorch that it can load.
//!
//! `gimlet-torch` lies beside `gimlet`. It looks for libtorch in the places that build.rs wrote
//! into it: in the Python environment into which a wheel was installed, in the folder of
//! `make install`, and in the checkout. If none of them has a libtorch, the environment's Pythons
//! are asked for their torch, as they are for the launcher of several machines.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::anyhow;

use super::failure::Failure;
use crate::python::PYTHON_VARIABLE;
use crate::telemetry;

/// The places where `gimlet-torch` itself looks for libtorch, in its order; `$ORIGIN` is its own
/// folder.
const OWN_PLACES: &str = env!("GIMLET_LIBTORCH_PLACES");
/// The library that `gimlet-torch` was linked with: libtorch's for CUDA in a build for CUDA.
const LIBRARY: &str = env!("GIMLET_LIBTORCH_LIBRARY");
/// The library whose place decides from where the loader takes libtorch.
const FIRST_LIBRARY: &str = "libtorch_cpu.so";
/// The version for which the bridge is written.
const VERSION: &str = env!("GIMLET_TORCH_VERSION");
/// The variable with an extra place of libtorch.
const LIBTORCH: &str = "LIBTORCH";
/// The variables with the active Python environments.
const ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];
/// The variable with further folders for the loader.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// Prints the folder of torch without importing it, which would take a second.
const WHERE_IS_TORCH: &str = "import importlib.util as util; spec = util.find_spec('torch'); \
                              print(spec.submodule_search_locations[0] if spec else '')";

/// Whether this build uses GPUs.
pub(super) fn is_for_gpus() -> bool {
    LIBRARY == "libtorch_cuda.so"
}

/// A command that starts `gimlet-torch` with a libtorch of the right version.
pub(super) fn torch_command() -> Result<Command, Failure> {
    let own = env::current_exe().map_err(Failure::world)?;
    let program = own.with_file_name("gimlet-torch");
    if !program.exists() {
        let message = format!("there is no {}, which trains and decodes", program.display());
        let build = "this build of gimlet is without libtorch: run `make build` or `make wheel`";
        return Err(Failure::World(anyhow!(message).context(build)));
    }
    let folder = program.parent().expect("a program lies in a folder");
    let mut command = Command::new(&program);
    let (said, texts) = telemetry::said_variable();
    command.env(said, texts);
    if let Some(libtorch) = choose(own_places(folder), other_places(folder))? {
        command.env(LIBRARY_PATH, library_path(&libtorch));
    }
    Ok(command)
}

fn own_places(programs: &Path) -> impl Iterator<Item = PathBuf> {
    OWN_PLACES.split(':').map(|place| match place.strip_prefix("$ORIGIN/") {
        Some(rest) => programs.join(rest),
        None => PathBuf::from(place),
    })
}

/// Returns the places of a torch of the user or a Python.
fn other_places(programs: &Path) -> impl Iterator<Item = PathBuf> {
    let named = env::var_os(LIBTORCH).map(PathBuf::from);
    named.into_iter().chain(pythons(programs).filter_map(|python| torch_of(&python)))
}

/// Returns the Pythons that may have a torch: beside the programs, in the active environment, on the path.
fn pythons(programs: &Path) -> impl Iterator<Item = PathBuf> {
    let environments = ENVIRONMENTS.into_iter().filter_map(env::var_os);
    [programs.join("python3")]
        .into_iter()
        .chain(environments.map(|folder| Path::new(&folder).join("bin/python3")))
        .chain([PathBuf::from("python3")])
}

/// Returns a Python that has the whole of torch, with the parts that are written in Python.
pub(super) fn python_with_torch() -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(Failure::world)?;
    let named = env::var_os(PYTHON_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let programs = own.parent().expect("a program lies in a folder");
    let tried: Vec<PathBuf> = named.into_iter().chain(pythons(programs)).collect();
    let is_whole = |torch: PathBuf| torch.join("distributed/run.py").exists();
    let found = tried.iter().find(|python| torch_of(python).is_some_and(is_whole));
    found.cloned().ok_or_else(|| {
        let tried: Vec<_> = tried.iter().map(|python| format!("`{}`", python.display())).collect();
        Failure::World(anyhow!("no Python has torch with its launcher; these were asked: {}", tried.join(", ")).context(
            format!(
                "`gimlet launch` on several machines needs PyTorch's elastic launcher: run `pip install \
                 'torch=={}.*'`, or set {PYTHON_VARIABLE} to a Python that has torch",
                series(VERSION)
            ),
        ))
    })
}

fn torch_of(python: &Path) -> Option<PathBuf> {
    let output = Command::new(python).args(["-c", WHERE_IS_TORCH]).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    let folder = folder.trim();
    (output.status.success() && !folder.is_empty()).then(|| PathBuf::from(folder))
}

/// Returns the folder of libtorch to pass to the loader; `None` if the loader finds one by itself.
fn choose(
    own: impl Iterator<Item = PathBuf>,
    others: impl Iterator<Item = PathBuf>,
) -> Result<Option<PathBuf>, Failure> {
    // The loader takes the first of its own places that has libtorch, of any version.
    for place in own {
        if place.join("lib").join(FIRST_LIBRARY).exists() {
            return unfit(&place).map_or(Ok(None), |why| Err(no_libtorch(&[why])));
        }
    }
    let mut passed_over = Vec::new();
    for place in others {
        match unfit(&place) {
            None => return Ok(Some(place)),
            Some(why) if passed_over.contains(&why) => {}
            Some(why) => passed_over.push(why),
        }
    }
    Err(no_libtorch(&passed_over))
}

/// Returns the reason why a folder's libtorch cannot be loaded.
fn unfit(libtorch: &Path) -> Option<String> {
    let version = stated_version(libtorch).filter(|version| series(version) != series(VERSION));
    if let Some(version) = version {
        return Some(format!("{} is version {version}", libtorch.display()));
    }
    let library = libtorch.join("lib").join(LIBRARY);
    (!library.exists()).then(|| format!("there is no {}", library.display()))
}

/// Returns `2.11` for `2.11.0+cu130`: releases of a series are compatible.
fn series(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(series, _)| series)
}

/// Returns the version in PyTorch's wheel or in libtorch's archive.
fn stated_version(libtorch: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(libtorch.join(name)).ok();
    if let Some(module) = read("version.py") {
        let line = module.lines().find(|line| line.starts_with("__version__"))?;
        return line.split('\'').nth(1).map(public_version);
    }
    read("build-version").map(|version| public_version(version.trim()))
}

/// Returns `2.11.0` for `2.11.0+cu130`.
fn public_version(version: &str) -> String {
    version.split('+').next().expect("split yields one part").to_string()
}

fn no_libtorch(passed_over: &[String]) -> Failure {
    let wanted = series(VERSION);
    let found = match passed_over.is_empty() {
        true => "neither a Python nor LIBTORCH has a torch".to_string(),
        false => passed_over.join("; "),
    };
    Failure::World(anyhow!(found).context(format!(
        "gimlet needs libtorch {wanted}: run `pip install 'torch=={wanted}.*'` (in a checkout \
         `make libtorch`), or set {LIBTORCH} to the folder of one"
    )))
}

/// Returns the folders of libtorch and of CUDA, whose wheels lie beside torch's, before the user's
/// own.
fn library_path(libtorch: &Path) -> OsString {
    let cuda = libtorch.with_file_name("nvidia").join("cu13/lib");
    let own = [libtorch.join("lib"), cuda].into_iter().filter(|folder| folder.exists());
    let set = env::var_os(LIBRARY_PATH).unwrap_or_default();
    let folders =
        own.chain(env::split_paths(&set).filter(|folder| folder.components().count() > 0));
    // A folder with a colon in its name cannot be passed to the loader.
    env::join_paths(folders).unwrap_or(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder with a libtorch of a version.
    fn torch(folder: &Path, name: &str, version: &str) -> PathBuf {
        let torch = folder.join(name);
        fs::create_dir_all(torch.join("lib")).unwrap();
        for library in [FIRST_LIBRARY, LIBRARY] {
            fs::write(torch.join("lib").join(library), "").unwrap();
        }
        let module = format!("from typing import Optional\n__version__ = '{version}'\n");
        fs::write(torch.join("version.py"), module).unwrap();
        torch
    }

    fn check(own: &[&PathBuf], others: &[&PathBuf]) -> Result<Option<PathBuf>, String> {
        let owned = |places: &[&PathBuf]| {
            places.iter().map(|place| place.to_path_buf()).collect::<Vec<_>>().into_iter()
        };
        choose(owned(own), owned(others)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_loader_is_told_of_a_libtorch_only_where_it_has_none_itself() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("absent");
        let cuda = torch(dir.path(), "cuda", "2.11.1+cu130");
        let cpu = torch(dir.path(), "cpu", "2.11.0");
        assert_eq!(check(&[&absent, &cuda], &[&cpu]), Ok(None));
        assert_eq!(check(&[&absent], &[&absent, &cpu, &cuda]), Ok(Some(cpu)));
    }

    #[test]
    fn a_torch_of_another_version_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let old = torch(dir.path(), "old", "2.1.0+cpu");
        let right = torch(dir.path(), "right", "2.11.0");
        // The loader would take the old one, even if others are present.
        let remedy = "gimlet needs libtorch 2.11: run `pip install 'torch==2.11.*'`";
        let why = format!("{} is version 2.1.0", old.display());
        for said in [check(&[&old, &right], &[&right]), check(&[], &[&old, &old])] {
            let said = said.expect_err("an old torch is refused");
            assert!(said.starts_with(remedy) && said.ends_with(&why), "{said}");
        }
        assert_eq!(check(&[], &[&old, &right]), Ok(Some(right)));
    }

    #[test]
    fn a_machine_without_torch_is_told_so() {
        let said = check(&[], &[]).expect_err("there is none");
        assert!(said.ends_with("neither a Python nor LIBTORCH has a torch"), "{said}");
    }

    #[test]
    fn libtorch_stands_before_other_folders_of_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let torch = torch(dir.path(), "torch", "2.11.0");
        let nvidia = dir.path().join("nvidia/cu13/lib");
        fs::create_dir_all(&nvidia).unwrap();
        let path = library_path(&torch);
        let folders: Vec<_> = env::split_paths(&path).take(2).collect();
        assert_eq!(folders, [torch.join("lib"), nvidia]);
    }
}
