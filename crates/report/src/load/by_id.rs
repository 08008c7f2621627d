//! Tables whose ids count up, with holes where blocks are missing.

/// Rows by id. Memory is proportional to the rows, whatever ids a file claims.
#[derive(Debug)]
pub struct ById<T> {
    /// (first id, rows), ordered by first id. One run if no block is missing.
    runs: Vec<(u32, Vec<T>)>,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

impl<T> ById<T> {
    /// Joins blocks of (first id, rows); neighbours become one run.
    pub fn from_blocks(mut blocks: Vec<(u32, Vec<T>)>) -> Self {
        blocks.retain(|(_, rows)| !rows.is_empty());
        blocks.sort_by_key(|(first, _)| *first);
        let mut runs: Vec<(u32, Vec<T>)> = Vec::new();
        for (first, rows) in blocks {
            match runs.last_mut() {
                Some((start, run)) if *start as usize + run.len() == first as usize => run.extend(rows),
                _ => runs.push((first, rows)),
            }
        }
        Self { runs }
    }

    /// Finds the row of an id; `None` if its block is missing.
    pub fn find(&self, id: u32) -> Option<&T> {
        let after = self.runs.partition_point(|(first, _)| *first <= id);
        let (first, rows) = self.runs.get(after.checked_sub(1)?)?;
        rows.get((id - first) as usize)
    }

    /// Lists (id, row) in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.runs.iter().flat_map(|(first, rows)| (*first..).zip(rows))
    }

    /// Counts the rows.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|(_, rows)| rows.len()).sum()
    }

    /// Tells whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_and_holes_stay_holes() {
        let table = ById::from_blocks(vec![(6, vec!['f']), (0, vec!['a', 'b']), (2, vec!['c'])]);
        assert_eq!(table.runs.len(), 2);
        assert_eq!(table.find(2), Some(&'c'));
        assert_eq!(table.find(3), None);
        assert_eq!(table.find(6), Some(&'f'));
        assert_eq!(table.find(u32::MAX), None);
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [0, 1, 2, 6]);
    }

    #[test]
    fn ids_of_a_hostile_file_cost_no_memory() {
        let table = ById::from_blocks(vec![(u32::MAX - 1, vec!['x', 'y']), (0, vec!['a']), (0, vec!['b'])]);
        assert_eq!(table.find(u32::MAX), Some(&'y'));
        assert_eq!(table.len(), 4);
    }
}
