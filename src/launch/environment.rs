//! Reads the variables that launchers set: numbers, places among processes, and the host of rank 0.

use super::error::WorldError;

/// The first port without a launcher's choice. Linux gives no such port to outgoing connections,
/// which use those up to 60999.
const FIRST_PORT: u32 = 61_440;
/// The number of ports from there on: the job's name chooses one, so that jobs on a host differ.
const NUM_PORTS: u32 = 4_096;

/// The environment of this process, or a fake of it.
pub(super) struct Environment<'a>(pub &'a dyn Fn(&str) -> Option<String>);

/// The place of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub rank: usize,
    pub size: usize,
    pub local_rank: usize,
    pub local_size: usize,
}

impl Environment<'_> {
    /// Returns the value of a variable; an empty one counts as not set.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// Returns the first variable that is set.
    pub fn first_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.text(name))
    }

    /// Returns a number, or `None` if the variable is not set.
    pub fn number(&self, name: &str) -> Result<Option<usize>, WorldError> {
        let parse = |value: String| {
            let number = value.trim().parse();
            number.map_err(|_| {
                WorldError::unfit(name, &value, "a whole number", "unset it if no launcher set it")
            })
        };
        self.text(name).map(parse).transpose()
    }

    /// Returns a number that must be there.
    pub fn needed(&self, name: &str, beside: &str) -> Result<usize, WorldError> {
        self.number(name)?.ok_or_else(|| {
            let remedy = format!("set both, or unset {beside} if no launcher set it");
            WorldError::missing(name, format!("a number, since {beside} is set"), remedy)
        })
    }

    /// Returns an index and a count: `None` if the index is not set.
    pub fn pair(&self, index: &str, count: &str) -> Result<Option<(usize, usize)>, WorldError> {
        let Some(at) = self.number(index)? else { return Ok(None) };
        let number = self.needed(count, index)?;
        in_range(at, index, number, count)?;
        Ok(Some((at, number)))
    }

    /// Returns the host of rank 0 and the port of the store: MASTER_ADDR and MASTER_PORT, if they are set.
    /// Otherwise the host is this one, if it has all processes, or the one that the launcher named, and
    /// the name of the job chooses the port.
    pub fn master(
        &self,
        seat: Seat,
        named: Option<String>,
        job: &str,
    ) -> Result<(String, u16), WorldError> {
        let own = (seat.local_size == seat.size).then(|| "127.0.0.1".to_string());
        let host = self.text("MASTER_ADDR").or(own).or(named).ok_or_else(|| {
            let expected =
                format!("the host of rank 0, since {} processes run on several hosts", seat.size);
            WorldError::missing("MASTER_ADDR", expected, "set it for all processes")
        })?;
        Ok((host, self.port()?.unwrap_or_else(|| port_of(job))))
    }

    fn port(&self) -> Result<Option<u16>, WorldError> {
        let Some(port) = self.text("MASTER_PORT") else { return Ok(None) };
        port.parse().ok().filter(|port| *port > 0).map(Some).ok_or_else(|| {
            let remedy = "choose a port that is free on the host of rank 0";
            WorldError::unfit("MASTER_PORT", &port, "a port from 1 to 65535", remedy)
        })
    }
}

/// Checks that an index is below its count.
pub(super) fn in_range(
    at: usize,
    index: &str,
    number: usize,
    count: &str,
) -> Result<(), WorldError> {
    match at < number {
        true => Ok(()),
        false => Err(WorldError::unfit(
            index,
            at,
            format!("less than {count}, which is {number}"),
            "they count from 0, and all processes get the same count",
        )),
    }
}

/// Checks that a host has no more processes than the run.
pub(super) fn fits(seat: Seat, local: &str, count: &str) -> Result<Seat, WorldError> {
    match seat.local_size <= seat.size {
        true => Ok(seat),
        false => Err(WorldError::unfit(
            local,
            seat.local_size,
            format!("at most {count}, which is {}", seat.size),
            "the processes of a host are part of all processes",
        )),
    }
}

/// Returns the port for a job without a launcher's choice.
fn port_of(job: &str) -> u16 {
    // FNV-1a (Fowler, Noll, Vo): the same in all processes, and different for neighbouring names.
    let hash = job
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u16::try_from(FIRST_PORT + hash % NUM_PORTS).expect("the last port is 65535")
}

#[cfg(test)]
pub(super) mod fake {
    use super::super::{DistributedArgs, World, WorldError};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: DistributedArgs,
    }

    /// Returns the world that an environment `A=1 B=2` and flags give.
    pub fn found(variables: &str, flags: &str) -> Result<Option<World>, WorldError> {
        let variable = |name: &str| {
            let set = variables.split(' ').filter_map(|word| word.split_once('='));
            set.filter(|(set, _)| *set == name).map(|(_, value)| value.to_string()).next_back()
        };
        let words = ["gimlet"].into_iter().chain(flags.split_whitespace());
        World::find(&variable, &Line::parse_from(words).flags)
    }

    /// Checks the ranks, sizes and the store's address: `3/4 1/2 host:port`; `PORT` is
    /// one that Gimlet chose.
    #[track_caller]
    pub fn check(variables: &str, flags: &str, expected: &str) {
        let shown = match found(variables, flags) {
            Ok(None) => "alone".to_string(),
            Ok(Some(it)) => {
                let is_ours = u32::from(it.master_port) >= super::FIRST_PORT;
                let port = if is_ours { "PORT".to_string() } else { it.master_port.to_string() };
                let seat = format!("{}/{} {}/{}", it.rank, it.size, it.local_rank, it.local_size);
                format!("{seat} {}:{port}", it.master_addr)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{variables} {flags}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_get_ports_of_their_own() {
        let ports: Vec<_> = ["1000.0", "1000.1", "1001.0", ""].map(port_of).to_vec();
        assert!(ports.iter().all(|port| u32::from(*port) >= FIRST_PORT), "{ports:?}");
        let mut unique = ports.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), ports.len(), "{ports:?}");
    }
}
