//! Programs in their own mount namespaces: the recording says to which namespace a path belongs.

use std::path::Path;
use std::process::Command;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{ImagesV1, MappingsV1, SessionV1, StringsV1};
use icecore_tests::machine::{Recorded, copy, target, text};
use serde_json::Value;

/// Returns the mount namespace of the recorder, and of each mapping the path of its image and its own.
fn namespaces(path: &Path) -> (u64, Vec<(String, u64)>) {
    let recording = Recording::open(path).expect("it opens");
    let (mut own, mut strings, mut images, mut mappings) = (0, vec![String::new()], Vec::new(), Vec::new());
    for entry in recording.entries() {
        let payload = recording.payload(entry).expect("a whole block");
        match entry.header.kind {
            Kind::SESSION => own = payload.view::<SessionV1>().expect("its layout").mount_ns.to_native(),
            Kind::STRINGS => {
                let rows = payload.view::<StringsV1>().expect("its layout").rows().expect("sound");
                strings.extend(rows.into_iter().map(|(_, bytes)| text(bytes)));
            }
            Kind::IMAGES => {
                images.extend(payload.view::<ImagesV1>().expect("its layout").rows().expect("sound"))
            }
            Kind::MAPPINGS => mappings.extend(payload.view::<MappingsV1>().expect("its layout").rows()),
            _ => {}
        }
    }
    let path = |image: u32| strings[images[image as usize].path as usize].clone();
    (own, mappings.into_iter().map(|row| (path(row.image), row.mount_ns)).collect())
}

/// Runs the target here, and a copy of it on a file system that only its own mount namespace has.
fn recorded() -> Recorded {
    let script = format!(
        "'{0}' shares 300; unshare -m sh -c 'mount -t tmpfs inside /mnt && cp {0} /mnt/inside && /mnt/inside shares 600'",
        target().display()
    );
    let recorded = Recorded::new(&["-F", "997", "--embed", "none"], &["sh", "-c", &script]);
    assert!(recorded.output.status.success(), "{}", text(&recorded.output.stderr));
    recorded
}

#[test]
fn root_a_mapping_tells_the_mount_namespace_of_its_process() {
    let (own, mappings) = namespaces(&recorded().path());
    let here =
        Command::new("stat").args(["-L", "-c", "%i", "/proc/self/ns/mnt"]).output().expect("coreutils");
    assert_eq!(text(&here.stdout).trim(), own.to_string());
    let of = |name: &str| -> Vec<u64> {
        mappings.iter().filter(|(path, _)| path.ends_with(name)).map(|(_, mount_ns)| *mount_ns).collect()
    };
    let (inside, outside) = (of("/inside"), of("/target"));
    assert!(!inside.is_empty() && inside.iter().all(|ns| *ns != 0 && *ns != own), "{own}: {inside:?}");
    assert!(!outside.is_empty() && outside.iter().all(|ns| *ns == own), "{own}: {outside:?}");
}

#[test]
fn root_missing_says_that_a_path_is_one_of_another_mount_namespace() {
    let recorded = recorded();
    let missing = recorded.json("missing", &[]);
    let rows = missing["names"].as_array().expect("a list");
    let inside: Vec<&Value> = rows.iter().filter(|row| row["image"] == "/mnt/inside").collect();
    let [inside] = inside[..] else { panic!("{missing}") };
    assert_eq!(inside["other_mounts"], true, "{inside}");
    let get = inside["get"].as_array().expect("a list").iter().filter_map(Value::as_str);
    let copy = get.clone().find(|line| line.contains("/root/mnt/inside "));
    assert!(
        copy.is_some_and(|line| line.contains(":/proc/") && line.contains("(while process ")),
        "{inside}"
    );
    let sources = recorded.json("info", &["--symbol-source"]);
    let source = |end: &str| {
        let rows = sources["symbol_sources"].as_array().expect("a list").iter();
        rows.filter(|row| row["image"].as_str().is_some_and(|path| path.ends_with(end))).collect::<Vec<_>>()
    };
    assert!(source("/inside").iter().all(|row| row["other_mounts"] == true), "{sources}");
    assert!(
        !source("/target").is_empty() && source("/target").iter().all(|row| row["other_mounts"] == false)
    );
}

#[test]
fn root_a_root_of_its_own_is_no_mount_namespace() {
    let root = tempfile::tempdir().expect("a folder for temporary files");
    copy(&icecore_tests::machine::jit(), &root.path().join("jit"));
    std::fs::create_dir(root.path().join("tmp")).expect("room");
    let command = ["chroot", &root.path().display().to_string(), "/jit", "map", "400"].map(str::to_owned);
    let (own, mappings) = namespaces(&Recorded::new(&["-F", "997", "-q"], &command).path());
    let jit: Vec<u64> = mappings.iter().filter(|(path, _)| path == "/jit").map(|(_, ns)| *ns).collect();
    assert!(!jit.is_empty() && jit.iter().all(|ns| *ns == own), "{own}: {jit:?}");
}
