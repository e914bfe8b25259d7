//! Places as editors count them: lines from 0, and columns in UTF-16 code units.

use std::ops::Range;

use lsp_types::Position;

/// A text and the starts of its lines.
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// Finds the lines, which end with `\n`, `\r\n` or `\r`.
    pub fn new(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let ends_line = |at: &usize| match bytes[*at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let starts = (0..bytes.len()).filter(ends_line).map(|at| at + 1);
        Self { text, starts: std::iter::once(0).chain(starts).collect() }
    }

    /// Returns the byte at a position; a position beyond a line or the text is moved to its end.
    pub fn offset(&self, position: Position) -> usize {
        let Some(&start) = self.starts.get(position.line as usize) else { return self.text.len() };
        let end = self.starts.get(position.line as usize + 1).copied();
        let line = &self.text[start..end.unwrap_or(self.text.len())];
        let line = line.trim_end_matches(['\r', '\n']);
        let mut units = 0;
        for (at, c) in line.char_indices() {
            if units >= position.character as usize {
                return start + at;
            }
            units += c.len_utf16();
        }
        start + line.len()
    }

    /// Returns the position of the character that contains a byte.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset) - 1;
        let before = &self.text[self.starts[line]..offset];
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { line: number(line), character: number(before.encode_utf16().count()) }
    }

    /// The range of some bytes.
    pub fn range(&self, bytes: Range<usize>) -> lsp_types::Range {
        lsp_types::Range { start: self.position(bytes.start), end: self.position(bytes.end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_utf_16_units() {
        let lines = Lines::new("a𝒳é\r\nb\rc");
        let found: Vec<_> = [0, 1, 5, 7, 9, 11].map(|at| lines.position(at)).into();
        let expected = [(0, 0), (0, 1), (0, 3), (0, 4), (1, 0), (2, 0)];
        assert_eq!(found, expected.map(|(line, character)| Position { line, character }));
    }

    #[test]
    fn every_position_is_some_byte_and_every_byte_its_own_position() {
        let text = "a𝒳é\r\n\nb\rc";
        let lines = Lines::new(text);
        for line in 0..6 {
            for character in [0, 1, 2, 3, 4, 9, u32::MAX] {
                assert!(text.is_char_boundary(lines.offset(Position { line, character })));
            }
        }
        for (at, c) in text.char_indices().filter(|(_, c)| !['\r', '\n'].contains(c)) {
            assert_eq!(lines.offset(lines.position(at)), at, "{c}");
        }
    }
}
