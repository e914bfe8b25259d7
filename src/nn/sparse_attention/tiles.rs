//! The blocks of a layout in groups that are computed by one product.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tch::{Device, Tensor};

use super::block_layout::BlockLayout;

/// The greatest number of blocks of queries that share copies of their keys. More would save little, and make scores that
/// are in memory at once many.
const MOST_ROWS: usize = 8;

/// Blocks of queries of one head that read the same blocks of keys, each at least one.
#[derive(Debug)]
struct Tile {
    head: usize,
    rows: Vec<usize>,
    columns: Vec<usize>,
}

/// Returns the tiles in groups. Those of a group have equally many rows, and at least three quarters as many columns as its
/// first, so that as many columns as this has waste little.
fn groups(layout: &BlockLayout) -> Vec<Vec<Tile>> {
    let mut tiles: Vec<Tile> = Vec::new();
    for (head, grid) in layout.heads().iter().enumerate() {
        let mut readers: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for row in 0..grid.num_blocks() {
            readers.entry(grid.columns(row)).or_default().push(row);
        }
        readers.retain(|columns, _| !columns.is_empty());
        for (columns, rows) in &readers {
            let tile =
                |rows: &[usize]| Tile { head, rows: rows.to_vec(), columns: columns.clone() };
            tiles.extend(rows.chunks(MOST_ROWS).map(tile));
        }
    }
    tiles.sort_by_key(|tile| Reverse((tile.rows.len(), tile.columns.len())));
    let mut groups: Vec<Vec<Tile>> = Vec::new();
    for tile in tiles {
        let fits = |group: &&mut Vec<Tile>| {
            let first = &group[0];
            let is_near = 4 * tile.columns.len() >= 3 * first.columns.len();
            first.rows.len() == tile.rows.len() && is_near
        };
        match groups.last_mut().filter(fits) {
            Some(group) => group.push(tile),
            None => groups.push(vec![tile]),
        }
    }
    groups
}

/// A group of tiles on a device. Blocks have the numbers `head * num_blocks + block`.
#[derive(Debug)]
pub(super) struct TileGroup {
    /// Blocks of queries: int64 `[tiles, rows]`.
    rows: Tensor,
    /// Blocks of keys: int64 `[tiles, columns]`. Tiles with fewer have their first one again.
    columns: Tensor,
    /// Addends for scores of the keys of a block: float32 `[tiles, columns]`, minus infinity for those that a tile has again.
    absent: Tensor,
}

impl TileGroup {
    /// Creates the groups of a layout.
    pub(super) fn of_layout(layout: &BlockLayout, device: Device) -> Vec<Self> {
        let num_blocks = layout.num_blocks();
        groups(layout).iter().map(|tiles| Self::new(tiles, num_blocks, device)).collect()
    }

    fn new(tiles: &[Tile], num_blocks: usize, device: Device) -> Self {
        let num_columns = tiles[0].columns.len();
        let (mut rows, mut columns, mut absent) = (Vec::new(), Vec::new(), Vec::new());
        for tile in tiles {
            let number = |block: &usize| (tile.head * num_blocks + block) as i64;
            let missing = num_columns - tile.columns.len();
            rows.extend(tile.rows.iter().map(number));
            columns.extend(tile.columns.iter().map(number));
            columns.extend(vec![number(&tile.columns[0]); missing]);
            absent.extend(vec![0f32; tile.columns.len()]);
            absent.extend(vec![f32::NEG_INFINITY; missing]);
        }
        let by_tile = |numbers: Tensor| numbers.view([tiles.len() as i64, -1]).to_device(device);
        Self {
            rows: by_tile(Tensor::from_slice(&rows)),
            columns: by_tile(Tensor::from_slice(&columns)),
            absent: by_tile(Tensor::from_slice(&absent)),
        }
    }

    /// Returns second handles of the same tensors.
    pub(super) fn shallow_clone(&self) -> Self {
        self.narrow(0, self.num_tiles())
    }

    /// Returns some of the tiles.
    pub(super) fn narrow(&self, first: i64, count: i64) -> Self {
        let narrow = |tensor: &Tensor| tensor.narrow(0, first, count);
        Self {
            rows: narrow(&self.rows),
            columns: narrow(&self.columns),
            absent: narrow(&self.absent),
        }
    }

    /// Number of tiles.
    pub(super) fn num_tiles(&self) -> i64 {
        self.rows.size()[0]
    }

    /// Number of pairs of a row and a column of each tile.
    pub(super) fn pairs_of_tile(&self) -> i64 {
        self.rows.size()[1] * self.columns.size()[1]
    }

    /// The device of its tensors.
    pub(super) fn device(&self) -> Device {
        self.rows.device()
    }

    /// Blocks of queries, tile by tile: int64 `[tiles * rows]`.
    pub(super) fn queries(&self) -> Tensor {
        self.rows.reshape(-1)
    }

    /// Blocks of keys, tile by tile: int64 `[tiles * columns]`.
    pub(super) fn keys(&self) -> Tensor {
        self.columns.reshape(-1)
    }

    /// The distance of each block of keys from each block of queries, pair by pair: int64 `[tiles * rows * columns]`. From
    /// one head to the next it grows by `2 * num_blocks - 1`, and the first head's begin with 0 for `1 - num_blocks`.
    pub(super) fn distances(&self, num_blocks: i64) -> Tensor {
        let head = self.rows.floor_divide_scalar(num_blocks).unsqueeze(-1); // [tiles, rows, 1]
        let distances = self.columns.unsqueeze(1) - self.rows.unsqueeze(-1) + (num_blocks - 1);
        (distances + head * (2 * num_blocks - 1)).reshape(-1)
    }

    /// The addends for scores of keys, `[batch or 1, tiles, 1, columns * block]`, from those of all positions of a row,
    /// `[batch, num_blocks, block]`.
    pub(super) fn addends(&self, of_positions: &Tensor) -> Tensor {
        let own =
            self.of_blocks(of_positions, self.keys()).unflatten(2, [-1, of_positions.size()[2]]);
        (own + self.absent.unsqueeze(-1)).flatten(2, 3).unsqueeze(2)
    }

    /// Pairs of a query and a key of different examples: bool `[batch, tiles, rows * block, columns * block]`, from the number
    /// of the example of all positions of a row, int64 `[batch, num_blocks, block]`.
    pub(super) fn of_other_examples(&self, of_positions: &Tensor) -> Tensor {
        let query = self.of_blocks(of_positions, self.queries());
        let key = self.of_blocks(of_positions, self.keys());
        query.unsqueeze(3).ne_tensor(&key.unsqueeze(2))
    }

    /// Numbers of the positions of each tile's blocks, `[batch, tiles, blocks of a tile * block]`, from those of all positions
    /// of a row, `[batch, num_blocks, block]`.
    fn of_blocks(&self, of_positions: &Tensor, blocks: Tensor) -> Tensor {
        let (batch, num_blocks, _) = of_positions.size3().expect("it has three axes");
        let own = of_positions.index_select(1, &blocks.remainder(num_blocks));
        own.view([batch, self.num_tiles(), -1])
    }

    /// The addends of all pairs of positions, `[tiles, rows * block, columns * block]`, from windows of a table by distance,
    /// `[1, tiles * rows * columns, 2 * block - 1]`, whose first number is that of the last query and the first key.
    pub(super) fn of_pairs(&self, windows: &Tensor) -> Tensor {
        let [tiles, rows] = self.rows.size()[..] else { panic!("rows have two axes") };
        let (columns, block) = (self.columns.size()[1], (windows.size()[2] + 1) / 2);
        let pairs = windows.unfold(2, block, 1).flip([2]);
        let pairs = pairs.view([tiles, rows, columns, block, block]);
        pairs.transpose(2, 3).reshape([tiles, rows * block, columns * block])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{BigBirdSparsityConfig, BlockGrid, LayoutDirection, LayoutHeads};
    use crate::nn::{PythonRandom, SparsityConfig};

    fn big_bird(num_blocks: usize) -> BlockLayout {
        let config = BigBirdSparsityConfig {
            heads: LayoutHeads { num_heads: 4, block: 64, different_layout_per_head: true },
            num_random_blocks: 3,
            num_sliding_window_blocks: 3,
            num_global_blocks: 2,
            attention: LayoutDirection::Bidirectional,
        };
        let mut random = PythonRandom::new(5);
        SparsityConfig::BigBird(config).layout(64 * num_blocks, &mut random).expect("it is correct")
    }

    /// Pairs of blocks whose scores are computed.
    fn computed(layout: &BlockLayout) -> usize {
        let of_group =
            |group: &Vec<Tile>| group.len() * group[0].rows.len() * group[0].columns.len();
        groups(layout).iter().map(of_group).sum()
    }

    #[test]
    fn the_scores_that_are_computed_grow_with_the_blocks_of_a_layout() {
        for num_blocks in [16, 32, 64, 128] {
            let layout = big_bird(num_blocks);
            let read = 4.0 * num_blocks as f64 * layout.mean_keys(64 * num_blocks) / 64.0;
            let computed = computed(&layout) as f64;
            assert!((read..1.2 * read).contains(&computed), "{computed} of {read}");
            // Two rows read all, and the others at most eight blocks.
            assert!(computed <= (4 * (2 * num_blocks + 8 * (num_blocks - 2))) as f64);
            assert!(groups(&layout).len() <= 6);
        }
    }

    #[test]
    fn rows_that_read_the_same_are_one_tile_and_rows_that_read_nothing_are_none() {
        let grid = BlockGrid::from_fn(20, |row, column| row < 19 && column < 5);
        let layout = BlockLayout::new(2, vec![grid]);
        let groups = groups(&layout);
        let rows: Vec<usize> = groups.iter().map(|group| group[0].rows.len()).collect();
        assert_eq!((rows, computed(&layout)), (vec![8, 3], 19 * 5));
    }
}
