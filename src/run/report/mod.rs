//! `gimlet report`: one page about runs, from the files in their MODEL_DIRs, which opens in a browser without a
//! network.
//!
//! `folder` finds runs, `model_dir` reads one, `averages` adds those of benchmarks, `summary` compares them in a table, which `gimlet table` prints (`table`), `charts` chooses
//! the points to draw, `page` renders them with the template beside it;
//! uPlot draws them in the browser ([why](../../../docs/decisions/0044-a-report-is-one-page.md)).

mod averages;
mod charts;
mod configuration;
mod folder;
mod metrics;
mod model_dir;
mod number;
mod page;
mod predictions;
mod series;
mod summary;
mod table;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::storage::{Path, StorageError};
use crate::telemetry;

use self::folder::runs_at;
use self::model_dir::RunData;
use self::page::page;
use super::checkpoint::{parse_path, size, storage_failure};
use super::failure::Failure;
use super::output::{counted, write};

pub(super) use self::table::{TableArgs, table_command};

/// Flags of `gimlet report`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: gimlet report gs://my-bucket/base gs://my-bucket/slower --out=compared.html"
)]
pub struct ReportArgs {
    /// Folders of runs, or folders that hold them, such as that of a sweep, here or in a bucket; their curves share the charts.
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<String>,
    /// The title of the page; by default the names of the runs, or of the folder that holds them.
    #[arg(long = "title", value_name = "TEXT")]
    title: Option<String>,
    /// The page to write.
    #[arg(long = "out", value_name = "FILE", default_value = "report.html")]
    out: String,
    /// Write the page again when a run has written something, until interrupted; looks after so many seconds.
    #[arg(
        long = "watch",
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    watch: Option<u64>,
}

/// Writes the page.
///
/// # Errors
/// A folder that is not that of a run, storage that fails, a page that cannot be written. While watching, only the
/// first time.
pub(super) fn report_command(args: &ReportArgs) -> Result<(), Failure> {
    let out = parse_path(&args.out)?;
    let mut seen = args.seen();
    let (num_runs, mut written) = args.page()?;
    out.write_atomic(written.as_bytes()).map_err(storage_failure)?;
    let (runs, length) = (counted(num_runs, "run"), size(written.len() as u64));
    write(&format!("{out}: {runs}, {length}\n"))?;
    let Some(seconds) = args.watch else { return Ok(()) };
    loop {
        thread::sleep(Duration::from_secs(seconds));
        let now = args.seen();
        if now == seen {
            continue;
        }
        match args.update(&out, &mut written) {
            Ok(()) => seen = now,
            Err(failure) => telemetry::warn_once(&format!("the page stays as it is: {failure}")),
        }
    }
}

impl ReportArgs {
    /// Returns the number of runs, and their page.
    fn page(&self) -> Result<(usize, String), Failure> {
        let found = runs_at(&self.folders)?;
        let runs = found.iter().map(RunData::read).collect::<Result<Vec<_>, _>>()?;
        let title = match (&self.title, &self.folders[..]) {
            (Some(title), _) => Some(title.clone()),
            (None, [folder]) if runs.len() > 1 => Some(parse_path(folder)?.file_name().to_string()),
            (None, _) => None,
        };
        Ok((runs.len(), page(&runs, title.as_deref(), self.watch)))
    }

    /// Writes the page again if it is another one.
    fn update(&self, out: &Path, written: &mut String) -> Result<(), Failure> {
        let (_, page) = self.page()?;
        if page != *written {
            out.write_atomic(page.as_bytes()).map_err(storage_failure)?;
            *written = page;
        }
        Ok(())
    }

    /// Returns the names and sizes of the runs' files, by which changes are seen; `None` for a folder that changed
    /// while it was listed.
    fn seen(&self) -> Vec<Option<BTreeMap<String, u64>>> {
        let sizes = |folder: &String| -> Result<_, StorageError> { Path::parse(folder)?.sizes() };
        self.folders.iter().map(|folder| sizes(folder).ok()).collect()
    }
}
