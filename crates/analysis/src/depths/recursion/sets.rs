//! Groups functions of which each can call itself through the others.

/// Disjoint sets of numbers.
#[derive(Debug)]
pub(super) struct Sets {
    /// For each number, the next one on the way to the representative of its set.
    towards: Vec<u32>,
    /// For each representative, the size of its set.
    lens: Vec<u32>,
}

impl Sets {
    /// Creates `len` sets of one number each.
    pub(super) fn new(len: usize) -> Self {
        Self { towards: (0..len as u32).collect(), lens: vec![1; len] }
    }

    /// Returns the representative of a number's set.
    pub(super) fn of(&mut self, mut number: u32) -> u32 {
        while self.towards[number as usize] != number {
            let next = self.towards[number as usize];
            self.towards[number as usize] = self.towards[next as usize];
            number = next;
        }
        number
    }

    /// Returns the size of the set of a representative.
    pub(super) fn len_of(&self, set: u32) -> u32 {
        self.lens[set as usize]
    }

    pub(super) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        if a == b {
            return;
        }
        let (small, large) = if self.lens[a as usize] < self.lens[b as usize] { (a, b) } else { (b, a) };
        self.towards[small as usize] = large;
        self.lens[large as usize] += self.lens[small as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_sets_are_one() {
        let mut sets = Sets::new(6);
        [(0, 1), (2, 3), (1, 2), (0, 3)].into_iter().for_each(|(a, b)| sets.join(a, b));
        let set = sets.of(3);
        assert!((0..4).all(|n| sets.of(n) == set) && sets.of(4) != set);
        assert_eq!((sets.len_of(set), sets.len_of(5)), (4, 1));
    }
}
