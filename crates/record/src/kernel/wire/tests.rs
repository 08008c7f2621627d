use super::*;

/// Returns a sample of two kernel frames and one user frame, as the BPF program writes it.
fn sample_bytes() -> Vec<u8> {
    let mut bytes = vec![0; size_of::<sample_record>()];
    bytes[offset_of!(record_head, r#type)] = record_type::RECORD_SAMPLE.0 as u8;
    bytes[offset_of!(record_head, tgid)] = 7;
    bytes[offset_of!(record_head, cgroup_id)] = 9;
    bytes[offset_of!(record_head, comm)..][..4].copy_from_slice(b"comm");
    bytes[offset_of!(sample_record, kernel_len)] = 2;
    bytes[offset_of!(sample_record, user_len)] = 1;
    bytes[offset_of!(sample_record, user_end)] = 3;
    bytes[offset_of!(sample_record, event)] = 2;
    for address in [0xffff_ffff_8100_0010_u64, 0xffff_ffff_8100_0020, 0x5000] {
        bytes.extend_from_slice(&address.to_ne_bytes());
    }
    bytes
}

#[test]
fn a_sample_has_kernel_frames_in_front_of_user_frames() {
    let bytes = sample_bytes();
    let Ok(Event::Sample(sample)) = decode(&bytes) else { panic!("it is one") };
    assert_eq!((sample.head.tgid, sample.head.comm, sample.user_end, sample.event), (7, &b"comm"[..], 3, 2));
    assert_eq!(sample.head.cgroup_id, 9);
    assert_eq!(
        sample.kernel.leaf_first().collect::<Vec<_>>(),
        [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020].map(Avma)
    );
    assert_eq!(sample.user.leaf_first().collect::<Vec<_>>(), [Avma(0x5000)]);
}

#[test]
fn a_field_is_behind_the_frames() {
    let mut bytes = sample_bytes();
    bytes[offset_of!(sample_record, field_len)] = 4;
    bytes.extend_from_slice(b"dd\0\0");
    let Ok(Event::Sample(sample)) = decode(&bytes) else { panic!("it is one") };
    assert_eq!((sample.field, sample.user.leaf_first().count()), (&b"dd\0\0"[..], 1));
    assert!(decode(&bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn every_shorter_record_is_refused_with_its_length() {
    let bytes = sample_bytes();
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    let mut unknown = bytes;
    unknown[0] = 99;
    assert_eq!(decode(&unknown), Err(Undecodable::Type(99)));
}

#[test]
fn a_task_record_tells_who_forked_and_whether_all_threads_are_gone() {
    let mut bytes = vec![0; size_of::<task_record>()];
    bytes[0] = record_type::RECORD_FORK.0 as u8;
    bytes[offset_of!(task_record, parent_tgid)] = 5;
    assert!(matches!(decode(&bytes), Ok(Event::Fork { parent_tgid: 5, shares_memory: false, .. })));
    bytes[offset_of!(task_record, shares_memory)] = 1;
    assert!(matches!(decode(&bytes), Ok(Event::Fork { shares_memory: true, .. })));
    bytes[0] = record_type::RECORD_EXIT.0 as u8;
    bytes[offset_of!(task_record, whole_group)] = 1;
    assert!(matches!(decode(&bytes), Ok(Event::Exit { whole_group: true, .. })));
}

#[test]
fn a_new_cgroup_has_an_id_and_a_path() {
    let mut bytes = vec![0; size_of::<cgroup_record>()];
    bytes[0] = record_type::RECORD_CGROUP.0 as u8;
    bytes[offset_of!(record_head, cgroup_id)] = 9;
    bytes[offset_of!(cgroup_record, path)..][..2].copy_from_slice(b"/a");
    let Ok(Event::Cgroup { head, path }) = decode(&bytes) else { panic!("it is one") };
    assert_eq!((head.cgroup_id, path), (9, &b"/a"[..]));
    assert!(decode(&bytes[..bytes.len() - 1]).is_err());
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

/// Returns registers 100, 101, …, and the top of a stack, as the BPF program writes them.
fn registers_bytes() -> Vec<u8> {
    let mut bytes = vec![0; offset_of!(registers_record, top) + 128];
    bytes[0] = record_type::RECORD_REGISTERS.0 as u8;
    put(&mut bytes, offset_of!(registers_record, snapshot), 77);
    put(&mut bytes, offset_of!(registers_record, stack_end), 0x7000);
    bytes[offset_of!(registers_record, top_len)] = 128;
    bytes[offset_of!(registers_record, top)..][..128].fill(9);
    for number in 0..REGISTER_COUNT {
        put(&mut bytes, offset_of!(registers_record, registers) + 8 * number, 100 + number as u64);
    }
    bytes
}

#[test]
fn registers_come_with_the_top_of_their_stack() {
    let mut bytes = registers_bytes();
    let Ok(Event::Registers(registers)) = decode(&bytes) else { panic!("they are") };
    assert_eq!((registers.snapshot, registers.stack_end), (77, Avma(0x7000)));
    assert_eq!(registers.top, [9; 128]);
    assert_eq!(registers.values, std::array::from_fn(|number| 100 + number as u64));
    for len in 0..bytes.len() {
        assert_eq!(decode(&bytes[..len]), Err(Undecodable::Short { len }));
    }
    bytes[offset_of!(registers_record, top_len)] = 129;
    assert!(decode(&bytes).is_err(), "a longer top than was sent");
    bytes[offset_of!(registers_record, top_len)] = 0;
    assert!(matches!(decode(&bytes), Ok(Event::Registers(Registers { top: [], .. }))));
}

#[test]
fn a_stack_has_a_hash_for_each_page() {
    let mut bytes = vec![0; size_of::<stack_record>() + 16];
    bytes[0] = record_type::RECORD_STACK.0 as u8;
    put(&mut bytes, offset_of!(stack_record, snapshot), 77);
    put(&mut bytes, offset_of!(stack_record, low), 0x7123);
    put(&mut bytes, offset_of!(stack_record, high), 0x8100);
    bytes[offset_of!(stack_record, tid)] = 9;
    bytes[offset_of!(stack_record, len)] = 2;
    put(&mut bytes, size_of::<stack_record>(), 1000);
    let Ok(Event::Stack(stack)) = decode(&bytes) else { panic!("it is one") };
    assert_eq!((stack.snapshot, stack.low.0, stack.high.0, stack.tid), (77, 0x7123, 0x8100, 9));
    assert_eq!(stack.pages().collect::<Vec<_>>(), [(Avma(0x7000), 1000), (Avma(0x8000), 0)]);
    for len in 0..bytes.len() {
        assert_eq!(decode(&bytes[..len]), Err(Undecodable::Short { len }));
    }
    put(&mut bytes, offset_of!(stack_record, high), 0);
    assert!(
        matches!(decode(&bytes), Ok(Event::Stack(Stack { high: Avma(0x7123), .. }))),
        "never below its begin"
    );
}

#[test]
fn a_page_of_a_stack_is_whole() {
    let mut bytes = vec![0; size_of::<page_record>()];
    bytes[0] = record_type::RECORD_STACK_PAGE.0 as u8;
    bytes[offset_of!(page_record, tid)] = 5;
    put(&mut bytes, offset_of!(page_record, hash), 55);
    put(&mut bytes, offset_of!(page_record, snapshot), 77);
    put(&mut bytes, offset_of!(page_record, address), 0x7000);
    bytes[offset_of!(page_record, bytes)..].fill(9);
    let page = StackPage { snapshot: 77, tid: 5, hash: 55, address: Avma(0x7000), bytes: &[9; 4096] };
    assert_eq!(decode(&bytes), Ok(Event::StackPage(page)));
    for len in 0..bytes.len() {
        assert_eq!(decode(&bytes[..len]), Err(Undecodable::Short { len }));
    }
}

#[test]
fn a_sample_names_the_snapshot_in_front_of_it() {
    let mut bytes = sample_bytes();
    put(&mut bytes, offset_of!(sample_record, snapshot), 77);
    assert!(matches!(decode(&bytes), Ok(Event::Sample(Sample { snapshot: 77, .. }))));
}

#[test]
fn a_wait_has_its_kernel_stack_and_its_waker() {
    let mut bytes = vec![0; size_of::<wait_record>() + 5 * 8];
    bytes[0] = record_type::RECORD_WAIT.0 as u8;
    put(&mut bytes, offset_of!(wait_record, began_ns), 100);
    put(&mut bytes, offset_of!(wait_record, ready_ns), 200);
    put(&mut bytes, offset_of!(wait_record, blocked_weight), 1_000);
    bytes[offset_of!(wait_record, waker_tid)] = 9;
    bytes[offset_of!(wait_record, waker_comm)..][..4].copy_from_slice(b"comm");
    bytes[offset_of!(wait_record, state)] = 2;
    bytes[offset_of!(wait_record, kernel_len)] = 2;
    bytes[offset_of!(wait_record, woken_by)] = 3;
    bytes[offset_of!(wait_record, flags)] = 2 | 4;
    bytes[offset_of!(wait_record, inner_len)] = 3;
    bytes[offset_of!(wait_record, inner_from)] = 2;
    put(&mut bytes, size_of::<wait_record>() + 2 * 8, 0xffff_ffff_8200_0000);
    put(&mut bytes, size_of::<wait_record>() + 4 * 8, 0xffff_ffff_8100_0000);
    let Ok(Event::Wait(wait)) = decode(&bytes) else { panic!("it is one") };
    assert_eq!((wait.began_ns, wait.ready_ns, wait.blocked_weight, wait.delay_weight), (100, 200, 1_000, 0));
    assert_eq!((wait.waker_tid, wait.waker_comm, wait.state, wait.woken_by), (9, &b"comm"[..], 2, 3));
    assert_eq!((wait.began_before, wait.has_not_ended, wait.has_stack), (false, true, true));
    assert_eq!(wait.kernel.leaf_first().collect::<Vec<_>>(), [Avma(0), Avma(0xffff_ffff_8100_0000)]);
    assert_eq!(wait.inner.leaf_first().collect::<Vec<_>>(), [Avma(0xffff_ffff_8200_0000)]);
    assert_eq!(record_bytes(&bytes), Some(bytes.len()));
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_file_without_tables_is_known_by_what_stat_says_of_it() {
    let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    std::fs::write(file.path(), "code").expect("room");
    let door = crate::foreign::Door::of_test();
    let path = file.path().as_os_str().as_encoded_bytes();
    let meta = || *door.below(std::path::Path::new("/"), path, true).expect("it is there").meta();
    let mut bytes = vec![0; size_of::<no_table_record>()];
    bytes[0] = record_type::RECORD_NO_TABLE.0 as u8;
    bytes[offset_of!(no_table_record, tgid)] = 7;
    put(&mut bytes, offset_of!(no_table_record, start), 0x5000);
    put(&mut bytes, offset_of!(no_table_record, end), 0x6000);
    put(&mut bytes, offset_of!(no_table_record, uid), 1000);
    let vdso = bytes.clone();
    for (field, value) in [
        (offset_of!(file_key, inode), meta().inode),
        (offset_of!(file_key, size), meta().size_bytes),
        (offset_of!(file_key, changed_ns), meta().changed_unix_ns),
        (offset_of!(file_key, dev), 254 << 20 | 1),
    ] {
        put(&mut bytes, offset_of!(no_table_record, file) + field, value);
    }
    let Ok(Event::NoTable(missed)) = decode(&bytes) else { panic!("it is one") };
    assert_eq!((missed.tgid, missed.start, missed.end), (7, Avma(0x5000), Avma(0x6000)));
    assert_eq!(missed.user, 1000);
    assert!(missed.file.is_of(&meta()) && !missed.file.is_vdso() && missed.file.is_on_disk());
    // The same size, and nothing else is visible from outside.
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(file.path(), "CODE").expect("room");
    assert!(!missed.file.is_of(&meta()), "it was overwritten");
    let Ok(Event::NoTable(missed)) = decode(&vdso) else { panic!("it is one") };
    assert!(missed.file.is_vdso() && !missed.file.is_on_disk());
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn records_of_the_iterator_follow_each_other() {
    let mut registers = vec![0; offset_of!(registers_record, top) + 16];
    registers[0] = record_type::RECORD_REGISTERS.0 as u8;
    registers[offset_of!(registers_record, top_len)] = 16;
    let mut stack = vec![0; size_of::<sample_record>() + 8];
    stack[0] = record_type::RECORD_WAIT_STACK.0 as u8;
    stack[offset_of!(sample_record, user_len)] = 1;
    for record in [registers, stack] {
        let more = [&record[..], &[0; 64]].concat();
        assert_eq!(record_bytes(&more), Some(record.len()));
        assert!(decode(&record).is_ok());
        assert_eq!(record_bytes(&record[..3]), None);
    }
    assert_eq!(record_bytes(&[0; 64]), None, "other records do not come from it");
}

/// Returns a report as the kernel makes it while another listener asks for build-ids: the bit that says so is set, and there is none.
fn report_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    let misc = libbpf_sys::PERF_RECORD_MISC_MMAP_BUILD_ID as u16 | 2;
    bytes.extend_from_slice(&libbpf_sys::PERF_RECORD_MMAP2.to_ne_bytes());
    bytes.extend_from_slice(&misc.to_ne_bytes());
    bytes.extend_from_slice(&96_u16.to_ne_bytes());
    bytes.extend_from_slice(&[7_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat());
    for number in [0x5000_u64, 0x1000, 0x2000] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    bytes.extend_from_slice(&[8_u32.to_ne_bytes(), 1_u32.to_ne_bytes()].concat());
    bytes.extend_from_slice(&[99_u64.to_ne_bytes(), 3_u64.to_ne_bytes()].concat());
    bytes.extend_from_slice(&[(libc::PROT_EXEC as u32).to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
    bytes.extend_from_slice(b"/usr/bin/true\0\0\0");
    bytes.extend_from_slice(&77_u64.to_ne_bytes());
    bytes
}

#[test]
fn a_report_names_the_file_by_its_inode_whatever_others_ask_for() {
    let bytes = report_bytes();
    let Some(Report::Mapping(mapping)) = reports(&bytes).next() else { panic!("it is one") };
    assert_eq!((mapping.tgid, mapping.start.0, mapping.len, mapping.file_off.0), (7, 0x5000, 0x1000, 0x2000));
    assert_eq!((mapping.path, mapping.time_ns), (&b"/usr/bin/true"[..], 77));
    assert_eq!(mapping.file, Inode { major: 8, minor: 1, inode: 99 });
}

#[test]
fn lost_reports_are_counted_and_torn_ones_end_the_list() {
    let mut bytes = report_bytes();
    bytes.extend_from_slice(&libbpf_sys::PERF_RECORD_LOST.to_ne_bytes());
    bytes.extend_from_slice(&[0, 0, 32, 0]);
    bytes.extend_from_slice(&[1_u64.to_ne_bytes(), 5_u64.to_ne_bytes(), 78_u64.to_ne_bytes()].concat());
    assert_eq!(reports(&bytes).last(), Some(Report::Lost(5)));
    for len in 0..bytes.len() {
        assert!(reports(&bytes[..len]).count() < 2, "{len} bytes");
    }
    assert_eq!(reports(&[0; 64]).count(), 0, "a record of no length must not repeat for ever");
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes);
        let _ = reports(&bytes).count();
    }
}
