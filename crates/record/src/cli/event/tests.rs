//! Events as people type them, and the messages for mistyped ones.

use super::*;

fn typed(text: &str) -> Typed {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error:#}"))
}

fn wrong(text: &str) -> String {
    match parse(text) {
        Ok(typed) => panic!("{text}: {typed:?}"),
        Err(error) => format!("{error:#}"),
    }
}

fn counter_of(text: &str) -> (String, Counter, Option<Rate>) {
    match typed(text) {
        Typed { name, what: What::Counter(counter, rate) } => (name, counter, rate),
        other => panic!("{text}: {other:?}"),
    }
}

fn probe_of(text: &str) -> (String, Spot, Take, String) {
    match typed(text) {
        Typed { name, what: What::Probe(spot, take, unit) } => (name, spot, take, unit),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn counters_have_perfs_names_and_modifiers() {
    let of = |kind, config, precise, user, kernel| Counter { kind, config, precise, user, kernel };
    for (text, name, counter) in [
        ("cycles", "cycles", of(0, 0, 0, true, true)),
        ("cpu-cycles:upp", "cycles:upp", of(0, 0, 2, true, false)),
        ("instructions:ppp", "instructions:ppp", of(0, 1, 3, true, true)),
        ("cs:k", "context-switches:k", of(1, 3, 0, false, true)),
        ("page-faults:uk", "page-faults:uk", of(1, 2, 0, true, true)),
        ("dTLB-load-misses", "dTLB-load-misses", of(3, 0x10003, 0, true, true)),
        ("r01c2:u", "r01c2:u", of(4, 0x1c2, 0, true, false)),
    ] {
        assert_eq!(counter_of(text), (name.to_owned(), counter, None));
    }
    assert_eq!(counter_of("cycles,count=1000").2, Some(Rate::Period(1000)));
    assert_eq!(counter_of("cpu-clock:u,freq=4000").2, Some(Rate::Frequency(4000)));
}

#[test]
fn probes_have_places_and_options() {
    let tracepoint = |category: &str, name: &str| Spot::Tracepoint {
        category: category.into(),
        name: name.into(),
        weighed: None,
        sent: None,
    };
    let of_usdt = |file: &str, provider: &str, probe: &str| Spot::Static {
        file: file.into(),
        provider: provider.into(),
        probe: probe.into(),
    };
    let returns =
        |file: &str, functions: &str| Spot::Returns { file: file.into(), functions: functions.into() };
    let kernel = |function: &str, edge, hook| Spot::Kernel { function: function.into(), edge, hook };
    let functions = |file: &str, functions: &str, off| Spot::Functions {
        file: file.into(),
        functions: functions.into(),
        off,
    };
    for (text, name, spot) in [
        ("tracepoint:sched:sched_switch", "sched:sched_switch", tracepoint("sched", "sched_switch")),
        ("syscalls:sys_enter_*", "syscalls:sys_enter_*", tracepoint("syscalls", "sys_enter_*")),
        ("kprobe:vfs_read", "kprobe:vfs_read", kernel("vfs_read", Edge::Entry, Hook::Kprobe)),
        ("kretprobe:vfs_read", "kretprobe:vfs_read", kernel("vfs_read", Edge::Return, Hook::Kprobe)),
        ("fentry:vfs_read", "fentry:vfs_read", kernel("vfs_read", Edge::Entry, Hook::Call)),
        ("fexit:vfs_read", "fexit:vfs_read", kernel("vfs_read", Edge::Return, Hook::Call)),
        ("uprobe:libc:malloc", "uprobe:libc:malloc", functions("libc", "malloc", 0)),
        ("uprobe:./a:f+0x10", "uprobe:./a:f+0x10", functions("./a", "f", 16)),
        ("uprobe:a:A::operator+", "uprobe:a:A::operator+", functions("a", "A::operator+", 0)),
        ("uprobe:a:f(int, char*)", "uprobe:a:f(int, char*)", functions("a", "f(int, char*)", 0)),
        ("uretprobe:libc:m*", "uretprobe:libc:m*", returns("libc", "m*")),
        ("uretprobe:a:f(int, int)", "uretprobe:a:f(int, int)", returns("a", "f(int, int)")),
        ("usdt:./a:pro_v:n*", "usdt:./a:pro_v:n*", of_usdt("./a", "pro_v", "n*")),
        ("uprobe:a:0x1a2b", "uprobe:a:0x1a2b", Spot::Offset { file: "a".into(), off: 0x1a2b }),
    ] {
        assert_eq!(probe_of(text), (name.to_owned(), spot, Take::default(), "events".to_owned()));
    }
    let (name, spot, take, unit) = probe_of("uprobe:a:f(int, int),every=10,weight=arg2,min=5,unit=bytes");
    assert_eq!((name.as_str(), spot), ("uprobe:a:f(int, int)", functions("a", "f(int, int)", 0)));
    assert_eq!((take, unit.as_str()), (Take { every: 10, weight: Weight::Argument(2), min: 5 }, "bytes"));
    assert_eq!(probe_of("kprobe:vfs_read,weight=arg3").3, "value");
    // The place of a field is found when the tracepoint is.
    let (_, spot, take, unit) = probe_of("sched:sched_switch,weight=prev_prio,min=3");
    assert!(
        matches!(spot, Spot::Tracepoint { weighed: Some(field), sent: None, .. } if field == "prev_prio")
    );
    assert_eq!((take, unit.as_str()), (Take { every: 1, weight: Weight::One, min: 3 }, "value"));
    let (_, spot, take, unit) = probe_of("syscalls:sys_enter_write,field=fd");
    assert!(matches!(spot, Spot::Tracepoint { weighed: None, sent: Some(field), .. } if field == "fd"));
    assert_eq!((take, unit.as_str()), (Take::default(), "events"));
    assert_eq!(probe_of("uprobe:a:f,weight=arg6:int").2.weight, Weight::ArgumentInt(6));
    for (weight, expected, unit) in [
        ("retval", Weight::Returned, "value"),
        ("retval32", Weight::ReturnedInt, "value"),
        ("duration", Weight::Duration, "ns"),
        ("retval,unit=bytes", Weight::Returned, "bytes"),
        ("duration,unit=ns", Weight::Duration, "ns"),
    ] {
        let (.., take, known) = probe_of(&format!("uretprobe:libc:read,weight={weight}"));
        assert_eq!((take.weight, known.as_str()), (expected, unit), "{weight}");
        let (.., of_kernel, _) = probe_of(&format!("kretprobe:vfs_read,weight={weight}"));
        assert_eq!(of_kernel, take, "{weight}");
    }
}

#[test]
fn errors_name_the_wrong_word_and_the_remedy() {
    for (text, word, remedy) in [
        ("", "missing", "EVENT"),
        ("cycels", "`cycels`", "did you mean `cycles`"),
        ("pagefaults", "`pagefaults`", "`page-faults`"),
        ("LLC-load-miss", "`LLC-load-miss`", "`LLC-load-misses`"),
        ("kprob", "`kprob`", "`kprobe`"),
        ("cycles,instructions", "`instructions`", "-e of its own"),
        ("cycles:", "missing", "u, k, p"),
        ("cycles:x", "`x`", "u (user mode)"),
        ("cycles:pppp", "`cycles:pppp`", "ppp"),
        ("cycles,every=2", "`every`", "count, freq"),
        ("cycles,count=1,freq=2", "exclude", "leave out one"),
        ("cycles,count=1,count=2", "`count`", "twice"),
        ("cycles,count=0", "`count=0`", "from 1"),
        ("cpu-clock,count=1", "`count=1`", "from 20000"),
        ("cycles,freq=1e3", "`freq=1e3`", "1 to 50000"),
        ("cycles,freq", "`freq`", "freq=VALUE"),
        ("cpu/event=0xc2/", "PMU", "r01c2"),
        ("sched:", "`sched:`", "sched:sched_switch"),
        ("tracepoint:sched_switch", "`sched_switch`", "category and name"),
        ("sched:sched_switch,count=5", "`count`", "every, weight, min, unit, field"),
        ("sched:sched_switch,weight=a b", "`weight=a b`", "a field of the tracepoint"),
        ("sched:sched_switch,field=", "`field=`", "a field of the tracepoint"),
        ("sched:sched_switch,field", "`field` needs a value", "field=VALUE"),
        ("uprobe:a:f,field=x", "`field`", "only tracepoints"),
        ("uprobe", "file and function", "uprobe:PATH:FUNCTION"),
        ("uprobe:libc", "file and function", "uprobe:PATH:FUNCTION"),
        ("uprobe:libc:0xg", "`0xg`", "hexadecimal"),
        ("uprobe:libc:m*+4", "`+4`", "without * and ?"),
        ("uprobe:libc:malloc,weight=arg7", "`weight=arg7`", "arg1 to arg6"),
        ("uprobe:libc:malloc,weight=retval", "`weight=retval`", "use uretprobe"),
        ("uretprobe:libc:malloc,weight=arg1", "`weight=arg1`", "retval"),
        ("uretprobe:libc:malloc,weight=duration,unit=us", "`unit=us`", "ns"),
        ("uprobe:libc:malloc,min=5", "`min`", "weight=arg1"),
        ("uprobe:libc:malloc,unit=bytes", "`unit`", "weight=arg1"),
        ("uprobe:libc:malloc,weight=arg1,unit=a b", "`unit=a b`", "letters"),
        ("uprobe:libc:malloc,every=0", "`every=0`", "from 1"),
        ("uprobe:libc:malloc,every", "`every`", "every=VALUE"),
        ("kprobe:", "give a function", "kprobe:FUNCTION"),
        ("kprobe:vfs_*", "`vfs_*`", "one function"),
        ("kprobe:vfs_read+4", "`vfs_read+4`", "without +OFF"),
        ("uretprobe:libc", "file and function", "uretprobe:PATH:FUNCTION"),
        ("uretprobe:libc:malloc+4", "`libc:malloc+4`", "leave out the offset"),
        ("uretprobe:libc:0x1a2b", "`libc:0x1a2b`", "leave out the offset"),
        ("usdt:x:y", "file, provider and name", "usdt:PATH:PROVIDER:NAME"),
        ("usdt:x::y", "file, provider and name", "usdt:PATH:PROVIDER:NAME"),
        ("usdt:x:y:z,weight=arg1", "`weight`", "use uprobe"),
        ("kretprobe:", "give a function", "kretprobe:FUNCTION"),
        ("fentry:vfs_*", "`vfs_*`", "fentry takes one function"),
        ("kprobe:vfs_read,weight=duration", "`weight=duration`", "use kretprobe:FUNCTION"),
        ("kretprobe:vfs_read,weight=arg1", "`weight=arg1`", "retval"),
        ("fexit:vfs_read,weight=duration", "`weight=duration`", "use kretprobe:FUNCTION"),
    ] {
        let told = wrong(text);
        assert!(told.contains(word) && told.contains(remedy), "{text}: {told}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(
        text in "(uprobe:|uretprobe:|usdt:|kprobe:|kretprobe:|fentry:|fexit:|tracepoint:|r|cycles|cs)?[a-z:*?+,=0-9 é]{0,20}(,(count|every|weight|min|unit|freq)=[a-z0-9é]{0,8})?"
    ) {
        let _ = parse(&text);
    }
}
