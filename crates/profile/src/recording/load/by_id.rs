//! Tables whose ids count up, with holes where blocks are missing.

/// Rows by id. Memory is proportional to the rows, whatever ids a file claims.
#[derive(Debug)]
pub struct ById<T> {
    /// Ordered by first id. One run if no block is missing.
    runs: Vec<Contiguous<T>>,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

/// Rows without a hole between them.
#[derive(Debug)]
struct Contiguous<T> {
    first: u32,
    /// Rows in the runs before.
    before: usize,
    rows: Vec<T>,
}

impl<T> ById<T> {
    /// Joins blocks of (first id, rows); neighbours become one run.
    pub fn from_blocks(mut blocks: Vec<(u32, Vec<T>)>) -> Self {
        blocks.retain(|(_, rows)| !rows.is_empty());
        blocks.sort_by_key(|(first, _)| *first);
        let mut runs: Vec<Contiguous<T>> = Vec::new();
        let mut before = 0;
        for (first, rows) in blocks {
            let more = rows.len();
            match runs.last_mut() {
                Some(run) if run.first as usize + run.rows.len() == first as usize => run.rows.extend(rows),
                _ => runs.push(Contiguous { first, before, rows }),
            }
            before += more;
        }
        Self { runs }
    }

    /// The id after the largest; `None` if that exceeds a `u32`.
    pub fn next_id(&self) -> Option<u32> {
        let behind = |run: &Contiguous<T>| u32::try_from(run.first as usize + run.rows.len()).ok();
        self.runs.last().map_or(Some(0), behind)
    }

    /// Adds rows behind all others.
    pub fn push(&mut self, first: u32, rows: Vec<T>) {
        let before = self.len();
        match self.runs.last_mut() {
            _ if rows.is_empty() => {}
            Some(run) if run.first as usize + run.rows.len() == first as usize => run.rows.extend(rows),
            _ => self.runs.push(Contiguous { first, before, rows }),
        }
    }

    /// Removes the first rows, so that `most` stay; returns the id of the first one that stays.
    pub fn keep_last(&mut self, most: usize) -> u32 {
        let mut more = self.len().saturating_sub(most);
        self.runs.retain_mut(|run| {
            let gone = more.min(run.rows.len());
            more -= gone;
            run.rows.drain(..gone);
            // Ids of rows that are there fit.
            run.first = run.first.saturating_add(gone as u32);
            !run.rows.is_empty()
        });
        let mut before = 0;
        for run in &mut self.runs {
            run.before = before;
            before += run.rows.len();
        }
        self.runs.first().map_or(u32::MAX, |run| run.first)
    }

    /// Finds the row of an id; `None` if its block is missing.
    pub fn find(&self, id: u32) -> Option<&T> {
        self.find_at(id).map(|(_, row)| row)
    }

    /// Finds the row of an id and its position among all rows; `None` if its block is missing.
    pub fn find_at(&self, id: u32) -> Option<(usize, &T)> {
        let after = self.runs.partition_point(|run| run.first <= id);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let offset = (id - run.first) as usize;
        Some((run.before + offset, run.rows.get(offset)?))
    }

    /// Lists (id, row) in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.runs.iter().flat_map(|run| (run.first..).zip(&run.rows))
    }

    /// Changes every row.
    pub fn for_each_mut(&mut self, change: impl FnMut(&mut T)) {
        self.runs.iter_mut().flat_map(|run| &mut run.rows).for_each(change);
    }

    /// Counts the rows.
    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.before + run.rows.len())
    }

    /// Returns true if there are no rows.
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
        assert_eq!(
            [0, 2, 6].map(|id| table.find_at(id)),
            [Some((0, &'a')), Some((2, &'c')), Some((3, &'f'))]
        );
    }

    #[test]
    fn the_last_rows_stay_with_their_ids() {
        let mut table = ById::from_blocks(vec![(1, vec!['a', 'b', 'c']), (8, vec!['d', 'e'])]);
        assert_eq!(table.keep_last(5), 1);
        assert_eq!((table.keep_last(3), table.len()), (3, 3));
        assert_eq!(
            [2, 3, 8, 9].map(|id| table.find_at(id)),
            [None, Some((0, &'c')), Some((1, &'d')), Some((2, &'e'))]
        );
        assert_eq!((table.keep_last(1), table.keep_last(0)), (9, u32::MAX));
        table.push(20, vec!['f']);
        assert_eq!(table.find_at(20), Some((0, &'f')));
    }

    #[test]
    fn ids_of_a_hostile_file_cost_no_memory() {
        let table = ById::from_blocks(vec![(u32::MAX - 1, vec!['x', 'y']), (0, vec!['a']), (0, vec!['b'])]);
        assert_eq!(table.find(u32::MAX), Some(&'y'));
        assert_eq!(table.len(), 4);
    }
}
