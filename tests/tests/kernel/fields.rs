//! Fields of tracepoints: what hits weigh by them, and what samples have of them.

use std::collections::BTreeMap;

use icecore_tests::machine::{Recorded, Sample, report};
use serde_json::{Value, json};

/// Records python with these events. It writes 1,000 bytes 50 times to a file 8, and one byte 30 times to a file 77, and then does more.
fn recorded(events: &[&str], then: &str) -> Recorded {
    let script = format!(
        "import os\nfile = os.open('/dev/null', os.O_WRONLY)\nos.dup2(file, 8); os.dup2(file, 77)\n\
         for n in range(50): os.write(8, b'x' * 1000)\nfor n in range(30): os.write(77, b'x')\n{then}"
    );
    let options: Vec<&str> =
        events.iter().flat_map(|event| ["-e", *event]).chain(["--max-event-rate", "0"]).collect();
    Recorded::new(&options, &["python3", "-c", &script])
}

/// Returns the samples of each row of `top --by field`.
fn by_field(recorded: &Recorded, options: &[&str]) -> BTreeMap<String, u64> {
    let top = recorded.json("top", &[&["--by", "field", "-n", "0"], options].concat());
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["self_samples"].as_u64()?));
    top["rows"].as_array().expect("rows").iter().filter_map(row).collect()
}

fn text(recorded: &Recorded, view: &str, options: &[&str]) -> String {
    let path = recorded.path();
    report(&[&[view, path.to_str().expect("UTF-8")], options].concat())
}

#[test]
fn root_a_hit_of_a_tracepoint_can_weigh_a_field() {
    let events = [
        "syscalls:sys_enter_write,weight=count,unit=bytes,min=1000",
        "sched:sched_switch,weight=prev_prio,min=100",
    ];
    let recorded = recorded(&events, "import time\ntime.sleep(0.01)");
    let writes = recorded.samples(&["--event", "syscalls:*"]);
    let weights: Vec<u64> = writes.iter().map(|sample| sample.number("weight")).collect();
    assert_eq!(weights, [1000; 50], "8 bytes; lost: {}", recorded.lost());
    assert_eq!(recorded.json("info", &[])["session"]["events"][0]["unit"], "bytes");
    let switches = recorded.samples(&["--event", "sched:*"]);
    assert!(!switches.is_empty(), "it sleeps");
    let usual = |sample: &Sample| (100..140).contains(&sample.number("weight"));
    assert!(switches.iter().all(usual), "4 bytes: {}", switches[0].0);
}

#[test]
fn root_samples_have_a_field_in_every_view() {
    let recorded = recorded(&["syscalls:sys_enter_write,weight=count,unit=bytes,field=fd"], "");
    let rows = by_field(&recorded, &[]);
    assert_eq!((rows["fd=8"], rows["fd=77"]), (50, 30), "{rows:?}; lost: {}", recorded.lost());
    for sample in recorded.samples(&[]) {
        let field = &sample.0["field"];
        assert_eq!(field["name"], "fd", "{}", sample.0);
        match field["value"].as_u64() {
            Some(8) => assert_eq!(sample.number("weight"), 1_000),
            Some(77) => assert_eq!(sample.number("weight"), 1),
            _ => {}
        }
    }
    let top = recorded.json("top", &["--by", "field,function"]);
    assert_eq!(top["rows"][0]["field"], json!({"name": "fd", "value": 8}));
    let folded = text(&recorded, "folded", &["--root", "field", "--weight", "samples"]);
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
    let of_8 = folded.lines().filter(|line| line.starts_with("fd=8;")).filter_map(count).sum::<u64>();
    assert_eq!(of_8, 50, "{folded}");
    let timeline = recorded.json("timeline", &["--by", "field"]);
    assert_eq!(
        (&timeline["rows"][0]["kind"], &timeline["rows"][0]["name"]),
        (&json!("field"), &json!("fd=8"))
    );
    assert_eq!(timeline["rows"][0]["total"], 50_000);
    assert!(text(&recorded, "timeline", &["--by", "field"]).contains("fd=77"));
    assert!(text(&recorded, "timeline", &["--by", "field", "--csv"]).contains(",field,fd=77,"));
    assert!(text(&recorded, "tree", &["--root", "field"]).contains("fd=8"));
    assert!(text(&recorded, "samples", &[]).contains(" bytes syscalls:sys_enter_write fd=77\n"));
}

#[test]
fn root_fields_have_signs_and_texts() {
    // Python leaves the address of what it executes as it is.
    let long = format!("/tmp/{}", "x".repeat(100));
    let then = format!(
        "os.symlink('/bin/true', '{long}')\n\
         for n in range(7):\n  if os.fork() == 0: os.execv('{long}', ['x'])\n  os.wait()\n\
         os.unlink('{long}')\n\
         for n in range(5): os.path.exists('/no/such/file')"
    );
    let events = [
        "sched:sched_process_exec,field=filename",
        "sched:sched_process_exit,field=comm",
        "syscalls:sys_exit_newfstatat,field=ret",
        "syscalls:sys_enter_dup2",
    ];
    let recorded = recorded(&events, &then);
    let of = |event: &str| by_field(&recorded, &["--event", event]);
    let names = of("sched:sched_process_exec");
    assert_eq!(
        names.get(&format!("filename={}…", &long[..64])),
        Some(&7),
        "a text is cut with a mark: {names:?}"
    );
    let names = of("sched:sched_process_exit");
    assert!(names.contains_key(&format!("comm={}", &long[5..20])), "an array of characters: {names:?}");
    let ends = of("syscalls:sys_exit_newfstatat");
    assert!(ends["ret=-2"] >= 5, "a sign: {ends:?}");
    let without = of("syscalls:sys_enter_dup2");
    assert_eq!(without.keys().collect::<Vec<_>>(), ["(no field)"], "the event has none");
}

#[test]
fn root_stacks_of_tracepoints_begin_with_the_function_that_has_it() {
    let events = ["syscalls:sys_enter_write", "raw_syscalls:sys_exit", "sched:sched_process_exit"];
    let recorded = recorded(&events, "");
    let leaves = |options: &[&str]| -> BTreeMap<String, u64> {
        let mut leaves = BTreeMap::new();
        for sample in recorded.samples(options) {
            let leaf = sample.names("kernel").first().map(|name| (*name).to_owned());
            *leaves.entry(leaf.unwrap_or_default()).or_default() += 1;
        }
        leaves
    };
    let (shown, all) = (leaves(&[]), leaves(&["--tracing"]));
    let is_tracing = |name: &str| name.starts_with("perf_syscall_") || name.starts_with("__traceiter_");
    // Which functions of tracing are on a stack depends on the kernel. Linux 6.18 has some of them.
    if all.keys().any(|name| is_tracing(name)) {
        let note = text(&recorded, "top", &[]);
        assert!(note.contains("begin with the function that has the tracepoint (--tracing"), "{note}");
        assert!(!text(&recorded, "top", &["--tracing"]).contains("the function that has the tracepoint"));
    }
    assert!(!shown.keys().any(|name| is_tracing(name)), "{shown:?}");
    assert_eq!(shown.values().sum::<u64>(), all.values().sum::<u64>(), "no sample is left out");
    assert!(!shown.contains_key("") || all.contains_key(""), "no stack is emptied: {shown:?}");
    let top = recorded.json("top", &["--event", "raw_syscalls:*", "--kernel"]);
    let rows = top["rows"].as_array().expect("rows");
    assert!(!rows.iter().any(|row| row["name"].as_str().is_some_and(is_tracing)), "{rows:?}");
    let path = recorded.path();
    let cut = path.with_extension("cut");
    report(&["cut".as_ref(), path.as_os_str(), "-o".as_ref(), cut.as_os_str()]);
    let of_cut: Value = icecore_tests::machine::json("summary", &cut);
    assert_eq!(of_cut["samples"].as_u64(), Some(all.values().sum()), "the file keeps all");
}
