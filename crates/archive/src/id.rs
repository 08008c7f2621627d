//! Ids that every writer computes alike, so that writers need no coordinator.

use std::io::{self, Read};

use ring::digest::{Context, SHA256};
use ring::rand::SystemRandom;

/// A hash of content: 63 bits, because query engines have signed numbers of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(i64);

impl Id {
    /// Hashes texts and numbers one after the other: the first 8 bytes of the SHA-256 of all parts, each behind its length (8 bytes),
    /// as a number without its lowest bit. Numbers are little-endian.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        Self::finish(context)
    }

    /// Hashes all that can be read: the first 8 bytes of its SHA-256, as above.
    pub(crate) fn of_all(mut from: impl Read) -> io::Result<Self> {
        let (mut context, mut buffer) = (Context::new(&SHA256), vec![0; 64 << 10]);
        loop {
            match from.read(&mut buffer)? {
                0 => return Ok(Self::finish(context)),
                read => context.update(&buffer[..read]),
            }
        }
    }

    /// Returns one that nobody else has.
    pub(crate) fn random() -> io::Result<Self> {
        let bytes = ring::rand::generate::<[u8; 8]>(&SystemRandom::new());
        let bytes = bytes.map_err(|_| io::Error::other("the system has no random numbers"))?.expose();
        Ok(Self((u64::from_le_bytes(bytes) >> 1).cast_signed()))
    }

    fn finish(context: Context) -> Self {
        let digest = context.finish();
        let first = digest.as_ref()[..8].try_into().expect("bug: SHA-256 has 32 bytes");
        Self((u64::from_le_bytes(first) >> 1).cast_signed())
    }

    /// Returns the id of a session, given the identity of its file and its position in it.
    pub fn of_session(uuid: &[u8], part: u32) -> Self {
        Self::of(&[uuid, &part.to_le_bytes()])
    }

    /// Takes a number as tables store it.
    pub(crate) fn read(number: i64) -> Self {
        Self(number)
    }

    /// Returns the number as tables store it, never negative.
    pub fn get(self) -> i64 {
        self.0
    }

    /// Returns the bytes that another id hashes.
    pub fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_in_every_build_and_tell_parts_apart() {
        // printf '\x01\0\0\0\0\0\0\0a\x01\0\0\0\0\0\0\0b' | sha256sum
        assert_eq!(Id::of(&[b"a", b"b"]).get(), 5_229_183_231_346_816_359);
        assert_ne!(Id::of(&[b"ab", b""]), Id::of(&[b"a", b"b"]));
        assert!(Id::of(&[]).get() >= 0);
    }
}
