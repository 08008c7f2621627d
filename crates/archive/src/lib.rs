//! Recordings as tables that query engines read: Parquet in folders by day and service (docs/FLEET.md); and the archive, which keeps
//! recordings beside their tables.
//!
//! | room | what lives there |
//! |---|---|
//! | `id` | hashes of content as ids |
//! | [`partition`] | in which folders rows lie |
//! | `pool` | texts of tables, each stored once |
//! | [`mod@column`] | columns of rows, and how Parquet stores them |
//! | [`table`] | a table as one file |
//! | [`read`] | the rows of a file |
//! | [`schema`] | the tables |
//! | [`rows`] | the rows of a recording |
//! | `store` | what keeps files |
//! | `disk` | files in a folder |
//! | `s3` | files in a bucket of an object store |
//! | [`folder`] | files that appear whole or not at all, wherever they are kept |
//! | [`dataset`] | tables of many recordings, as files in folders |
//! | [`merge`] | which files of a table count |
//! | `names` | what is known of the functions of a build |
//! | `nameless` | recordings without the names that they share |
//! | [`archive`] | recordings and their tables in one folder |
//! | [`share`] | names that recordings share |
//! | [`prune`] | recordings that go, and the daily sums that stay |
//! | [`select`] | selections of sessions |
//!
//! A room uses rooms above it in this list, and none below.

pub mod archive;
pub mod column;
pub mod dataset;
mod disk;
pub mod folder;
mod id;
pub mod merge;
mod nameless;
mod names;
pub mod partition;
mod pool;
pub mod prune;
pub mod read;
pub mod rows;
mod s3;
pub mod schema;
pub mod select;
pub mod share;
mod store;
pub mod table;

pub use archive::Archive;
pub use dataset::{Dataset, Error, Written};
pub use folder::Folder;
pub use id::Id;
pub use partition::Partition;
pub use pool::{Pool, Text};
pub use select::Selection;
