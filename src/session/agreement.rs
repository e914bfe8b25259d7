//! Agreement of the processes of a run: they add up the same sums, end after the same step, and run the
//! same thing.

use std::fs::File;
use std::io::{self, Read as _};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::evaluation::Outputs;
use crate::metrics::LossSums;
use crate::partition::{ProcessError, Processes};

use super::unfinished::Unfinished;

/// Adds up the sums of all processes, and returns whether one of them was asked to end.
///
/// # Errors
/// Another process is lost.
pub fn add_up(
    processes: &Processes,
    sums: &mut LossSums,
    is_asked: bool,
) -> Result<bool, ProcessError> {
    if processes.is_alone() {
        return Ok(is_asked);
    }
    let mut values = vec![f64::from(is_asked)];
    sums.each(&mut |value| values.push(*value));
    processes.sum(&mut values)?;
    replace(sums, &values[1..]);
    Ok(values[0] > 0.0)
}

/// Ensures that no process was asked to end.
///
/// # Errors
/// One was, or is lost.
pub fn agree_to_go_on(processes: &Processes, is_asked: bool) -> Result<(), Unfinished> {
    let mut asked = [f64::from(is_asked)];
    processes.sum(&mut asked)?;
    if asked[0] > 0.0 { Err(Unfinished::Asked) } else { Ok(()) }
}

/// Returns the sums of every process, in the order of their numbers, without those that do not count.
///
/// # Errors
/// Another process is lost.
pub fn sums_of_all(
    processes: &Processes,
    mut own: LossSums,
    counts: bool,
) -> Result<Vec<LossSums>, ProcessError> {
    if processes.is_alone() {
        return Ok(vec![own]);
    }
    let mut values = vec![f64::from(counts)];
    own.each(&mut |value| values.push(*value));
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let all = processes.gather(&bytes)?.into_iter().filter_map(|bytes| {
        let value = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let values: Vec<f64> = bytes.chunks_exact(8).map(value).collect();
        let mut sums = own.clone();
        replace(&mut sums, &values[1..]);
        (values[0] > 0.0).then_some(sums)
    });
    Ok(all.collect())
}

/// Returns the value that the first process makes; the others make none.
///
/// # Errors
/// The first process cannot make it, which ends all; another process is lost.
pub fn of_first<T: Serialize + DeserializeOwned, E: From<ProcessError>>(
    processes: &Processes,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if processes.is_alone() {
        return make();
    }
    let own = if processes.is_first() { to_bytes(&make()?) } else { Vec::new() };
    Ok(from_bytes(&processes.of_first(own)?))
}

/// Returns the values of all processes, in the order of their numbers.
///
/// # Errors
/// Another process is lost.
pub fn of_all<T: Serialize + DeserializeOwned>(
    processes: &Processes,
    own: &T,
) -> Result<Vec<T>, ProcessError> {
    let all = processes.gather(&to_bytes(own))?;
    Ok(all.iter().map(|bytes| from_bytes(bytes)).collect())
}

fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("what processes exchange has a JSON form")
}

fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> T {
    serde_json::from_slice(bytes).expect("another process of the same build wrote it")
}

/// Returns the outputs of every process that has some, in the order of their numbers.
///
/// # Errors
/// Another process is lost.
pub fn outputs_of_all(
    processes: &Processes,
    own: Option<Outputs>,
) -> Result<Vec<Outputs>, ProcessError> {
    if processes.is_alone() {
        return Ok(own.into_iter().collect());
    }
    // As bits, since JSON has no infinities.
    let sent = own.map(|Outputs { texts, scores }| {
        (texts, scores.map(|scores| scores.into_iter().map(f64::to_bits).collect::<Vec<u64>>()))
    });
    let all = of_all(processes, &sent)?.into_iter().flatten().map(|(texts, scores)| {
        let scores = scores.map(|bits| bits.into_iter().map(f64::from_bits).collect());
        Outputs { texts, scores }
    });
    Ok(all.collect())
}

fn replace(sums: &mut LossSums, values: &[f64]) {
    let mut values = values.iter();
    sums.each(&mut |value| *value = *values.next().expect("every process counts the same"));
}

/// Ensures that all processes run the same program with the same configuration.
///
/// # Errors
/// The difference of a process from the first.
pub fn check_same(processes: &Processes, config_text: &str) -> Result<(), ProcessError> {
    if processes.is_alone() {
        return Ok(());
    }
    let all = processes.gather(config_text.as_bytes())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let first = text(&all[0]);
    for (rank, other) in all.iter().enumerate() {
        let other = text(other);
        if other != first {
            let [theirs, ours] = differing_lines(&other, &first);
            return Err(ProcessError::Differ(format!(
                "{} has another configuration: {theirs} where process 0 has {ours}; start all with the same \
                 gin files and flags",
                processes.name(rank)
            )));
        }
    }
    let all = processes.gather(&program().unwrap_or(0).to_le_bytes())?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => Err(ProcessError::Differ(format!(
            "{} runs another build of gimlet than process 0: install the same one on all hosts",
            processes.name(rank)
        ))),
    }
}

/// Returns the first lines in which two texts differ.
fn differing_lines(one: &str, other: &str) -> [String; 2] {
    let [mut one, mut other] = [one.lines(), other.lines()];
    loop {
        match (one.next(), other.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return ["other blanks", "none"].map(str::to_string),
            pair => {
                let quoted = |line: Option<&str>| match line {
                    Some(line) => format!("`{}`", line.trim()),
                    None => "no further line".to_string(),
                };
                return [quoted(pair.0), quoted(pair.1)];
            }
        }
    }
}

/// Returns a checksum of this program's file, piece by piece: the file has up to 200 MB, and every process of a
/// machine reads it at the same time.
fn program() -> io::Result<u32> {
    let mut file = File::open("/proc/self/exe")?;
    let (mut piece, mut checksum) = (vec![0; 1 << 18], 0);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(checksum),
            length => checksum = crc32c::crc32c_append(checksum, &piece[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_shown() {
        let check = |one: &str, other: &str, expected: [&str; 2]| {
            assert_eq!(differing_lines(one, other), expected);
        };
        check("a = 1\nb = 2\n", "a = 1\n  b = 3\n", ["`b = 2`", "`b = 3`"]);
        check("a = 1\n", "a = 1\nb = 2\n", ["no further line", "`b = 2`"]);
    }

    #[test]
    fn one_process_keeps_its_sums() {
        let mut sums = LossSums { sums: [("loss", 2.0)].into(), ..LossSums::default() };
        assert_eq!(add_up(&Processes::alone(), &mut sums, true), Ok(true));
        let all = sums_of_all(&Processes::alone(), sums.clone(), true);
        assert_eq!(all, Ok(vec![sums]));
    }
}
