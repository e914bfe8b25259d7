//! The modules that files may import although no configurable is in them, and names of another project's modules that
//! do not exist here.

use super::older::Older;

/// Modules of a program that files import although the registry may have no name in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modules {
    /// Modules that stand for `__main__`, since one program runs every entry point.
    pub entry_points: &'static [&'static str],
    /// Packages that need no task file.
    pub packages: &'static [&'static str],
    /// Modules whose short names mean another module's configurables where no text has mentioned either.
    pub yielding: &'static [&'static str],
    /// Names of another project that do not exist here.
    pub absent: &'static [Absent],
    /// Names of earlier versions of that project.
    pub older: &'static [Older],
}

/// Names of another project's module that do not exist here, so that files which use them are told what to do.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    module: &'static str,
    /// The names; empty for all of the module and of modules below it.
    names: &'static [&'static str],
    /// The remedy for a file that names one of them.
    remedy: &'static str,
}

impl Absent {
    /// A module without any name, which may be imported nevertheless.
    pub const fn module(module: &'static str, remedy: &'static str) -> Self {
        Self { module, names: &[], remedy }
    }

    /// Some names of a module.
    pub const fn names(
        module: &'static str,
        names: &'static [&'static str],
        remedy: &'static str,
    ) -> Self {
        Self { module, names, remedy }
    }
}

impl Modules {
    /// Whether the module has names that do not exist here, or existed once.
    pub(super) fn is_absent(&self, module: &str) -> bool {
        self.older.iter().any(|older| is_below(older.name, module))
            || self.absent.iter().any(|absent| {
                absent.module == module
                    || (absent.names.is_empty() && is_below(module, absent.module))
            })
    }

    /// Finds a full name of an earlier version: `t5x.partitioning.ModelBasedPjitPartitioner`.
    pub(super) fn older(&self, name: &str) -> Option<&'static Older> {
        self.older.iter().find(|older| older.name == name)
    }

    /// Finds a name of an earlier version that is written without its module, if it can mean one thing.
    pub(super) fn older_of_short(&self, name: &str) -> Option<&'static Older> {
        let is_meant = |older: &&Older| {
            older.name.strip_suffix(name).is_some_and(|module| module.ends_with('.'))
        };
        let mut meant = self.older.iter().filter(is_meant);
        meant.next().filter(|_| meant.next().is_none())
    }

    /// Returns the remedy for a name of the module: `MetricsManager`, or a method of it.
    pub fn remedy(&self, module: &str, name: &str) -> Option<&'static str> {
        let full = format!("{module}.{name}");
        let means = |absent: &Absent| {
            let rest = full.strip_prefix(absent.module).and_then(|rest| rest.strip_prefix('.'));
            let is = |inside: &str, known: &str| inside == known || is_below(inside, known);
            rest.is_some_and(|inside| {
                absent.names.is_empty() || absent.names.iter().any(|known| is(inside, known))
            })
        };
        self.absent.iter().find(|absent| means(absent)).map(|absent| absent.remedy)
    }

    /// Returns the full name and the remedy for a name that is written without its module.
    pub(super) fn remedy_of_short(&self, name: &str) -> Option<(String, &'static str)> {
        let found = self.absent.iter().find(|absent| absent.names.contains(&name))?;
        Some((format!("{}.{name}", found.module), found.remedy))
    }
}

/// Whether the dotted name lies inside of the other.
fn is_below(name: &str, outer: &str) -> bool {
    name.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}
