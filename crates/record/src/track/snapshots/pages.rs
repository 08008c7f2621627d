//! Remembers stack pages as they were sent. The sampler sends a page again only after it has changed; else it sends only the hash of
//! the page, which is then taken from here.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::kernel::wire::{PAGE_BYTES, PageKey};
use crate::track::tally::{Held, Tally};

/// The number of pages in each of two generations: 16 MiB. The pages that were used last are kept.
const MAX_PAGES: usize = 4096;

/// The bytes of a page. They are counted while anything holds them.
#[derive(Debug, Clone)]
pub(crate) struct Page(Arc<(PageBytes, Held)>);

type PageBytes = [u8; PAGE_BYTES as usize];

impl Page {
    pub(super) fn new(bytes: &PageBytes, tally: &Tally) -> Self {
        Self(Arc::new((*bytes, tally.hold(bytes.len()))))
    }

    pub(super) fn bytes(&self) -> &PageBytes {
        &self.0.0
    }
}

/// The pages that were used last.
#[derive(Debug, Default)]
pub(super) struct Pages {
    young: FxHashMap<PageKey, (u64, Page)>,
    /// Pages that were not used since the last change of generations.
    old: FxHashMap<PageKey, (u64, Page)>,
    /// Pages that are not here, so that the sampler must send them again.
    missing: Vec<PageKey>,
}

impl Pages {
    /// Remembers a page that was sent.
    pub(super) fn put(&mut self, key: PageKey, hash: u64, page: Page) {
        self.old.remove(&key);
        self.young.insert(key, (hash, page));
        if self.young.len() > MAX_PAGES {
            let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.missing.extend(forgotten.into_keys());
        }
    }

    /// Finds a page by its hash.
    pub(super) fn find(&mut self, key: PageKey, hash: u64) -> Option<Page> {
        if let Some((_, page)) = self.young.get(&key).filter(|(known, _)| *known == hash) {
            return Some(page.clone());
        }
        let Some((_, page)) = self.old.remove(&key).filter(|(known, _)| *known == hash) else {
            self.missing.push(key);
            return None;
        };
        self.put(key, hash, page.clone());
        Some(page)
    }

    /// Takes the pages that must be sent again.
    pub(super) fn take_missing(&mut self) -> Vec<PageKey> {
        std::mem::take(&mut self.missing)
    }
}

#[cfg(test)]
mod tests {
    use icecore_elf::Avma;

    use super::*;

    #[test]
    fn a_page_is_found_by_what_it_holds_and_asked_for_again_if_that_is_not_here() {
        let mut pages = Pages::default();
        let key = PageKey::new(7, Avma(0x7ffd_0000_1008));
        pages.put(key, 1, Page::new(&[1; 4096], &Tally::default()));
        assert_eq!(pages.find(key, 1).map(|page| *page.bytes()), Some([1; 4096]));
        assert!(pages.find(key, 2).is_none(), "it holds something else by now");
        assert!(pages.find(PageKey::new(8, Avma(0x7ffd_0000_1008)), 1).is_none(), "another thread's");
        assert_eq!(pages.take_missing(), [key, PageKey::new(8, Avma(0x7ffd_0000_1000))]);
        assert_eq!(pages.take_missing(), []);
    }

    #[test]
    fn memory_is_bounded_and_what_goes_is_asked_for_again() {
        let (mut pages, tally) = (Pages::default(), Tally::default());
        let key = |page: usize| PageKey::new(1, Avma(page as u64 * PAGE_BYTES));
        for page in 0..3 * MAX_PAGES {
            pages.put(key(page), 1, Page::new(&[0; 4096], &tally));
            assert!(pages.find(key(0), 1).is_some(), "what is used stays");
            assert!(pages.young.len() + pages.old.len() <= 2 * MAX_PAGES + 1);
            assert_eq!(tally.total(), (pages.young.len() + pages.old.len()) * 4096);
        }
        let missing = pages.take_missing();
        assert!(!missing.is_empty() && !missing.contains(&key(0)));
        assert!(missing.iter().all(|key| !pages.young.contains_key(key) && !pages.old.contains_key(key)));
    }
}
