//! Divides the data of an epoch among several shards that read a task.

/// A shard's part of a task's data.
///
/// The files are divided among groups of shards, and within a group the records of its files among
/// the shards. In every epoch each part moves to the next shard: no shard stays without data
/// permanently, even if there are few data or preprocessors drop many, and no shard reads the
/// larger files more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deal {
    group: usize,
    num_groups: usize,
    member: usize,
    num_members: usize,
}

impl Deal {
    /// The part of one of `num_shards`: as many groups as the number of files allows, with the same
    /// number of shards in each. Consecutive shards share files, since the shards of a host are
    /// consecutive.
    pub(crate) fn new(shard_index: usize, num_shards: usize, num_files: usize) -> Self {
        let is_fed = |groups: &usize| num_shards.is_multiple_of(*groups) && *groups <= num_files;
        let num_groups = (1..=num_shards).rev().find(is_fed).unwrap_or(1);
        let num_members = num_shards / num_groups;
        let (group, member) = (shard_index / num_members, shard_index % num_members);
        Self { group, num_groups, member, num_members }
    }

    /// The shard's group, which reads the same files.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// Number of groups among which the files are divided.
    pub(crate) fn num_groups(&self) -> usize {
        self.num_groups
    }

    /// The index of the shard within its group.
    pub(super) fn member(&self) -> usize {
        self.member
    }

    /// Whether the records of a file are divided among several shards.
    pub(super) fn shares_files(&self) -> bool {
        self.num_members > 1
    }

    /// The numbers of the group's files in an epoch.
    pub(super) fn files(&self, num_files: usize, epoch: u64) -> impl Iterator<Item = usize> {
        let first = (self.group as u64 + epoch) % self.num_groups as u64;
        (first as usize..num_files).step_by(self.num_groups)
    }

    /// Maximum number of files that a group has in an epoch.
    pub(super) fn most_files(&self, num_files: usize) -> usize {
        num_files.div_ceil(self.num_groups)
    }

    /// The member of the group that gets a record, by the number of records before it in the epoch.
    pub(super) fn owner(&self, epoch: u64, number: u64) -> usize {
        let num_members = self.num_members as u64;
        let moved = epoch / self.num_groups as u64 % num_members;
        ((number + num_members - moved) % num_members) as usize
    }

    /// Number of epochs after which each shard has read every record once; approximately once if
    /// the order of files changes, since the records before a record determine its owner.
    pub(super) fn round(&self) -> u64 {
        (self.num_groups * self.num_members) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The records, by file and number, that a shard has in an epoch of files with these numbers of
    /// records.
    fn part(deal: Deal, sizes: &[u64], epoch: u64) -> Vec<(usize, u64)> {
        let files = deal.files(sizes.len(), epoch);
        let records = files.flat_map(|file| (0..sizes[file]).map(move |record| (file, record)));
        let owned =
            records.enumerate().filter(|(i, _)| deal.owner(epoch, *i as u64) == deal.member);
        owned.map(|(_, record)| record).collect()
    }

    #[test]
    fn each_epoch_is_dealt_out_whole_and_each_shard_gets_round_to_all() {
        for sizes in [&[1][..], &[7, 0, 3], &[5, 5], &[1, 2, 3, 4, 5], &[2; 16], &[3; 33]] {
            let total = sizes.iter().sum::<u64>() as usize;
            for num_shards in [1, 2, 3, 4, 6, 8, 12, 16] {
                let deals: Vec<Deal> =
                    (0..num_shards).map(|i| Deal::new(i, num_shards, sizes.len())).collect();
                let mut had: Vec<Vec<(usize, u64)>> = vec![Vec::new(); num_shards];
                for epoch in 0..deals[0].round() {
                    let parts = deals.iter().map(|deal| part(*deal, sizes, epoch));
                    let parts: Vec<_> = parts.collect();
                    let dealt: Vec<_> = parts.concat();
                    assert_eq!(dealt.len(), total, "{num_shards} shards of {sizes:?}");
                    assert_eq!(dealt.into_iter().collect::<BTreeSet<_>>().len(), total);
                    had.iter_mut().zip(parts).for_each(|(had, part)| had.extend(part));
                }
                for had in had {
                    assert_eq!(had.len(), total, "{num_shards} shards of {sizes:?}");
                    assert_eq!(had.into_iter().collect::<BTreeSet<_>>().len(), total);
                }
            }
        }
    }

    #[test]
    fn files_go_to_as_many_groups_as_they_feed() {
        let groups = |num_shards, num_files| Deal::new(0, num_shards, num_files).num_groups();
        let cases = [(16, 1, 1), (16, 3, 2), (16, 5, 4), (12, 5, 4), (16, 1024, 16), (7, 3, 1)];
        for (num_shards, num_files, expected) in cases {
            assert_eq!(groups(num_shards, num_files), expected, "{num_shards} {num_files}");
        }
        // Each host with a quarter of the shards opens a quarter of the files.
        let of_host = |host: usize| (4 * host..4 * host + 4).map(|i| Deal::new(i, 16, 5).group());
        assert!((0..4).all(|host| of_host(host).all(|group| group == host)));
    }
}
