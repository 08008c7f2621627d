//! What `icecore-record doctor` says is what a recording under the same conditions then does.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use icecore_tests::machine::{copy, json, program, record, text};
use serde_json::Value;

/// A folder that every user may read and write, with a recorder that every user may run.
fn room() -> (tempfile::TempDir, PathBuf) {
    let permissions = std::fs::Permissions::from_mode(0o777);
    let dir = tempfile::Builder::new().prefix("icecore").permissions(permissions).tempdir_in("/tmp");
    let dir = dir.expect("/tmp");
    // The permissions are subject to the umask.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
    let recorder = dir.path().join("icecore-record");
    copy(&program("icecore-record"), &recorder);
    (dir, recorder)
}

/// Runs the recorder under conditions that other programs make; they stand before it.
fn run(conditions: &[&str], recorder: &Path, args: &[&str]) -> Output {
    let words = conditions
        .iter()
        .copied()
        .chain([recorder.to_str().expect("plain text")])
        .chain(args.iter().copied());
    let words: Vec<&str> = words.collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(recorder.parent().expect("a folder")).env_remove("XDG_CACHE_HOME");
    command.output().expect("util-linux is everywhere")
}

/// Runs `doctor`; returns its exit code and its document.
fn asked(conditions: &[&str], recorder: &Path) -> (i32, Value) {
    let output = run(conditions, recorder, &["doctor", "--json"]);
    let said = text(&output.stderr);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{conditions:?}: {said}"));
    let code = output.status.code().expect("it ends");
    let of_code = ["ok", "degraded", "impossible"][usize::try_from(code).expect("0 to 2")];
    assert_eq!(document["verdict"], of_code, "{conditions:?}: {said}");
    assert_eq!(document["schema"], "icecore.doctor/1");
    (code, document)
}

fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("`{name}` in {document:#}"))
}

/// Asks under these conditions, records under them, and asserts that both agree. Returns the document.
fn agreed(conditions: &[&str]) -> Value {
    let (_dir, recorder) = room();
    let (code, document) = asked(conditions, &recorder);
    let recorded = run(conditions, &recorder, &["-a", "-d", "0.2", "-o", "x.icecore"]);
    let is_recorded = recorded.status.code() == Some(0);
    assert_eq!(code != 2, is_recorded, "{conditions:?}: {document:#}\n{}", text(&recorded.stderr));
    document
}

#[test]
fn root_may_record_and_what_a_user_without_rights_lacks_is_named() {
    assert_ne!(agreed(&["env"])["verdict"], "impossible");
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let document = agreed(&nobody);
    assert_eq!(document["verdict"], "impossible");
    for name in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "sampling programs"] {
        let found = check(&document, name);
        assert_eq!(found["state"], "missing", "{found}");
        let remedy = found["remedy"].as_str().expect("a remedy");
        assert!(remedy.contains("cap_bpf,cap_perfmon,cap_sys_ptrace"), "{found}");
    }
}

#[test]
fn root_without_one_capability_the_verdict_is_that_of_the_kernel() {
    for capability in ["bpf", "perfmon", "sys_ptrace", "syslog", "dac_read_search", "sys_admin"] {
        let without = format!("-{capability}");
        let document = agreed(&["setpriv", "--inh-caps", &without, "--bounding-set", &without]);
        let name = format!("CAP_{}", capability.to_uppercase());
        let found = check(&document, &name);
        // CAP_SYS_ADMIN is there in place of the first two.
        let is_told = !found["found"].as_str().expect("text").starts_with("there");
        assert!(is_told, "{found}");
        assert_ne!(document["verdict"], "impossible", "{document:#}");
    }
    for without in ["-bpf,-sys_admin", "-perfmon,-sys_admin"] {
        let document = agreed(&["setpriv", "--inh-caps", without, "--bounding-set", without]);
        assert_eq!(document["verdict"], "impossible", "{without}: {document:#}");
    }
}

#[test]
fn root_the_capabilities_that_it_advises_are_enough() {
    let (_dir, recorder) = room();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let (_, document) = asked(&nobody, &recorder);
    // tracefs is not mounted before somebody has needed it.
    let is_mounted = Path::new("/sys/kernel/tracing/events").exists();
    for name in ["CAP_BPF", "tracefs"].into_iter().filter(|name| *name != "tracefs" || !is_mounted) {
        // Root takes the advice; there may be no sudo here.
        let remedy = check(&document, name)["remedy"].as_str().expect("a remedy");
        let command = remedy.strip_prefix("sudo ").unwrap_or(remedy);
        let taken = Command::new("sh").args(["-c", command]).output().expect("a shell");
        assert!(taken.status.success(), "{remedy}: {}", text(&taken.stderr));
    }
    let (code, document) = asked(&nobody, &recorder);
    assert_ne!(code, 2, "{document:#}");
    for name in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYSLOG", "CAP_DAC_READ_SEARCH", "tracefs"] {
        assert_eq!(check(&document, name)["state"], "ok", "{document:#}");
    }
    let recorded = run(&nobody, &recorder, &["-a", "-d", "0.2", "-o", "x.icecore"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    // A process that gains nothing gets nothing from the file.
    let gains_none = [&nobody[..], &["setpriv", "--no-new-privs"]].concat();
    let (code, document) = asked(&gains_none, &recorder);
    let remedy = check(&document, "CAP_BPF")["remedy"].as_str().expect("a remedy");
    assert!(code == 2 && remedy.contains("no_new_privs"), "{document:#}");
}

#[test]
fn root_in_namespaces_the_verdict_is_that_of_the_kernel() {
    let document = agreed(&["unshare", "--pid", "--fork", "--mount-proc"]);
    let found = check(&document, "PID namespace");
    assert_eq!((&document["verdict"], &found["state"]), (&"impossible".into(), &"missing".into()));
    assert!(found["remedy"].as_str().is_some_and(|remedy| remedy.contains("--pid=host")), "{found}");
    let document = agreed(&["unshare", "--user", "--map-root-user"]);
    assert_eq!(check(&document, "user namespace")["state"], "degraded");
    assert_eq!(document["verdict"], "impossible");
    let document = agreed(&["unshare", "--cgroup"]);
    assert_eq!(check(&document, "cgroup namespace")["state"], "degraded");
    assert_eq!(document["verdict"], "degraded");
}

#[test]
fn root_with_few_open_files_the_verdict_is_that_of_the_kernel() {
    let of_root = if agreed(&["env"])["verdict"] == "ok" { "ok" } else { "degraded" };
    for (most, verdict, state) in [
        (40, "impossible", "degraded"),
        (70, "impossible", "missing"),
        (100, "degraded", "degraded"),
        (400, of_root, "ok"),
    ] {
        let document = agreed(&["prlimit", &format!("--nofile={most}")]);
        if std::thread::available_parallelism().expect("CPUs").get() == 2 {
            let state_of_files = &check(&document, "open files")["state"];
            assert_eq!(
                (&document["verdict"], state_of_files),
                (&verdict.into(), &state.into()),
                "{most}: {document:#}"
            );
        }
    }
}

#[test]
fn root_what_the_kernel_lacks_is_what_a_recording_lacks() {
    let features = [
        ("loop", "stacks of 4,096 frames (bpf_loop)"),
        ("table_walks", "walks by unwind tables"),
        ("task_work", "stacks of waits (bpf_task_work)"),
        ("kernel_addresses", "kernel.kptr_restrict"),
    ];
    let conditions = [
        &["env"][..],
        &["env", "ICECORE_WITHOUT=tables"],
        &["env", "ICECORE_WITHOUT=task_work"],
        &["setpriv", "--inh-caps=-syslog", "--bounding-set=-syslog"],
    ];
    for conditions in conditions {
        let (dir, recorder) = room();
        let (_, document) = asked(conditions, &recorder);
        let recorded = run(conditions, &recorder, &["-a", "--off-cpu", "-d", "0.2", "-o", "x.icecore"]);
        assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
        let session = &json("info", &dir.path().join("x.icecore"))["session"];
        let missing = session["missing_features"].as_array().expect("a list");
        let missing: BTreeSet<&str> = missing.iter().filter_map(Value::as_str).collect();
        let told = features.iter().filter(|(_, name)| check(&document, name)["state"] != "ok");
        assert_eq!(missing, told.map(|(feature, _)| *feature).collect(), "{conditions:?}");
        let is_timer = session["events"].to_string().contains("cpu-clock");
        assert_eq!(check(&document, "hardware counters")["state"] != "ok", is_timer);
    }
}

#[test]
fn root_asking_changes_nothing_and_text_and_json_agree() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let settings = || {
        ["perf_event_paranoid", "kptr_restrict", "bpf_stats_enabled"]
            .map(|name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).expect("root"))
    };
    let before = settings();
    let run =
        |args: &[&str]| record().args(args).current_dir(dir.path()).output().expect("the recorder runs");
    let (page, document) = (run(&["doctor"]), run(&["doctor", "--json"]));
    assert_eq!(settings(), before);
    assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 0);
    assert_eq!(page.status.code(), document.status.code());
    let (page, document) =
        (text(&page.stdout), serde_json::from_slice::<Value>(&document.stdout).expect("JSON"));
    for check in document["checks"].as_array().expect("a list") {
        let has = |key: &str| check[key].as_str().is_none_or(|text| page.contains(text));
        assert!(has("name") && has("lacks") && has("state"), "{check} in {page}");
    }
    assert!(page.contains(&format!("verdict: {}. ", document["verdict"].as_str().expect("text"))), "{page}");
    let refused = run(&["doctor", "--jsn"]);
    assert_eq!(refused.status.code(), Some(2));
    // A program of this name can be recorded.
    let missing = run(&["--", "doctor"]);
    assert!(text(&missing.stderr).contains("cannot run `doctor`"), "{}", text(&missing.stderr));
}
