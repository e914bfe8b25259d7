//! `gimlet checkpoint arrays`: the arrays of a checkpoint on standard output, for programs.

use std::io::{self, Write};

use clap::Args;

use crate::checkpoint::{CheckpointError, safetensors_header};
use crate::run::failure::Failure;
use crate::run::output::refuse_terminal;
use crate::storage::{Path, StorageError};

use super::arrays::Filter;
use super::open::{failure, open_at, parse_path};

/// Flags of `gimlet checkpoint arrays`.
#[derive(Args, Debug)]
#[command(
    after_help = "Names, shapes and order of axes are T5X's, whatever the format: `target/...` are the parameters, `state/...` the step \
    and the optimizer's state. `gimlet checkpoint convert` reads such a file.\nExample: gimlet checkpoint arrays \
    my_run:last --filter '^target/' >parameters.safetensors"
)]
pub struct ArraysArgs {
    /// A checkpoint, or a folder of them with the one that is meant: DIR:last, DIR:best or DIR:STEP.
    #[arg(value_name = "PATH")]
    path: String,
    /// Regular expression found in the names to write; all by default.
    #[arg(long, value_name = "REGEX")]
    filter: Option<String>,
}

pub(super) fn run(args: &ArraysArgs) -> Result<(), Failure> {
    let output = parse_path("/dev/stdout")?;
    refuse_terminal("the arrays are numbers for a program")?;
    let stored = open_at(&args.path)?;
    let arrays = Filter::new(args.filter.as_deref())?.some_arrays(&*stored)?;
    let named =
        arrays.iter().map(|array| (array.name.to_string(), array.dtype, array.shape.to_vec()));
    let header = safetensors_header(named, &[("format", stored.format().name())]);
    write(&header, &output).map_err(failure)?;
    let names: Vec<&str> = arrays.iter().map(|array| array.name).collect();
    let read = stored.read_each(&names, &mut |_, array| write(&array.data, &output));
    read.map_err(failure)
}

fn write(bytes: &[u8], output: &Path) -> Result<(), CheckpointError> {
    let written = io::stdout().write_all(bytes);
    written.map_err(|error| StorageError::new("write", output, error).into())
}
