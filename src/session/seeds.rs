//! Every random draw of a run depends on its seed, the step and the rank, never on a generator's
//! state: a resumed run draws the same numbers as an uninterrupted one.

/// The purpose of a seed; draws for different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Initial parameters.
    Initialization,
    /// Dropout of a training step.
    Dropout,
    /// Order and corruption of the training data.
    Data,
    /// Tokens of a sampled sequence.
    Decoding,
}

/// Returns the seed of one draw: a hash of all its inputs (splitmix64, Steele et al. 2014).
pub fn derive(seed: u64, purpose: Purpose, parts: &[u64]) -> u64 {
    let start = mix(seed ^ mix(purpose as u64 + 1));
    parts.iter().fold(start, |hash, part| mix(hash ^ mix(part.wrapping_add(0x9E37_79B9_7F4A_7C15))))
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_step_and_rank_draws_apart() {
        let mut seen = std::collections::BTreeSet::new();
        for purpose in [Purpose::Initialization, Purpose::Dropout, Purpose::Data] {
            for step in 0..50 {
                for rank in 0..4 {
                    assert!(seen.insert(derive(7, purpose, &[step, rank])));
                }
            }
        }
    }

    /// Another seed would change every resumed run, so these numbers must not change. A script
    /// computed them from the definition; the first is that of splitmix64 (Steele et al. 2014).
    #[test]
    fn seeds_stay_the_same_in_every_version() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        let check = |seed, purpose, parts: &[u64], expected| {
            assert_eq!(derive(seed, purpose, parts), expected, "{seed} {purpose:?} {parts:?}");
        };
        check(0, Purpose::Initialization, &[], 0x5e41_ab08_7439_611e);
        check(7, Purpose::Initialization, &[], 0x7716_da39_cba2_75b2);
        check(7, Purpose::Data, &[], 0xe880_a903_bcff_6547);
        // Step, rank, microbatch.
        check(7, Purpose::Dropout, &[0, 0, 0], 0xd034_5b3d_a694_2003);
        check(7, Purpose::Dropout, &[1, 0, 0], 0x5ead_7adb_7cc2_ff79);
        check(7, Purpose::Dropout, &[0, 1, 0], 0x8481_7283_6ae1_c587);
        check(7, Purpose::Dropout, &[0, 0, 1], 0xad04_f837_08ea_1c6f);
        check(u64::MAX, Purpose::Dropout, &[u64::MAX, 3, 2], 0x4fc1_f06e_0a43_ce3b);
    }
}
