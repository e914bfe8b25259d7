//! Tests that need a process of their own: for its environment, its limits, its death. The process
//! runs a test of this binary that is ignored otherwise, since alone it would prove nothing.

use std::process::Command;

/// The variable with the task of a child.
const TASK: &str = "GIMLET_TEST_TASK";

/// Returns the command for an ignored test, such as `storage::copies::child_reads`, with its task.
pub fn command(test: &str, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture"]).env(TASK, task);
    command
}

/// Returns the task of this process.
pub fn task() -> String {
    std::env::var(TASK).expect("only another test starts this one, and gives it a task")
}
