//! The files that describe a run beside its results: `config.gin` and `model-info.txt`.

use crate::models::Model;
use crate::partition::Partitioner;
use crate::storage::Path;
use crate::telemetry;

use super::context::Context;
use super::error::SessionError;
use super::made_with::listed;
use super::model_info::{Variable, model_info};

/// The file of the run's configuration.
pub const CONFIG_FILE: &str = "config.gin";

/// Writes `config.gin` and `model-info.txt`. If an earlier start wrote another configuration, the values that differ are
/// printed.
///
/// # Errors
/// The folder cannot be written.
pub fn describe(dir: &Path, context: &Context<'_>, model_info: &str) -> Result<(), SessionError> {
    let changes = |earlier: &Path| (context.changes)(earlier);
    write_down(&dir.join(CONFIG_FILE), context.config_text, &changes)?;
    write_down(&dir.join("model-info.txt"), model_info, &|_| Vec::new())
}

/// Writes a text that every start of a run writes. If an earlier start wrote another text, that one
/// is kept as `config.gin.1`, `config.gin.2` and so on, and `changes` says how it differs.
fn write_down(
    file: &Path,
    text: &str,
    changes: &dyn Fn(&Path) -> Vec<String>,
) -> Result<(), SessionError> {
    match file.read() {
        Ok(earlier) if earlier == text.as_bytes() => return Ok(()),
        Ok(earlier) => {
            let kept = free_name_beside(file)?;
            kept.write_atomic(&earlier)?;
            let changed = format!("{file} has changed since the last start: see {kept}");
            telemetry::notice(&format!("{changed}{}", listed(&changes(&kept))));
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(file.write_atomic(text.as_bytes())?)
}

fn free_name_beside(file: &Path) -> Result<Path, SessionError> {
    let mut number = 1;
    loop {
        let name = Path::parse(&format!("{file}.{number}"))?;
        if !name.exists()? {
            return Ok(name);
        }
        number += 1;
    }
}

/// Returns the text of `model-info.txt`, for a run with that state beside the parameters.
pub fn describe_model(model: &Model, state: &[Variable], partitioner: &Partitioner) -> String {
    let parameters: Vec<Variable> = model
        .param_tree()
        .into_iter()
        .map(|param| Variable { name: param.name, shape: param.shape, axes: param.axes })
        .collect();
    let partitioner = partitioner.pjit();
    model_info(&parameters, state, &partitioner.rules())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_start_wrote_is_kept_where_it_differs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        let file = folder.join("config.gin");
        let changes = |_: &Path| Vec::new();
        ["a", "a", "b", "a"].iter().for_each(|text| write_down(&file, text, &changes).unwrap());
        let texts = |path: &Path| path.read_to_string().unwrap();
        let found: Vec<String> = folder.list().unwrap().iter().map(texts).collect();
        // config.gin, config.gin.1, config.gin.2
        assert_eq!(found, ["a", "a", "b"]);
    }
}
