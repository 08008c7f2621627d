//! Image identities, version 1.

use rkyv::{Archive, Serialize};

use super::packed::Packed;
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;

/// What backs an executable mapping; the numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageKind(pub u8);

impl ImageKind {
    /// A file.
    pub const FILE: Self = Self(1);
    /// Anonymous memory: JIT code.
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

references!(Image {
    kind: plain,
    path: id(Strings),
    build_id: plain,
    dev: plain,
    inode: plain,
    size_bytes: plain,
    modified_unix_ns: plain,
});

/// Images that mappings name by id. Ids count up from 0 over the whole session.
#[derive(Debug, Default, Archive, Serialize)]
pub struct ImagesV1 {
    /// Id of the first image in this block.
    pub first_id: u32,
    /// Numbers of [`ImageKind`].
    pub kind: Packed,
    /// Paths, string ids.
    pub path: Packed,
    /// All build-ids, one after the other.
    pub build_id_bytes: Vec<u8>,
    /// Length of each build-id, bytes.
    pub build_id_lens: Packed,
    /// Devices.
    pub dev: Packed,
    /// Inodes.
    pub inode: Packed,
    /// Sizes in bytes.
    pub size_bytes: Packed,
    /// Modification times, ns since 1970-01-01 UTC.
    pub modified_unix_ns: Packed,
}

payload!(
    ImagesV1, ArchivedImagesV1, Kind::IMAGES, 1,
    count kind, same path, same build_id_lens, same dev, same inode, same size_bytes, same modified_unix_ns,
    other build_id_bytes
);

impl ImagesV1 {
    /// Builds the columns.
    pub fn from_rows(first_id: u32, rows: &[Image]) -> Self {
        Self {
            first_id,
            kind: rows.iter().map(|r| u64::from(r.kind.0)).collect(),
            path: rows.iter().map(|r| r.path).collect(),
            build_id_bytes: rows.iter().flat_map(|r| &r.build_id).copied().collect(),
            build_id_lens: rows.iter().map(|r| r.build_id.len() as u64).collect(),
            dev: rows.iter().map(|r| r.dev).collect(),
            inode: rows.iter().map(|r| r.inode).collect(),
            size_bytes: rows.iter().map(|r| r.size_bytes).collect(),
            modified_unix_ns: rows.iter().map(|r| r.modified_unix_ns).collect(),
        }
    }
}

impl ArchivedImagesV1 {
    /// Lists the images; the first has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if the bytes do not suffice.
    pub fn rows(&self) -> Result<Vec<Image>, Error> {
        let build_ids = items(Kind::IMAGES, &self.build_id_bytes, &self.build_id_lens)?;
        let [kind, dev, inode] = [&self.kind, &self.dev, &self.inode].map(|column| column.values());
        let (size_bytes, modified_unix_ns) = (self.size_bytes.values(), self.modified_unix_ns.values());
        let image = |(i, (build_id, path)): (usize, (&[u8], u32))| Image {
            kind: ImageKind(kind[i] as u8),
            path,
            build_id: build_id.to_vec(),
            dev: dev[i],
            inode: inode[i],
            size_bytes: size_bytes[i],
            modified_unix_ns: modified_unix_ns[i],
        };
        Ok(build_ids.into_iter().zip(self.path.values_u32()).enumerate().map(image).collect())
    }
}
