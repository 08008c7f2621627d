//! Packed recordings contain all names, lines and inlined functions of their code.

use std::path::Path;

use icecore_tests::elsewhere::samples_elsewhere;
use icecore_tests::machine::{Recorded, Sample, inlining, report, report_output, text};
use serde_json::Value;

fn run(args: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    report(&args.iter().map(|arg| arg.as_ref()).collect::<Vec<_>>())
}

fn listed(path: &Path) -> Vec<Sample> {
    let lines = run(&[&"samples", &path, &"--json"]);
    lines.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect()
}

/// Returns function, line and whether it was inlined, for all user frames.
fn frames(samples: &[Sample]) -> Vec<(String, Value, bool)> {
    let frames = samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list"));
    let user = frames.filter(|frame| frame["side"] == "user");
    let told = |frame: &Value| {
        let name = frame["name"].as_str().unwrap_or_default().to_owned();
        (name, frame["line"].clone(), frame["inlined"] == true)
    };
    user.map(told).collect()
}

#[test]
fn root_lines_and_inlined_functions_are_told_where_nothing_is() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = inlining(dir.path());
    let recorded = Recorded::new(&["-F", "997", "-q"], &[program.as_os_str()]);
    let packed = dir.path().join("packed.icecore");
    run(&[&"pack", &recorded.path(), &"-o", &packed]);
    run(&[&"verify", &packed]);
    let here = frames(&listed(&recorded.path()));
    let is_innermost =
        |(name, line, inlined): &&(String, Value, bool)| name == "innermost" && *line == 3 && *inlined;
    let hot = here.iter().filter(is_innermost).count();
    assert!(hot > 100, "{hot} of {} frames", here.len());
    std::fs::remove_file(&program).expect("it was there");
    assert!(frames(&samples_elsewhere(&recorded.path())).iter().all(|(_, line, _)| line.is_null()));
    assert_eq!(frames(&samples_elsewhere(&packed)), here);

    // Recordings made of it have the same names, also after packing where less is known.
    let [piece, both, again] = ["piece", "both", "again"].map(|name| dir.path().join(name));
    run(&[&"cut", &packed, &"--to", &"100", &"-o", &piece]);
    assert_eq!(frames(&samples_elsewhere(&piece)), here);
    let second = Recorded::target(&["-F", "997", "-q"], "shares", 200);
    run(&[&"merge", &piece, &second.path(), &"-o", &both]);
    run(&[&"pack", &both, &"-o", &again]);
    run(&[&"verify", &again]);
    let all = frames(&samples_elsewhere(&again));
    assert_eq!(all.iter().filter(is_innermost).count(), hot);
    assert_eq!(all, frames(&listed(&both)));
    let names =
        |path: &Path| -> Value { serde_json::from_str(&run(&[&"info", &path, &"--json"])).expect("JSON") };
    assert_eq!(names(&recorded.path())["names"], 0);
    assert!(names(&packed)["names"].as_u64() > Some(3), "{}", names(&packed)["names"]);
}

#[test]
fn a_damaged_recording_is_repaired_first() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [path, packed] = ["torn.icecore", "packed.icecore"].map(|name| dir.path().join(name));
    icecore_tests::synthetic::story().write(&path, true).expect("room");
    let mut bytes = std::fs::read(&path).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&path, bytes).expect("room");
    let out = report_output(&["pack".as_ref(), path.as_os_str(), "-o".as_ref(), packed.as_os_str()]);
    let said = text(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("with repair") && !packed.exists(), "{said}");
    let whole = dir.path().join("whole.icecore");
    run(&[&"repair", &path, &"-o", &whole]);
    let told: Value =
        serde_json::from_str(&run(&[&"pack", &whole, &"-o", &packed, &"--json"])).expect("JSON");
    assert_eq!(told["schema"], "icecore.pack/1");
}
