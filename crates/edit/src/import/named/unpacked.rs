//! The bytes of a file, decompressed within limits.

use std::fs::File;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use icecore_format::limits::{MAX_RATIO, RATIO_FREE_LEN};

use crate::Error;

/// The most bytes of a profile with names, decompressed: its parsers hold all of it.
const MAX_BYTES: u64 = 1 << 30;

/// Returns true if a file with these first bytes is compressed with gzip.
pub(super) fn is_packed(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b])
}

/// Reads a file; the current position does not matter.
///
/// # Errors
/// If the file cannot be read, is too large, or its compression is broken.
pub(super) fn read(mut file: &File) -> Result<Vec<u8>, Error> {
    use std::io::Seek as _;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large("it"));
    }
    if is_packed(&bytes) { unpack(&bytes) } else { Ok(bytes) }
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, Error> {
    let most = (packed.len() as u64).saturating_mul(MAX_RATIO).clamp(RATIO_FREE_LEN, MAX_BYTES);
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        let done = bytes.len();
        Error::input(format!(
            "its gzip data is broken after {done} decompressed bytes: {error}; copy it here once more, as a whole"
        ))
    })?;
    if bytes.len() as u64 > most { Err(too_large("its content")) } else { Ok(bytes) }
}

fn too_large(what: &str) -> Error {
    Error::input(format!(
        "{what} has more than {} MiB, or {MAX_RATIO} times its compressed size: import reads no larger profiles",
        MAX_BYTES >> 20
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
    }

    #[test]
    fn what_was_compressed_in_parts_comes_back_and_a_cut_names_the_byte() {
        let (a, b) = (packed(b"main;f "), packed(b"12\n"));
        assert_eq!(unpack(&[&a[..], &b].concat()).expect("whole"), b"main;f 12\n");
        let error = unpack(&[&a[..], &b[..b.len() - 9]].concat()).expect_err("cut").to_string();
        assert!(error.contains("broken after ") && error.contains("copy it here once more"), "{error}");
    }
}
