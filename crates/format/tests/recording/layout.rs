//! The layouts of docs/FORMAT.md §5, as compiled: a change of rkyv, of its features or of a record that
//! would change bytes on disk fails here.

use std::mem::offset_of;

use icecore_format::Error;
use icecore_format::block::Processes;
use icecore_format::records::{
    Basis, CgroupsV1, CodeV1, CountersV1, CpuTimesV1, EndReason, FieldsV1, ImagePartsV1, ImagesV1, JitV1,
    KernelSymbolsV1, Layout, LeftOutV1, LifecycleV1, Location, LossesV1, MappingsV1, NamesV1, Node, Payload,
    Piece, RatesV1, ReceiptV1, Sample, SamplesV1, SessionV1, Snapshot, SnapshotsV1, SourcesV1, StackCodeV1,
    StackMarksV1, StackNode, StackNodesV1, StackPiece, StackPiecesV1, StackRepair, StacksV1, StringsV1,
    SymbolsV1, Task, TasksV1, TriggerV1, UnwindRulesV1, WaitsV1, WalkEnd, Word,
};

/// The document.
const FORMAT: &str = include_str!("../../../../docs/FORMAT.md");

/// A root struct: its fields with their offsets, and its size.
#[derive(Debug, PartialEq, Eq)]
struct Root {
    name: String,
    kind: u16,
    version: u16,
    size: usize,
    fields: Vec<(usize, String)>,
}

/// Cells of a row of a table; nothing for other lines.
fn cells(line: &str) -> Vec<&str> {
    line.strip_prefix('|').map_or(Vec::new(), |row| row.split('|').map(str::trim).collect())
}

/// Reads the root of a kind from the tables of the document.
fn documented(name: &str) -> Root {
    let payloads = FORMAT.split("\n## 5.").nth(1).expect("it has a section 5");
    let payloads = payloads.split("\n## ").next().expect("there is a first part");
    let is_kind = |row: &Vec<&str>| row.len() > 4 && row[1] == name && row[0].parse::<u16>().is_ok();
    let row = payloads.lines().map(cells).find(is_kind).unwrap_or_else(|| panic!("{name} is a kind"));
    let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{name}: {cell} is a number"));
    let is_its = |part: &&str| part.split_whitespace().nth(1) == Some(name);
    let section = payloads.split("\n### ").skip(1).find(is_its);
    let section = section.unwrap_or_else(|| panic!("{name} has a section"));
    let field = |row: Vec<&str>| Some((row.first()?.parse().ok()?, (*row.get(1)?).to_owned()));
    Root {
        name: name.to_owned(),
        kind: number(row[0]),
        version: number(row[2]),
        size: row[4].parse().unwrap_or_else(|_| panic!("{name} has a size")),
        fields: section.lines().map(cells).filter_map(field).collect(),
    }
}

/// The root of a kind as it is compiled.
macro_rules! compiled {
    ($name:literal, $type:ident: $($field:ident)*) => {
        Root {
            name: $name.to_owned(),
            kind: <$type as Payload>::KIND.0,
            version: <$type as Payload>::VERSION,
            size: size_of::<<$type as Payload>::View>(),
            fields: vec![$((offset_of!(<$type as Payload>::View, $field), stringify!($field).to_owned())),*],
        }
    };
}

#[test]
fn every_root_has_the_documented_size_and_its_fields_the_documented_offsets() {
    let roots = [
        compiled!("session", SessionV1: recorder command_line host kernel_release kernel_version arch boot_id
            kernel_build_id start_ns start_unix_ns mount_ns ring_bytes cpus events labels notes target_ids
            target_cgroups missing_features page_bytes max_depth stack_bytes maker target cpu_scope unwind embed
            user kernel idle),
        compiled!("strings", StringsV1: first_id bytes lens),
        compiled!("tasks", TasksV1: first_id tgid tid comm),
        compiled!("lifecycle", LifecycleV1: first_ns last_ns after_ns change tgid tid creator comm),
        compiled!("images", ImagesV1: first_id kind path build_id_bytes build_id_lens dev inode size_bytes
            modified_unix_ns),
        compiled!("mappings", MappingsV1: first_ns last_ns after_ns tgid start len file_off image origin mount_ns
            first_mount_ns),
        compiled!("stacks", StacksV1: kernel_base first_id parent base offset kernel_offset),
        compiled!("samples", SamplesV1: first_ns last_ns processes period unit_ns newest_stack late cpu event
            user_end kernel_end task user_new user_known kernel_new kernel_known weight snapshot first_snapshot),
        compiled!("kernel_symbols", KernelSymbolsV1: start len name module),
        compiled!("losses", LossesV1: time_ns cpu cause count event weight),
        compiled!("receipt", ReceiptV1: end_ns samples lost user_cpu_ns kernel_cpu_ns peak_rss_bytes bpf_runs bpf_ns
            ring_high_water_bytes file_bytes cut_from_ns cut_to_ns kept_samples exit_code end_reason),
        compiled!("symbols", SymbolsV1: image start len bias whole name_count names name_lens file files
            file_lens),
        compiled!("image_parts", ImagePartsV1: file_bytes image off lens bytes),
        compiled!("jit", JitV1: tgid start len since_ns lasted_ns names name_lens rules rules_lens line_count line_off file
            line language depth inlined call_file call_line),
        compiled!("cgroups", CgroupsV1: first_ns last_ns after_ns tgid tid path),
        compiled!("names", NamesV1: image file_off address back depth calls function file line name symbol declared_file
            declared_line unit entry first symbol_file alias_count alias texts text_lens),
        compiled!("left_out", LeftOutV1: image why needed_bytes free_bytes),
        compiled!("stack_code", StackCodeV1: first_id base offset),
        compiled!("stack_pieces", StackPiecesV1: first_id mask word distance),
        compiled!("stack_nodes", StackNodesV1: first_id outer gap piece),
        compiled!("snapshots", SnapshotsV1: first_id anchor depth not_copied memory mask register distance),
        compiled!("unwind_rules", UnwindRulesV1: image at start bias bytes lens),
        compiled!("cpu_times", CpuTimesV1: first_ns last_ns unit_ns after over tgid tid ran user kernel),
        compiled!("stack_marks", StackMarksV1: node mark),
        compiled!("waits", WaitsV1: first_ns last_ns unit_ns after task event state flags woken_by ended lasted
            waker_task waker),
        compiled!("counters", CountersV1: first_ns last_ns unit_ns after owner id counter value),
        compiled!("fields", FieldsV1: first_ns last_ns unit_ns after task event name kind number text),
        compiled!("trigger", TriggerV1: time_ns asked_ns what cause is_full),
        compiled!("rates", RatesV1: time_ns share cause measured limit),
        compiled!("sources", SourcesV1: image path text proof modified_unix_ns texts text_lens),
        compiled!("code", CodeV1: image file_off address machine name lens place_count refer_count bytes after depth
            function file line refer refer_name refer_offset texts text_lens),
    ];
    assert_eq!(roots.len(), Layout::ALL.len(), "every payload is in this list");
    for root in roots {
        assert_eq!(root, documented(&root.name), "compiled, and documented");
    }
}

/// A list or a column: its bytes in the root, little-endian.
fn root(fields: &[i64]) -> Vec<u8> {
    fields.iter().flat_map(|field| (*field as u32).to_le_bytes()).collect()
}

#[test]
fn strings_have_exactly_these_bytes() {
    let bytes = StringsV1::from_rows(1, &["abc", "de"]).to_bytes().expect("fits");
    // The text, the plane of lengths, padding; then first_id, (pointer, length), (rows, pointer, length).
    let expected = [&b"abcde\x03\x02\0"[..], &root(&[1, -12, 5, 2, -19, 2])].concat();
    assert_eq!(bytes[..], expected);
}

#[test]
fn tasks_have_exactly_these_bytes() {
    let rows = [Task { tgid: 300, tid: 300, comm: 3 }, Task { tgid: 299, tid: 301, comm: 4 }];
    let bytes = TasksV1::from_rows(9, &rows).to_bytes().expect("fits");
    // 300 and −1, folded: two planes; 0 and −2; 3 and 4.
    let planes = [0x58, 1, 2, 0, 0, 3, 3, 4];
    let expected = [&planes[..], &root(&[9, 2, -16, 4, 2, -24, 2, 2, -34, 2])].concat();
    assert_eq!(bytes[..], expected);
}

#[test]
fn stacks_have_exactly_these_bytes() -> Result<(), Error> {
    let rows = [
        Node { parent: 0, location: Location::Address(0x1234) },
        Node { parent: 7, location: Location::Image { image: 5, file_off: 0x0002_0001 } },
        Node { parent: 7, location: Location::Address(0xffff_ffff_8100_0010) },
    ];
    let bytes = StacksV1::from_rows(7, &rows)?.to_bytes()?;
    let expected = [
        // No caller, the node in front, node 7; an address, image 5, the kernel.
        &[[0, 1, 8], [0, 7, 1]].concat()[..],
        // Three planes of two offsets, four of one.
        &[0x34, 0x01, 0x12, 0x00, 0x00, 0x02, 0x10, 0x00, 0x00, 0x81],
        &0xffff_ffff_0000_0000_u64.to_le_bytes(),
        &root(&[7, 3, -32, 3, 3, -41, 3, 2, -50, 6, 1, -56, 4, 0]),
    ];
    assert_eq!(bytes[..], expected.concat());
    assert_eq!(StacksV1::view(&bytes)?.rows()?, rows);
    Ok(())
}

#[test]
fn texts_have_exactly_these_bytes_inside_and_outside_of_their_place() -> Result<(), Error> {
    let session =
        SessionV1 { notes: ["duration", "targets gone"].map(String::from).into(), ..SessionV1::default() };
    let bytes = session.to_bytes()?;
    let texts = b"targets goneduration\x8c\0\0\0\xec\xff\xff\xff\0\0\0\0";
    assert_eq!((&bytes[..32], bytes.len()), (&texts[..], 32 + 184));
    // The list of notes: from its place in the root back to the second text.
    assert_eq!(bytes[32 + 120..32 + 128], root(&[12 - 32 - 120, 2]));
    assert_eq!(SessionV1::view(&bytes)?.to_owned_record()?, session);
    Ok(())
}

#[test]
fn a_receipt_has_exactly_these_bytes() -> Result<(), Error> {
    let receipt = ReceiptV1 {
        end_ns: 5,
        file_bytes: 7,
        cut_to_ns: Some(9),
        exit_code: -1,
        end_reason: EndReason::SIGNAL,
        ..ReceiptV1::default()
    };
    let words: [u64; 17] = [5, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 1, 9, 0, 0, 2 << 32 | 0xffff_ffff];
    let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(receipt.to_bytes()?[..], expected);
    assert_eq!(ReceiptV1::view(&receipt.to_bytes()?)?.to_owned_record()?, receipt);
    Ok(())
}

#[test]
fn image_parts_have_exactly_these_bytes() -> Result<(), Error> {
    let rows = [Piece { off: 0, bytes: &b"\x7fELF"[..] }, Piece { off: 0x1000, bytes: b"sym" }];
    let parts = ImagePartsV1::from_rows(5, 0x1003, &rows);
    assert_eq!(parts.processes(), Processes::NONE.with(5));
    let bytes = parts.to_bytes()?;
    // 0 and 0x1000, folded: two planes; 4 and 3; the bytes, padding.
    let planes = b"\0\0\0\x20\x04\x03\x7fELFsym\0\0\0";
    let expected = [&planes[..], &root(&[0x1003, 0, 5, 2, -32, 4, 2, -40, 2, -46, 7, 0])].concat();
    assert_eq!(bytes[..], expected);
    assert_eq!(ImagePartsV1::view(&bytes)?.rows()?, rows);
    Ok(())
}

#[test]
fn what_a_stack_held_has_exactly_these_bytes() -> Result<(), Error> {
    let code = [Location::Image { image: 5, file_off: 0x1234 }, Location::Address(0x70)];
    let bytes = StackCodeV1::from_rows(3, &code).to_bytes()?;
    // Image 5, an address; 0x1234 and 0x70: two planes.
    let planes = [6, 0, 0x34, 0x70, 0x12, 0, 0, 0];
    assert_eq!(bytes[..], [&planes[..], &root(&[3, 2, -16, 2, 2, -26, 4])].concat());

    let words = vec![Word::Stack(16), Word::Code(4), Word::Stack(-8)];
    let pieces =
        [StackPiece { mask: 0x0101_0001, words }, StackPiece { mask: 2, words: vec![Word::Code(5)] }];
    let bytes = StackPiecesV1::from_rows(9, &pieces)?.to_bytes()?;
    // Four planes of two masks; stack, code 4, stack, code 5; 16 and −8, folded; padding.
    let planes = [[1, 2], [0, 0], [1, 0], [1, 0], [0, 5], [0, 6], [32, 15], [0, 0]].concat();
    assert_eq!(bytes[..], [&planes[..], &root(&[9, 2, -24, 8, 4, -28, 4, 2, -36, 2])].concat());
    assert_eq!(StackPiecesV1::view(&bytes)?.rows()?, pieces);

    let node = |outer, gap, piece| StackNode { outer, gap, piece };
    let bytes = StackNodesV1::from_rows(7, &[node(0, 3, 9), node(7, 0, 10), node(7, 1, 9)])?.to_bytes()?;
    // None, the node in front, node 7; padding.
    let planes = [[0, 1, 8], [3, 0, 1], [9, 10, 9], [0, 0, 0]].concat();
    assert_eq!(bytes[..], [&planes[..], &root(&[7, 3, -20, 3, 3, -29, 3, 3, -38, 3])].concat());
    Ok(())
}

#[test]
fn snapshots_have_exactly_these_bytes() -> Result<(), Error> {
    let registers = vec![Word::Code(3), Word::Stack(0x40)];
    let whole =
        Snapshot { anchor: 0x7000, depth: 0x80, copied: 0x80, memory: 9, mask: 1 << 6 | 1, registers };
    let cut =
        Snapshot { depth: 0x1238, copied: 0x1000, memory: 7, mask: 0, registers: vec![], ..whole.clone() };
    let bytes = SnapshotsV1::from_rows(5, &[whole.clone(), cut.clone()])?.to_bytes()?;
    let planes = [
        // Two planes each of anchors, depths and what was not copied.
        &[[0, 0], [0x70, 0x70], [0x80, 0x38], [0, 0x12], [0, 0x38], [0, 2]].concat()[..],
        // 9 and −2, folded; masks; code 3, stack; 0x40, folded; padding.
        &[18, 3, 0x41, 0, 4, 0, 0x80, 0],
    ];
    let root = root(&[5, 2, -28, 4, 2, -36, 4, 2, -44, 4, 2, -52, 2, 2, -62, 2, 2, -72, 2, 1, -82, 1]);
    assert_eq!(bytes[..], [&planes.concat()[..], &root].concat());
    assert_eq!(SnapshotsV1::view(&bytes)?.rows()?, [whole, cut]);
    Ok(())
}

#[test]
fn words_that_a_column_claims_and_has_not_are_refused() -> Result<(), Error> {
    let piece = StackPiece { mask: 1, words: vec![Word::Stack(8)] };
    let row = Snapshot { mask: 1, registers: vec![Word::Stack(8)], ..Snapshot::default() };
    // The u32 rows of the columns after the counted ones, by their distance from the end of the archive.
    let pieces = StackPiecesV1::from_rows(0, &[piece])?.to_bytes()?;
    let snapshots = SnapshotsV1::from_rows(1, &[row])?.to_bytes()?;
    for from_end in [24, 12] {
        for claimed in [2, u32::MAX] {
            for (bytes, view) in [
                (&pieces, (|bytes| StackPiecesV1::view(bytes).is_ok()) as fn(&[u8]) -> bool),
                (&snapshots, |bytes| SnapshotsV1::view(bytes).is_ok()),
            ] {
                let mut bytes = bytes.clone();
                assert!(view(&bytes), "it is whole");
                let at = bytes.len() - from_end;
                bytes[at..at + 4].copy_from_slice(&claimed.to_le_bytes());
                assert!(!view(&bytes), "{claimed} rows, {from_end} bytes in front of the end");
            }
        }
    }
    Ok(())
}

#[test]
fn pieces_that_overlap_or_lie_outside_of_their_file_are_refused() -> Result<(), Error> {
    let piece = |off, len| Piece { off, bytes: vec![7; len] };
    for (file_bytes, rows, is_right) in [
        (100, vec![piece(0, 10), piece(10, 90)], true),
        (99, vec![piece(0, 10), piece(10, 90)], false),
        (100, vec![piece(0, 10), piece(9, 5)], false),
        (100, vec![piece(20, 5), piece(10, 5)], false),
        (u64::MAX, vec![piece(u64::MAX - 4, 5)], false),
        (u64::MAX, vec![piece(0, 1 << 20)], true),
        (u64::MAX, vec![piece(0, 1 << 20), piece(1 << 20, 1)], false),
    ] {
        let bytes = ImagePartsV1::from_rows(0, file_bytes, &rows).to_bytes()?;
        assert_eq!(ImagePartsV1::view(&bytes)?.rows().is_ok(), is_right, "{file_bytes}: {}", rows.len());
    }
    Ok(())
}

/// The samples of the worked example.
fn example() -> ([Sample; 4], Basis) {
    let sample = |us: u64, cpu, (user_stack, user_end), (kernel_stack, kernel_end), weight| Sample {
        time_ns: 5_000_000_000 + us * 1_000,
        cpu,
        event: 0,
        user_end,
        kernel_end,
        task: u32::from(cpu) + 3,
        user_stack,
        kernel_stack,
        weight,
        snapshot: 0,
        repair: StackRepair::NONE,
    };
    let (none, kernel) = ((0, WalkEnd::NONE), (13, WalkEnd::UNSAID));
    let mut rows = [
        sample(0, 0, (12, WalkEnd::ROOT), none, 1_000_000),
        sample(250, 1, (4, WalkEnd::UNREADABLE), kernel, 1_000_000),
        sample(1_003, 0, (12, WalkEnd::ROOT), none, 1_000_000),
        sample(1_249, 1, none, kernel, 2_000_000),
    ];
    for (row, snapshot) in rows.iter_mut().zip([30, 0, 31, 33]) {
        row.snapshot = snapshot;
    }
    let processes = Processes::NONE.with(7);
    (rows, Basis { unit_ns: 1_000, period_ns: 1_000_000, newest_stack: 10, processes })
}

/// The bytes of the dump of four samples: three digits of offset, then pairs of digits up to the comment.
fn dumped() -> Vec<u8> {
    let section = FORMAT.split("Worked example: four samples").nth(1).expect("it has this section");
    let block = section.split("```").nth(1).expect("it has a dump");
    let mut bytes = Vec::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let (off, rest) = line.split_once("  ").expect("offset and bytes");
        assert_eq!(u64::from_str_radix(off, 16), Ok(bytes.len() as u64), "{line}");
        let pairs = rest.split("   ").next().unwrap_or_default().split_whitespace();
        bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")));
    }
    bytes
}

/// The dump as the section has it, without comments.
fn dump(bytes: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let line = |(row, bytes): (usize, &[u8])| {
        let (left, right) = bytes.split_at(bytes.len().min(8));
        format!("{:03x}  {}  {}\n", row * 16, hex(left), hex(right))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

#[test]
fn the_worked_example_of_samples_is_what_is_written_and_reads_as_the_document_says() -> Result<(), Error> {
    let (rows, basis) = example();
    let bytes = SamplesV1::from_rows(&rows, &basis)?.to_bytes()?;
    let documented = dumped();
    assert!(documented == bytes[..], "the code writes\n{}", dump(&bytes));
    let mut aligned = rkyv::util::AlignedVec::<16>::new();
    aligned.extend_from_slice(&documented);
    assert_eq!(SamplesV1::view(&aligned)?.rows()?, rows);
    Ok(())
}

#[test]
fn numbers_on_disk_are_little_endian_whatever_the_machine() -> Result<(), Error> {
    let (rows, basis) = example();
    let bytes = SamplesV1::from_rows(&rows, &basis)?.to_bytes()?;
    let first_ns = bytes.len() - 192;
    assert_eq!(bytes[first_ns..first_ns + 8], 5_000_000_000_u64.to_le_bytes());
    Ok(())
}
