//! How each layout of blocks is drawn, and the parameters that it cannot have.
//!
//! Source: DeepSpeed 0.9.5 `ops/sparse_attention/sparsity_config.py`.

use std::iter::repeat;
use std::ops::Range;

use super::block_layout::BlockGrid;
use super::python_random::PythonRandom;
use super::spec::{
    BSLongformerSparsityConfig, BigBirdSparsityConfig, DenseSparsityConfig, FixedSparsityConfig,
    LayoutDirection, LayoutHeads, ListedSparsityConfig, LocalSlidingWindowSparsityConfig,
    VariableSparsityConfig,
};

/// A value that a parameter cannot have.
pub(super) struct Unfit {
    pub(super) parameter: &'static str,
    pub(super) found: String,
    pub(super) expected: String,
}

/// A layout of one head.
pub(super) trait Drawn {
    /// Checks the parameters for rows of so many blocks.
    fn check(&self, num_blocks: usize) -> Result<(), Unfit>;
    /// Draws the grid of the head of that number.
    fn draw(&self, head: usize, num_blocks: usize, random: &mut PythonRandom) -> BlockGrid;
}

impl LayoutHeads {
    /// Returns the number of blocks of rows of that length.
    pub(super) fn check(&self, length: usize) -> Result<usize, Unfit> {
        at_least_one("num_heads", self.num_heads)?;
        at_least_one("block", self.block)?;
        let divides = length > 0 && length.is_multiple_of(self.block);
        let expected = || format!("a divisor of the greatest length of rows, {length}");
        expect(divides, "block", self.block, expected)?;
        Ok(length / self.block)
    }
}

impl Drawn for DenseSparsityConfig {
    fn check(&self, _: usize) -> Result<(), Unfit> {
        Ok(())
    }

    fn draw(&self, _: usize, num_blocks: usize, _: &mut PythonRandom) -> BlockGrid {
        BlockGrid::from_fn(num_blocks, |_, _| true)
    }
}

impl Drawn for FixedSparsityConfig {
    fn check(&self, _: usize) -> Result<(), Unfit> {
        let (local, global) = (self.num_local_blocks, self.num_global_blocks);
        at_least_one("num_global_blocks", global)?;
        let multiple = || format!("a multiple of num_global_blocks, {global}");
        expect(local > 0 && local.is_multiple_of(global), "num_local_blocks", local, multiple)?;
        check_horizontal(self.horizontal_global_attention, self.attention)?;
        let (name, patterns) =
            ("num_different_global_patterns", self.num_different_global_patterns);
        let several = self.heads.different_layout_per_head;
        let single = || "1, or different_layout_per_head = True".to_string();
        expect(patterns == 1 || several, name, patterns, single)?;
        let places = local / global;
        let expected =
            || format!("1 to num_local_blocks / num_global_blocks, {local} / {global} = {places}");
        expect((1..=places).contains(&patterns), name, patterns, expected)
    }

    fn draw(&self, head: usize, num_blocks: usize, _: &mut PythonRandom) -> BlockGrid {
        let (local, global) = (self.num_local_blocks, self.num_global_blocks);
        let mut grid = BlockGrid::from_fn(num_blocks, |_, _| false);
        fill_windows(&mut grid, repeat(local), self.attention);
        let first = local - (1 + head % self.num_different_global_patterns) * global;
        let whole = num_blocks - num_blocks % local; // blocks of whole windows
        let last = (whole + first).min(num_blocks.saturating_sub(global));
        let starts = (first..whole).step_by(local).chain((whole < num_blocks).then_some(last));
        for start in starts {
            let columns = start..start + global;
            fill_columns(&mut grid, &columns, self.attention);
            if self.horizontal_global_attention {
                grid.fill(columns, 0..num_blocks);
            }
        }
        grid
    }
}

impl Drawn for VariableSparsityConfig {
    fn check(&self, num_blocks: usize) -> Result<(), Unfit> {
        at_most_all("num_random_blocks", self.num_random_blocks, num_blocks)?;
        let windows = &self.local_window_blocks;
        let expected = || "a list of numbers that are at least 1".to_string();
        let are_windows = !windows.is_empty() && windows.iter().all(|&window| window > 0);
        expect(are_windows, "local_window_blocks", format!("{windows:?}"), expected)?;
        check_runs(&self.global_block_indices, self.global_block_end_indices.as_deref())?;
        check_horizontal(self.horizontal_global_attention, self.attention)
    }

    fn draw(&self, _: usize, num_blocks: usize, random: &mut PythonRandom) -> BlockGrid {
        let mut grid = BlockGrid::from_fn(num_blocks, |_, _| false);
        for row in 0..num_blocks {
            fill_random(&mut grid, row, random.sample(num_blocks, self.num_random_blocks));
        }
        let windows = self.local_window_blocks.iter().copied();
        let last = self.local_window_blocks[self.local_window_blocks.len() - 1];
        fill_windows(&mut grid, windows.chain(repeat(last)), self.attention);
        for columns in runs(&self.global_block_indices, self.global_block_end_indices.as_deref()) {
            fill_columns(&mut grid, &columns, self.attention);
            if self.horizontal_global_attention {
                grid.fill(columns, 0..num_blocks);
            }
        }
        grid
    }
}

impl Drawn for BigBirdSparsityConfig {
    fn check(&self, num_blocks: usize) -> Result<(), Unfit> {
        let (name, count) = ("num_random_blocks", self.num_random_blocks);
        at_most_all(name, count, num_blocks)?;
        let is_one = count <= 1 || self.attention == LayoutDirection::Bidirectional;
        let first =
            || "at most 1 where attention is 'unidirectional': the first block reads itself";
        expect(is_one, name, count, || first().to_string())?;
        at_most_all("num_sliding_window_blocks", self.num_sliding_window_blocks, num_blocks)?;
        at_most_all("num_global_blocks", self.num_global_blocks, num_blocks)
    }

    fn draw(&self, _: usize, num_blocks: usize, random: &mut PythonRandom) -> BlockGrid {
        let mut grid = BlockGrid::from_fn(num_blocks, |_, _| false);
        for row in 0..num_blocks {
            let population = match self.attention {
                LayoutDirection::Bidirectional => num_blocks,
                LayoutDirection::Unidirectional => row + 1,
            };
            fill_random(&mut grid, row, random.sample(population, self.num_random_blocks));
        }
        fill_neighbours(&mut grid, self.num_sliding_window_blocks);
        fill_cross(&mut grid, 0..self.num_global_blocks);
        directed(grid, self.attention)
    }
}

impl Drawn for BSLongformerSparsityConfig {
    fn check(&self, num_blocks: usize) -> Result<(), Unfit> {
        at_most_all("num_sliding_window_blocks", self.num_sliding_window_blocks, num_blocks)?;
        check_runs(&self.global_block_indices, self.global_block_end_indices.as_deref())
    }

    fn draw(&self, _: usize, num_blocks: usize, _: &mut PythonRandom) -> BlockGrid {
        let mut grid = BlockGrid::from_fn(num_blocks, |_, _| false);
        fill_neighbours(&mut grid, self.num_sliding_window_blocks);
        let ends = self.global_block_end_indices.as_deref();
        let runs = runs(&self.global_block_indices, ends);
        runs.into_iter().for_each(|blocks| fill_cross(&mut grid, blocks));
        directed(grid, self.attention)
    }
}

impl Drawn for LocalSlidingWindowSparsityConfig {
    fn check(&self, num_blocks: usize) -> Result<(), Unfit> {
        at_most_all("num_sliding_window_blocks", self.num_sliding_window_blocks, num_blocks)
    }

    fn draw(&self, _: usize, num_blocks: usize, _: &mut PythonRandom) -> BlockGrid {
        let mut grid = BlockGrid::from_fn(num_blocks, |_, _| false);
        fill_neighbours(&mut grid, self.num_sliding_window_blocks);
        directed(grid, self.attention)
    }
}

impl Drawn for ListedSparsityConfig {
    fn check(&self, num_blocks: usize) -> Result<(), Unfit> {
        let (count, all) = (self.rows.len(), self.num_heads * num_blocks);
        let expected = || {
            format!(
                "{num_blocks} or {all} rows: of one head or of all, one for each block of a row of the greatest length"
            )
        };
        let fits = count == num_blocks || count == all;
        expect(fits, "rows", format!("a list of {count} texts"), expected)?;
        let is_row = |row: &String| {
            row.len() == num_blocks && row.contains('1') && row.chars().all(|c| "01".contains(c))
        };
        let expected = || {
            format!(
                "a 0 or 1 in each for each of the {num_blocks} blocks of a row of the greatest length, and not only 0"
            )
        };
        match self.rows.iter().find(|row| !is_row(row)) {
            Some(row) => expect(false, "rows", format!("a list with '{row}'"), expected),
            None => Ok(()),
        }
    }

    fn draw(&self, head: usize, num_blocks: usize, _: &mut PythonRandom) -> BlockGrid {
        let rows = &self.rows[head * num_blocks..];
        BlockGrid::from_fn(num_blocks, |row, column| rows[row].as_bytes()[column] == b'1')
    }
}

fn expect(
    is_fit: bool,
    parameter: &'static str,
    found: impl ToString,
    expected: impl FnOnce() -> String,
) -> Result<(), Unfit> {
    match is_fit {
        true => Ok(()),
        false => Err(Unfit { parameter, found: found.to_string(), expected: expected() }),
    }
}

fn at_least_one(parameter: &'static str, found: usize) -> Result<(), Unfit> {
    expect(found > 0, parameter, found, || "at least 1".to_string())
}

fn at_most_all(parameter: &'static str, found: usize, num_blocks: usize) -> Result<(), Unfit> {
    let expected = || format!("at most {num_blocks}, the blocks of a row of the greatest length");
    expect(found <= num_blocks, parameter, found, expected)
}

fn check_horizontal(horizontal: bool, attention: LayoutDirection) -> Result<(), Unfit> {
    let is_fit = !horizontal || attention == LayoutDirection::Bidirectional;
    let expected = || "False where attention is 'unidirectional'".to_string();
    expect(is_fit, "horizontal_global_attention", "True", expected)
}

fn check_runs(starts: &[usize], ends: Option<&[usize]>) -> Result<(), Unfit> {
    let Some(ends) = ends else { return Ok(()) };
    let follow =
        starts.len() == ends.len() && starts.iter().zip(ends).all(|(start, end)| start < end);
    let expected =
        || format!("None, or for each number of global_block_indices, {starts:?}, a greater one");
    expect(follow, "global_block_end_indices", format!("{ends:?}"), expected)
}

/// The runs of blocks with these first numbers, of one block each without `ends`.
fn runs(starts: &[usize], ends: Option<&[usize]>) -> Vec<Range<usize>> {
    let run = |(index, &start): (usize, &usize)| start..ends.map_or(start + 1, |ends| ends[index]);
    starts.iter().enumerate().map(run).collect()
}

fn fill_random(grid: &mut BlockGrid, row: usize, columns: Vec<usize>) {
    columns.into_iter().for_each(|column| grid.fill(row..row + 1, column..column + 1));
}

/// Lets the blocks of each window read each other.
fn fill_windows(
    grid: &mut BlockGrid,
    sizes: impl Iterator<Item = usize>,
    attention: LayoutDirection,
) {
    let mut start = 0;
    for size in sizes {
        let end = (start + size).min(grid.num_blocks());
        for row in start..end {
            let columns = match attention {
                LayoutDirection::Bidirectional => start..end,
                LayoutDirection::Unidirectional => start..row + 1,
            };
            grid.fill(row..row + 1, columns);
        }
        if end == grid.num_blocks() {
            return;
        }
        start = end;
    }
}

/// Lets each block read those around it, as many as a window has with itself.
fn fill_neighbours(grid: &mut BlockGrid, window: usize) {
    let radius = window / 2;
    for row in 0..grid.num_blocks() {
        grid.fill(row..row + 1, row.saturating_sub(radius)..row + radius + 1);
    }
}

/// Lets all rows, or those from the first of these blocks on, read some blocks.
fn fill_columns(grid: &mut BlockGrid, columns: &Range<usize>, attention: LayoutDirection) {
    let first_row = match attention {
        LayoutDirection::Bidirectional => 0,
        LayoutDirection::Unidirectional => columns.start,
    };
    grid.fill(first_row..grid.num_blocks(), columns.clone());
}

/// Lets all rows read some blocks, and these read all.
fn fill_cross(grid: &mut BlockGrid, blocks: Range<usize>) {
    let all = 0..grid.num_blocks();
    grid.fill(all.clone(), blocks.clone());
    grid.fill(blocks, all);
}

fn directed(grid: BlockGrid, attention: LayoutDirection) -> BlockGrid {
    match attention {
        LayoutDirection::Bidirectional => grid,
        LayoutDirection::Unidirectional => grid.lower_triangle(),
    }
}
