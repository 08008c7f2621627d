//! Ids as runs.

/// Ids in ascending order as runs, first to last.
pub(super) type Runs = Vec<(u32, u32)>;

/// Makes runs of ids.
pub(super) fn runs(ids: Vec<u32>) -> Runs {
    let mut runs = Runs::new();
    let mut take = |id: u32| match runs.last_mut() {
        Some((_, last)) if id - *last <= 1 => *last = id,
        _ => runs.push((id, id)),
    };
    let (least, most) = ids.iter().fold((u32::MAX, 0), |(least, most), id| (least.min(*id), most.max(*id)));
    // The ids of a block mostly lie close together: a bit for each is cheaper than sorting them.
    if most.saturating_sub(least) as usize / BITS <= ids.len() {
        let mut words = vec![0u64; most.saturating_sub(least) as usize / BITS + 1];
        ids.iter().for_each(|id| words[(id - least) as usize / BITS] |= 1 << ((id - least) as usize % BITS));
        for (word, first) in words.iter_mut().zip((0..).step_by(BITS)) {
            while *word != 0 {
                take(least + first + word.trailing_zeros());
                *word &= *word - 1;
            }
        }
    } else {
        let mut ids = ids;
        ids.sort_unstable();
        ids.into_iter().for_each(take);
    }
    runs
}

/// Bits of a word.
const BITS: usize = u64::BITS as usize;
