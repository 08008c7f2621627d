//! `import` of profiles with names: whatever they say, what is written is whole, and can be reported on.

use super::import;

/// What the import of one byte may hold: the 2 bytes of an empty message of pprof become a row of 72 in a list that grows by halves.
const BYTES_OF_BYTE: usize = 512;

/// Imports a profile, and shows every sample of what was written.
pub fn run(data: &[u8]) {
    import::within(data, BYTES_OF_BYTE);
}

/// Stacks with marks of all kinds, a large count, and a line that is none.
pub fn folded() -> Vec<Vec<u8>> {
    let text = "main;f;g 12\nmain;f_[j];h_[i];read_[k] 1000000000000000000\n;x_[0];y_[1] 3\nmain 1.5\n";
    vec![text.into(), b"a b 1".to_vec()]
}

/// Two types of values, a mapping of the kernel and one of a program, inlined functions, labels.
pub fn pprof() -> Vec<Vec<u8>> {
    let number = |tag: u8, value: u8| vec![tag << 3, value];
    let texts = ["", "cpu", "nanoseconds", "main", "f", "/bin/x", "0a0b", "[kernel.kallsyms]", "tid", "a.go"];
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| field(6, text.as_bytes())).collect();
    let line = |function, line| field(4, &[number(1, function), number(2, line)].concat());
    let location = |id, mapping, lines: &[Vec<u8>]| {
        field(4, &[number(1, id), number(2, mapping), number(3, 64 + id), lines.concat()].concat())
    };
    let function =
        |id, name| field(5, &[number(1, id), number(2, name), number(4, 9), number(5, 3)].concat());
    let mapping = |id, path, build| {
        field(3, &[number(1, id), number(2, 32), number(3, 127), number(5, path), number(6, build)].concat())
    };
    let label = field(3, &[number(1, 8), number(3, 7)].concat());
    let sample =
        |ids: &[u8], values: [u8; 2]| field(2, &[field(1, ids), field(2, &values), label.clone()].concat());
    let all = [
        field(1, &[number(1, 1), number(2, 2)].concat()),
        field(1, &[number(1, 3), number(2, 0)].concat()),
        sample(&[3, 2, 1], [10, 1]),
        sample(&[1], [0, 2]),
        mapping(1, 5, 6),
        mapping(2, 7, 0),
        location(1, 1, &[line(1, 5)]),
        location(2, 1, &[line(2, 6), line(1, 7)]),
        location(3, 2, &[line(2, 0)]),
        location(4, 1, &[]),
        function(1, 3),
        function(2, 4),
        texts.concat(),
        number(10, 9),
    ];
    vec![all.concat()]
}

/// With tables that threads share, and with tables of each thread.
pub fn firefox() -> Vec<Vec<u8>> {
    let tables = |prefix: &str| {
        format!(
            r#""stackTable":{{"frame":[0,1,2],{prefix}}},"frameTable":{{"func":[0,1,1],"line":[3,null,4],"category":[0,0,1],"inlineDepth":[0,1,0]}},"funcTable":{{"name":[0,1],"resource":[-1,0],"fileName":[2,null],"lineNumber":[1,2]}},"resourceTable":{{"lib":[0],"name":[2]}},"stringArray":["main","f","a.c"]"#
        )
    };
    let meta = r#"{"meta":{"preprocessedProfileVersion":70,"startTime":1700000000000,"categories":[{"name":"User"},{"name":"Kernel"}]},"libs":[{"path":"/bin/x"}]"#;
    let thread = r#""name":"a","pid":"7","tid":8,"samples":{"stack":[2,1,null,0],"time":[-1,2,3,4.5],"weight":[1,2,3,4],"weightType":"tracing-ms"},"markers":{"name":[0]}"#;
    let shared = tables(r#""prefixOffset":[0,1,1]"#);
    let own = tables(r#""prefix":[null,0,1]"#);
    vec![
        format!(r#"{meta},"shared":{{{shared}}},"threads":[{{{thread}}}]}}"#).into_bytes(),
        format!(r#"{meta},"threads":[{{{thread},{own}}}],"counters":[1]}}"#).into_bytes(),
    ]
}

/// Samples, a loss, files, a thread and events.
pub fn simpleperf() -> Vec<Vec<u8>> {
    let number = |tag: u8, value: u8| vec![tag << 3, value];
    let entry = |file, symbol| field(3, &[number(1, 16), number(2, file), number(3, symbol)].concat());
    let sample = [number(1, 40), number(2, 9), entry(1, 0), entry(0, 0), entry(0, 5), number(4, 7)].concat();
    let records = [
        field(1, &sample),
        field(2, &[number(1, 1), number(2, 3)].concat()),
        field(3, &[number(1, 0), field(2, b"/lib.so"), field(3, b"f")].concat()),
        field(3, &[number(1, 1), field(2, b"[kernel.kallsyms]"), field(3, b"read")].concat()),
        field(4, &[number(1, 9), number(2, 8), field(3, b"main")].concat()),
        field(5, &field(1, b"cpu-cycles")),
    ];
    let record = |body: &Vec<u8>| [&(body.len() as u32).to_le_bytes()[..], body].concat();
    let records: Vec<Vec<u8>> = records.iter().map(record).collect();
    vec![[&b"SIMPLEPERF\x01\0"[..], &records.concat(), &[0; 4]].concat()]
}

/// Encodes a field of a message, of less than 128 bytes.
fn field(tag: u8, value: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2, value.len() as u8][..], value].concat()
}
