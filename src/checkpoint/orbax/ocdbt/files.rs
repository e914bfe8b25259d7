//! Reads the table of data files to which a manifest or node refers.

use super::codec::{Fields, MAX_TEXT_BYTES, Prefixed};

/// Maximum length of a path, set by the format.
const MAX_PATH_BYTES: usize = 65_535;

/// A file by its path below the database.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// Base folder of the files to which nodes in this file refer.
    pub base: String,
    /// The file's path.
    pub path: String,
}

/// Reads the table of files; `base` belongs to the file that holds it.
pub fn read(fields: &mut Fields<'_>, base: &str) -> Result<Vec<DataFile>, String> {
    let count = fields.count()?;
    let prefixed = Prefixed::read(fields, count)?;
    let base_lengths = fields.sizes(count)?;
    let paths = prefixed.texts(fields, MAX_PATH_BYTES)?;
    let mut bytes = 0;
    let file = |(path, base_length): (Vec<u8>, usize)| {
        let path = String::from_utf8(path).map_err(|_| "names a file whose name is not text")?;
        let own = path.get(..base_length).ok_or("names a file outside of its folder")?;
        let file = DataFile { base: format!("{base}{own}"), path: format!("{base}{path}") };
        // A long base repeated for short names needs much memory.
        bytes += file.base.len() + file.path.len();
        if bytes > MAX_TEXT_BYTES {
            return Err(format!("has names of more than {MAX_TEXT_BYTES} bytes together"));
        }
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        let is_inside = file.path.split('/').all(is_plain);
        // Nodes that do not exist, such as the root of an empty tree, refer to a file without a
        // name.
        match file.path.len() <= MAX_PATH_BYTES && (is_inside || path.is_empty()) {
            true => Ok(file),
            false => Err(format!("names the file `{}`", file.path)),
        }
    };
    paths.into_iter().zip(base_lengths).map(file).collect()
}

/// Returns a file of the table.
pub fn listed(files: &[DataFile], id: usize) -> Result<&DataFile, String> {
    let file = files.get(id).filter(|file| !file.path.is_empty() && !file.path.ends_with('/'));
    file.ok_or_else(|| "refers to a file that it does not list".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_other_databases_bring_their_folder_along() {
        // Two files, with paths of 4 and 3 bytes in folders of 2 bytes; the second path shares the
        // first two bytes.
        let table = [2, 2, 4, 1, 2, 2, b'p', b'/', b'd', b'1', b'x'];
        let files = read(&mut Fields::new(&table), "up/").unwrap();
        let shown: Vec<_> = files.iter().map(|file| (&file.base[..], &file.path[..])).collect();
        assert_eq!(shown, [("up/p/", "up/p/d1"), ("up/p/", "up/p/x")]);
    }

    #[test]
    fn a_long_base_does_not_make_gigabytes_of_kilobytes() {
        // A table of 10,000 files without names.
        let table = [&[0x90, 0x4e][..], &[0; 3 * 10_000]].concat();
        assert_eq!(read(&mut Fields::new(&table), "d/").unwrap().len(), 10_000);
        let base = "d/".repeat(30_000);
        let found = read(&mut Fields::new(&table), &base);
        assert!(found.unwrap_err().contains("names of more than"));
    }

    #[test]
    fn paths_that_leave_the_database_are_refused() {
        for path in ["../x", "/x", "a//b", "a/.."] {
            let mut table = vec![1, path.len() as u8, 0];
            table.extend(path.bytes());
            assert!(read(&mut Fields::new(&table), "").is_err(), "{path}");
        }
    }
}
