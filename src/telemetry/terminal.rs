//! The capabilities of a stream: colours, and lines that redraw themselves. Every part of the
//! program asks here.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};

use super::console;

/// Whether output to a stream is coloured. The variables NO_COLOR (no-color.org), CLICOLOR_FORCE and
/// CLICOLOR (bixense.com/clicolors) decide in this order; else a terminal shows colours unless TERM is `dumb`.
pub fn colors(stream: &impl IsTerminal) -> bool {
    wants_colors(stream.is_terminal(), |name| env::var_os(name))
}

/// Whether a line that redraws itself can be shown on standard error.
pub(super) fn live() -> bool {
    io::stderr().is_terminal() && !is_dumb(|name| env::var_os(name)) && console::shows_progress()
}

fn wants_colors(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let is_zero = |name| variable(name).is_some_and(|value| value == "0");
    if is_set("NO_COLOR") {
        return false;
    }
    if is_set("CLICOLOR_FORCE") && !is_zero("CLICOLOR_FORCE") {
        return true;
    }
    is_terminal && !is_zero("CLICOLOR") && !is_dumb(variable)
}

fn is_dumb(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    variable("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_decide_before_the_stream() {
        let check = |is_terminal, variables: &[(&str, &str)], expected| {
            let find = |name: &str| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(wants_colors(is_terminal, find), expected, "{is_terminal} {variables:?}");
        };
        check(true, &[], true);
        check(false, &[], false);
        check(true, &[("TERM", "dumb")], false);
        check(true, &[("TERM", "xterm"), ("CLICOLOR", "0")], false);
        check(true, &[("NO_COLOR", "1")], false);
        check(true, &[("NO_COLOR", "")], true);
        check(false, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], true);
        check(true, &[("CLICOLOR_FORCE", "0")], true);
        check(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false);
    }
}
