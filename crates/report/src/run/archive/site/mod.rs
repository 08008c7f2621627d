//! The pages of `archive serve`: forms, tables and plots of what commands answer. No page has a script.
//!
//! | module | what lives there |
//! |---|---|
//! | `query` | what an address asks for |
//! | `html` | texts, tables and plots as HTML |
//! | `pages` | one page for each kind of question |

mod html;
mod pages;
mod query;

use serde_json::Value;

pub(super) use query::Query;

/// Runs commands on the archive.
pub(super) trait Asking {
    /// Returns the document of a command, or why there is none.
    fn document(&mut self, words: &[String]) -> Result<Value, String>;

    /// Returns the page that a view writes, or why there is none.
    fn page(&mut self, words: &[String]) -> Result<Vec<u8>, String>;
}

/// All pages.
pub(super) struct Site {
    /// The archive, as messages name it.
    pub(super) archive: String,
    /// What the first page shows.
    pub(super) first: Query,
}
