//! What the recorder asks of a reader, and the answers, as bytes. Both are the same program, so the layout is nobody else's business.

use std::io;

use rustix::fs::{FileType, Stat, StatFs};

/// The most bytes of one answer, besides its status.
pub(super) const MAX_ANSWER: usize = 128 << 10;
/// The most bytes of a request: a few numbers and two paths.
pub(super) const MAX_REQUEST: usize = 64 + 2 * 4096;
/// The answer "not there, or not what was asked for".
pub(super) const NOTHING: i32 = libc::ENOENT;

/// What is asked. Requests about a file have its descriptor with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// The file that a process has mapped at these addresses, by the kernel's own link to it.
    Mapped { tgid: u32, start: u64, end: u64 },
    /// The regular file at a path below a folder, as a process with this root folder sees it. Nothing leads out of the folder. Links in the path
    /// are followed only with `links`; the last part is never one.
    Below { root: &'a [u8], path: &'a [u8], links: bool },
    /// What the file is now.
    Stat,
    /// Bytes of the file, opened as a user.
    Read { off: u64, len: u64, uid: u32, gid: u32 },
    /// Bytes of the memory of a process. With `present` the first of them whose pages are in memory. The answer begins with 8 bytes: how many
    /// bytes were skipped.
    Memory { tgid: u32, at: u64, len: u64, present: bool },
    /// The text of `/proc/PID/maps` from an offset on. The text is that of the moment in which its begin was asked for, as long as the reader lives.
    Maps { tgid: u32, from: u64 },
}

impl<'a> Request<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, numbers, paths): (u64, [u64; 4], [&[u8]; 2]) = match *self {
            Self::Mapped { tgid, start, end } => (0, [tgid.into(), start, end, 0], [b""; 2]),
            Self::Below { root, path, links } => (1, [links.into(), root.len() as u64, 0, 0], [root, path]),
            Self::Stat => (2, [0; 4], [b""; 2]),
            Self::Read { off, len, uid, gid } => (3, [off, len, uid.into(), gid.into()], [b""; 2]),
            Self::Memory { tgid, at, len, present } => (4, [tgid.into(), at, len, present.into()], [b""; 2]),
            Self::Maps { tgid, from } => (5, [tgid.into(), from, 0, 0], [b""; 2]),
        };
        let words = std::iter::once(kind).chain(numbers);
        words.flat_map(u64::to_ne_bytes).chain(paths.concat()).collect()
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (words, paths) = bytes.split_at_checked(40)?;
        let word = |at: usize| u64::from_ne_bytes(words.as_chunks::<8>().0[at]);
        let [_, a, b, c, d] = std::array::from_fn(word);
        Some(match word(0) {
            0 => Self::Mapped { tgid: a as u32, start: b, end: c },
            1 => {
                let (root, path) = paths.split_at_checked(usize::try_from(b).ok()?)?;
                Self::Below { root, path, links: a != 0 }
            }
            2 => Self::Stat,
            3 => Self::Read { off: a, len: b, uid: c as u32, gid: d as u32 },
            4 => Self::Memory { tgid: a as u32, at: b, len: c, present: d != 0 },
            5 => Self::Maps { tgid: a as u32, from: b },
            _ => return None,
        })
    }
}

/// The file systems on this machine that ask nobody for an answer: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, ramfs, hugetlbfs, SquashFS, EROFS, FAT,
/// ISO 9660, ZFS, bcachefs. The overlay is none: its layers can lie anywhere.
///
/// # Source
/// statfs(2); uapi/linux/magic.h
const LOCAL: [u32; 13] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x0102_1994,
    0x8584_58f6,
    0x9584_58f6,
    0x7371_7368,
    0xe0f5_e1e2,
    0x4d44,
    0x9660,
    0x2fc1_2fc1,
    0xca45_1a4e,
];

/// What the file system says of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) dev: u64,
    pub(crate) inode: u64,
    pub(crate) size_bytes: u64,
    pub(crate) modified_unix_ns: u64,
    pub(crate) changed_unix_ns: u64,
    pub(crate) uid: u32,
    /// The number of its names; 0 if it was deleted.
    pub(crate) links: u32,
    /// Its file system is on this machine, and asks nobody.
    pub(crate) is_local: bool,
}

/// The bytes of an encoded [`Meta`].
pub(super) const META_LEN: usize = 8 * 8;

impl Meta {
    /// Takes what `stat` and `statfs` say of a regular file; `None` for another one.
    pub(super) fn of(stat: &Stat, system: &StatFs) -> Option<Self> {
        let ns = |seconds: i64, nanoseconds: u64| {
            (seconds.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(nanoseconds)
        };
        FileType::from_raw_mode(stat.st_mode).is_file().then(|| Self {
            dev: stat.st_dev,
            inode: stat.st_ino,
            size_bytes: stat.st_size.max(0) as u64,
            modified_unix_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            changed_unix_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
            uid: stat.st_uid,
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            is_local: LOCAL.contains(&(system.f_type as u32)),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { dev, inode, size_bytes, modified_unix_ns, changed_unix_ns, uid, links, is_local } = *self;
        let times = [modified_unix_ns, changed_unix_ns];
        let rest = [uid.into(), links.into(), is_local.into()];
        let numbers = [dev, inode, size_bytes].into_iter().chain(times).chain(rest);
        numbers.flat_map(u64::to_ne_bytes).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let words = bytes.first_chunk::<META_LEN>()?.as_chunks::<8>().0;
        let [dev, inode, size_bytes, modified_unix_ns, changed_unix_ns, uid, links, is_local] =
            std::array::from_fn(|at| u64::from_ne_bytes(words[at]));
        let (uid, links, is_local) = (uid as u32, links as u32, is_local != 0);
        Some(Self { dev, inode, size_bytes, modified_unix_ns, changed_unix_ns, uid, links, is_local })
    }
}

/// Splits an answer into its error, if it is one, and its bytes.
pub(super) fn answer(bytes: &[u8]) -> io::Result<&[u8]> {
    let (status, rest) = bytes.split_first_chunk::<4>().ok_or(io::ErrorKind::UnexpectedEof)?;
    match i32::from_ne_bytes(*status) {
        0 => Ok(rest),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_come_back_as_they_were() {
        let requests = [
            Request::Mapped { tgid: 7, start: 1 << 63, end: u64::MAX },
            Request::Below { root: b"/", path: b"/a b/\xff", links: true },
            Request::Below { root: b"/proc/1/root", path: b"", links: false },
            Request::Stat,
            Request::Read { off: 1 << 40, len: 3, uid: 65534, gid: 1 },
            Request::Memory { tgid: u32::MAX, at: 2, len: 4, present: true },
            Request::Maps { tgid: 8, from: 9 },
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        assert_eq!((Request::decode(&[0; 39]), Request::decode(&[9; 40])), (None, None));
        let (modified_unix_ns, changed_unix_ns) = (4, 5);
        for is_local in [false, true] {
            let times = Meta { modified_unix_ns, changed_unix_ns, ..Meta::default() };
            let meta = Meta { dev: 1, inode: 2, size_bytes: 3, uid: 6, links: 7, is_local, ..times };
            assert_eq!(Meta::decode(&meta.encode()), Some(meta));
        }
        assert_eq!(Meta::decode(&[0; META_LEN - 1]), None);
    }
}
