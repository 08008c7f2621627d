//! Matches images across builds.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::pattern;
use icecore_profile::map::Map;
use icecore_profile::named::names::short;

/// A version at the end of a name, or cargo's hash.
///
/// Digits without a dot are a version only after a separator: `clang-19`, `app_v2`, but not `sha256`, `cc1`. With dots they always
/// are: a comparison treats `python3.11` and `python3.12` as one image, because it asks what their functions cost.
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:[-_]v?\d+(?:\.\d+)*|v?\d+(?:\.\d+)+)(?:[a-z]|[-.~]?(?:rc|alpha|beta|pre|dev)[.\d]*)?$|-[0-9a-f]{16}$",
    )
});
/// Digits at the end of a name that are not a version: `ld-linux-x86-64`.
const MACHINES: [&str; 2] = ["x86-64", "x86_64"];
/// Where the name of a shared object ends and its version begins.
const SHARED: &str = ".so";

/// Returns the key of an image: its file name without folders, versions, cargo's hash and the kernel's remark that it was deleted;
/// `libstdc++.so` for `/usr/lib/libstdc++.so.6.0.30`, `libc.so` for `libc-2.31.so`. Names in brackets, such as `[kernel]`, are no
/// files and stay.
pub fn image(path: &str) -> Cow<'_, str> {
    let file = match short(path) {
        folder if folder.ends_with('/') => short(folder.trim_end_matches('/')),
        file => file,
    };
    if file.starts_with('[') {
        return file.into();
    }
    let mut dots = file.match_indices(SHARED).map(|(dot, _)| dot);
    match dots.find(|dot| *dot > 0 && is_version(&file[dot + SHARED.len()..])) {
        Some(dot) => {
            let stem = unversioned(&file[..dot]);
            if stem.len() == dot {
                file[..dot + SHARED.len()].into()
            } else {
                format!("{stem}{SHARED}").into()
            }
        }
        None => match unversioned(file) {
            stem if stem.len() < file.len() => image(stem),
            whole => whole.into(),
        },
    }
}

/// The keys of the images of both sides, cached because there are few images and many functions. Files of one build have one key,
/// whatever their names.
#[derive(Debug)]
pub struct ImageKeys<'a>(Map<&'a str, Cow<'a, str>>);

impl<'a> ImageKeys<'a> {
    /// Computes keys from paths and build-ids; the build-id is empty if unknown.
    pub fn of(images: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut keys: Map<&str, Cow<'_, str>> = Map::default();
        let mut builds: BTreeMap<&[u8], BTreeSet<&str>> = BTreeMap::new();
        for (path, build_id) in images {
            keys.entry(path).or_insert_with(|| image(path));
            if !build_id.is_empty() {
                builds.entry(build_id).or_default().insert(path);
            }
        }
        for paths in builds.values().filter(|paths| paths.len() > 1) {
            let same: BTreeSet<Cow<'_, str>> = paths.iter().map(|path| keys[path].clone()).collect();
            let least = same.first().cloned().unwrap_or_default();
            keys.values_mut().filter(|key| same.contains(*key)).for_each(|key| key.clone_from(&least));
        }
        Self(keys)
    }

    /// Returns the key of a path.
    pub fn key(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(|key| &**key)
    }
}

/// Returns true if only a version follows the name of a shared object.
fn is_version(rest: &str) -> bool {
    rest.is_empty()
        || rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn unversioned(mut stem: &str) -> &str {
    while let Some(version) = VERSION.find(stem).filter(|version| version.start() > 0) {
        if MACHINES.iter().any(|machine| stem.ends_with(machine)) {
            break;
        }
        stem = &stem[..version.start()];
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_versions_and_hashes_are_no_part_of_a_key() {
        for (path, key) in [
            ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", "libstdc++.so"),
            ("/lib/libc-2.31.so", "libc.so"),
            ("/lib/libc.so.6 (deleted)", "libc.so"),
            ("/usr/lib/libLLVM-19.so.1", "libLLVM.so"),
            ("/usr/lib/libLLVM.so.19.1", "libLLVM.so"),
            ("/lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64.so"),
            ("/usr/bin/python3.11", "python"),
            ("/usr/bin/clang-19", "clang"),
            ("/opt/app-v2", "app"),
            ("/opt/app-1.2.0-rc.1", "app"),
            ("/lib/libssl-1.1.1w.so", "libssl.so"),
            ("/x/target/debug/deps/serde-0123456789abcdef", "serde"),
            ("/x/libserde_derive-0123456789abcdef.so", "libserde_derive.so"),
            ("/nix/store/abcdfghijklmnpqrsvwxyz0123456789-glibc-2.38/lib/libc.so.6", "libc.so"),
            ("/home/u/.debug/jit/jitted-1234-56.so", "jitted.so"),
        ] {
            assert_eq!(image(path), key, "{path}");
        }
    }

    #[test]
    fn digits_that_are_part_of_a_name_stay() {
        for name in [
            "cc1",
            "cc1plus",
            "sha256sum",
            "base64",
            "md5",
            "qemu-system-x86_64",
            "bzip2",
            "libQt5Core.so",
            "7z",
        ] {
            assert_eq!(image(name), name);
        }
        for name in ["[kernel]", "[ext4]", "[jit]", "[vdso]", "", "-1", "1.2", ".so", "a.sock", "x.sort.2x"] {
            assert_eq!(image(name), name);
        }
    }

    #[test]
    fn files_of_one_build_have_one_key_and_so_have_those_that_were_called_like_them() {
        let images =
            [("/a/old", &[1][..]), ("/b/new", &[1]), ("/c/new", &[2]), ("/d/other", &[]), ("/e/more", &[2])];
        for order in [images.to_vec(), images.iter().rev().copied().collect()] {
            let keys = ImageKeys::of(order.into_iter());
            let of = |path| keys.key(path).expect("a path");
            assert_eq!(["/a/old", "/b/new", "/c/new", "/e/more"].map(of), ["more"; 4]);
            assert_eq!((of("/d/other"), keys.key("/f")), ("other", None));
        }
    }

    #[test]
    fn a_key_is_its_own_key() {
        let pieces =
            ["lib", "a", "-", "_v", ".so", ".", "1", "23", "/", "x86-64", "-0123456789abcdef", "rc", "["];
        let parts = proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..8);
        proptest::proptest!(|(parts in parts, is_deleted: bool)| {
            let path = parts.concat() + if is_deleted { " (deleted)" } else { "" };
            let key = image(&path);
            proptest::prop_assert_eq!(image(&key), key.clone());
        });
    }
}
