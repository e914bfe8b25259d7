//! The file of the working directory that declares a task, for a name that the given files do not declare.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::gin::module_of_file;

/// The greatest number of entries of folders that are looked at, of folders within each other, and of bytes of a file.
const MAX_ENTRIES: usize = 2000;
const MAX_DEPTH: usize = 3;
const MAX_BYTES: u64 = 1 << 20;

/// Returns the remedy for an unknown name: it is that of a file, or one of the gin files below the folder declares it.
pub(super) fn remedy(name: &str, folder: &Path) -> Option<String> {
    if let Some(module) = module_of_file(name) {
        return Some(format!(
            "it is the name of a file, and a task is expected: give the file with --gin_file={name} or \
             --module_import={module}"
        ));
    }
    let mut found: Vec<(PathBuf, usize)> = gin_files(folder)
        .into_iter()
        .filter_map(|file| Some((file.clone(), declared_at(name, &folder.join(file))?)))
        .collect();
    found.sort_by_key(|(file, _)| (file.components().count(), file.clone()));
    let (file, line) = found.first()?;
    let file = file.display().to_string();
    let module = module_of_file(&file).unwrap_or_default();
    Some(format!("it is declared at {file}:{line}: add --module_import={module}"))
}

/// Returns the gin files below a folder, as paths within it; hidden folders are not looked at.
fn gin_files(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders, mut left) = (Vec::new(), vec![PathBuf::new()], MAX_ENTRIES);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            let (path, name) = (folder.join(entry.file_name()), entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if left == 0 || name.to_string_lossy().starts_with('.') {
                continue;
            }
            left -= 1;
            if is_folder && path.components().count() < MAX_DEPTH {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "gin") {
                found.push(path);
            }
        }
    }
    found
}

/// Returns the line that declares a task or mixture, as its scope or by `name`, without reading the file as gin.
fn declared_at(name: &str, file: &Path) -> Option<usize> {
    let mut text = String::new();
    File::open(file).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let scope = format!("{name}/");
    let quoted = [format!("'{name}'"), format!("\"{name}\"")];
    let declares = |line: &str| match line.trim_start().strip_prefix(&scope) {
        Some(rest) => {
            rest.split(['.', ':', ' ', '=']).any(|part| ["Task", "Mixture"].contains(&part))
        }
        None => {
            line.contains("name") && !line.contains("mixture_or_task_name") && {
                quoted.iter().any(|quoted| line.contains(quoted))
            }
        }
    };
    text.lines().position(declares).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_the_files_of_the_folder_and_a_file_s_name_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("lab")).unwrap();
        let write = |file, text| fs::write(folder.path().join(file), text).unwrap();
        write(
            "run.gin",
            "MIXTURE_OR_TASK_NAME = 'mine'\nutils.DatasetConfig.mixture_or_task_name = 'mine'\n",
        );
        write(
            "lab/tasks.gin",
            "# mine\nmine/seqio.CSVDataSource.a = 1\nmine/seqio.Task:\n  a = 1\n",
        );
        let check = |name, expected: &str| {
            assert_eq!(remedy(name, folder.path()).as_deref(), Some(expected));
        };
        check("mine", "it is declared at lab/tasks.gin:3: add --module_import=lab.tasks");
        assert_eq!(remedy("other", folder.path()), None);
        let file = "it is the name of a file, and a task is expected: give the file with \
                    --gin_file=lab/tasks.gin or --module_import=lab.tasks";
        check("lab/tasks.gin", file);
    }
}
