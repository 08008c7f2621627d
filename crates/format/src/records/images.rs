//! Image identities, version 1.

use rkyv::{Archive, Serialize};

use super::{items, payload, push_item};
use crate::Error;
use crate::block::Kind;

/// What backs an executable mapping; the numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageKind(pub u8);

impl ImageKind {
    /// A file.
    pub const FILE: Self = Self(1);
    /// Anonymous memory: code made at run time.
    pub const ANONYMOUS: Self = Self(2);
    /// The kernel's own page in user space.
    pub const VDSO: Self = Self(3);
    /// Anything else without a file: `[vsyscall]`, `[uprobes]`.
    pub const SPECIAL: Self = Self(4);
}

/// The identity of an executable file, as it was while it was mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Image {
    /// What it is.
    pub kind: ImageKind,
    /// Path as the process saw it, a string id.
    pub path: u32,
    /// Build-id; empty if it has none or it could not be read.
    pub build_id: Vec<u8>,
    /// Device as `stat` numbers it; 0 if unknown.
    pub dev: u64,
    /// Inode; 0 if unknown.
    pub inode: u64,
    /// Size of the file in bytes; 0 if unknown.
    pub size_bytes: u64,
    /// Last modification, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
}

/// Images that mappings name by id. Ids count up from 0 over the whole file.
#[derive(Debug, Default, Archive, Serialize)]
pub struct ImagesV1 {
    /// Id of the first image in this block.
    pub first_id: u32,
    /// Numbers of [`ImageKind`].
    pub kind: Vec<u8>,
    /// Paths, string ids.
    pub path: Vec<u32>,
    /// All build-ids, one behind the other.
    pub build_id_bytes: Vec<u8>,
    /// Offset behind each build-id in `build_id_bytes`.
    pub build_id_ends: Vec<u32>,
    /// Devices.
    pub dev: Vec<u64>,
    /// Inodes.
    pub inode: Vec<u64>,
    /// Sizes in bytes.
    pub size_bytes: Vec<u64>,
    /// Modification times, ns since 1970-01-01 UTC.
    pub modified_unix_ns: Vec<u64>,
}

payload!(
    ImagesV1, ArchivedImagesV1, Kind::IMAGES, 1,
    count kind, same path, same build_id_ends, same dev, same inode, same size_bytes, same modified_unix_ns
);

impl ImagesV1 {
    /// Builds the columns.
    pub fn from_rows(first_id: u32, rows: &[Image]) -> Self {
        let mut out = Self { first_id, ..Self::default() };
        for row in rows {
            out.kind.push(row.kind.0);
            out.path.push(row.path);
            push_item(&mut out.build_id_bytes, &mut out.build_id_ends, &row.build_id);
            out.dev.push(row.dev);
            out.inode.push(row.inode);
            out.size_bytes.push(row.size_bytes);
            out.modified_unix_ns.push(row.modified_unix_ns);
        }
        out
    }
}

impl ArchivedImagesV1 {
    /// Lists the images; the first has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if a build-id lies outside the bytes.
    pub fn rows(&self) -> Result<Vec<Image>, Error> {
        let build_ids = items(Kind::IMAGES, &self.build_id_bytes, &self.build_id_ends)?;
        Ok(build_ids
            .into_iter()
            .enumerate()
            .map(|(i, build_id)| Image {
                kind: ImageKind(self.kind[i]),
                path: self.path[i].to_native(),
                build_id: build_id.to_vec(),
                dev: self.dev[i].to_native(),
                inode: self.inode[i].to_native(),
                size_bytes: self.size_bytes[i].to_native(),
                modified_unix_ns: self.modified_unix_ns[i].to_native(),
            })
            .collect())
    }
}
