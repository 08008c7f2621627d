use super::*;

const TID: u32 = 77;
/// A stack pointer in the middle of a page.
const SP: u64 = 0x7ffd_0000_0e00;
const PAGE: u64 = 0x7ffd_0000_0000;

fn registers(snapshot: u64, stack_end: u64, top: &[u8]) -> Registers<'_> {
    let mut values = [0; REGISTER_COUNT];
    values[STACK_POINTER] = SP;
    Registers { snapshot, values, stack_end: Avma(stack_end), top, is_outer: false }
}

fn page(snapshot: u64, address: u64, hash: u64, bytes: &[u8]) -> StackPage<'_> {
    StackPage { snapshot, tid: TID, address: Avma(address), hash, bytes }
}

/// Returns a snapshot with the pages that were sent, and the hashes of all pages from [`PAGE`] on.
fn taken(arriving: &mut Arriving, high: u64, sent: &[(u64, [u8; 4096])], hashes: &[u64]) -> Taken {
    arriving.registers(&registers(1, PAGE + 0x9000, &[9; 128]));
    let hash = |address: u64| hashes[((address - PAGE) / 4096) as usize];
    sent.iter().for_each(|(address, bytes)| arriving.page(&page(1, *address, hash(*address), bytes)));
    let hashes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_ne_bytes()).collect();
    arriving.stack(&Stack { snapshot: 1, low: Avma(SP), high: Avma(high), tid: TID, hashes: &hashes });
    arriving.take(1).expect("it came")
}

fn bytes(taken: &Taken) -> Vec<u8> {
    let mut bytes = Vec::new();
    taken.copied.read(taken.copied.low, taken.copied.high, &mut bytes);
    bytes
}

#[test]
fn a_stack_begins_at_its_stack_pointer_and_ends_where_it_was_to_end() {
    // Below the stack pointer lies what nobody uses any more; after the end, arguments of the program.
    let first: [u8; 4096] = std::array::from_fn(|at| if at < 0xe00 { 1 } else { (at / 16) as u8 });
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x1100, &[9; 128]));
    let taken = taken(&mut arriving, PAGE + 0x1100, &[(PAGE, first), (PAGE + 0x1000, [3; 4096])], &[1, 2]);
    assert_eq!(bytes(&taken), [&first[0xe00..], &[3; 0x100]].concat());
    assert_eq!((taken.stack_pointer(), taken.anchor()), (Avma(SP), Avma(PAGE + 0x9000)));
    let part = [&first[0xff0..], &[3; 0x10]].concat();
    let mut across = Vec::new();
    taken.copied.read(Avma(PAGE + 0xff0), Avma(PAGE + 0x1010), &mut across);
    assert_eq!(across, part);
}

#[test]
fn without_pages_there_is_the_top() {
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x1100, &[9; 128]));
    assert_eq!(bytes(&arriving.take(1).expect("it came")), [9; 128]);
    arriving.registers(&registers(2, PAGE + 0x1100, &[]));
    assert_eq!(bytes(&arriving.take(2).expect("it came")), [0_u8; 0]);
}

#[test]
fn a_page_that_could_not_be_read_is_zero() {
    let mut arriving = Arriving::default();
    let sent = [(PAGE, [1; 4096]), (PAGE + 0x2000, [3; 4096])];
    let taken = taken(&mut arriving, PAGE + 0x3000, &sent, &[1, 0, 3]);
    assert_eq!(bytes(&taken), [&[1; 0x200][..], &[0; 0x1000], &[3; 0x1000]].concat());
}

#[test]
fn a_page_that_holds_what_it_held_is_not_sent_again() {
    let mut arriving = Arriving::default();
    let sent = [(PAGE, [1; 4096]), (PAGE + 0x1000, [2; 4096])];
    let first = taken(&mut arriving, PAGE + 0x2000, &sent, &[1, 2]);
    let second = taken(&mut arriving, PAGE + 0x2000, &[(PAGE, [4; 4096])], &[4, 2]);
    assert_eq!(bytes(&first), [&[1; 0x200][..], &[2; 0x1000]].concat());
    assert_eq!(bytes(&second), [&[4; 0x200][..], &[2; 0x1000]].concat());
    assert_eq!(arriving.take_missing(), []);
}

#[test]
fn a_page_that_did_not_come_ends_what_is_known_and_is_asked_for() {
    let mut arriving = Arriving::default();
    let sent = [(PAGE, [1; 4096]), (PAGE + 0x2000, [3; 4096])];
    let cut = taken(&mut arriving, PAGE + 0x3000, &sent, &[1, 2, 3]);
    assert_eq!(bytes(&cut), [1; 0x200]);
    assert_eq!(arriving.take_missing(), [PageKey::new(TID, Avma(PAGE + 0x1000))]);
    // What lies after it came, though, and is known when the other one is.
    let whole = taken(&mut arriving, PAGE + 0x3000, &[(PAGE + 0x1000, [2; 4096])], &[1, 2, 3]);
    assert_eq!(bytes(&whole), [&[1; 0x200][..], &[2; 0x1000], &[3; 0x1000]].concat());
    // Another hash is another content.
    let other = taken(&mut arriving, PAGE + 0x3000, &[], &[1, 2, 4]);
    assert_eq!(bytes(&other), [&[1; 0x200][..], &[2; 0x1000]].concat());
}

#[test]
fn pages_and_samples_of_others_do_not_meet() {
    let mut arriving = Arriving::default();
    let other = 1 << 40;
    arriving.page(&page(1, PAGE, 1, &[1; 4096]));
    arriving.registers(&registers(2, 0, &[9; 128]));
    arriving.page(&page(1, PAGE, 1, &[1; 4096]));
    arriving.page(&page(other | 2, PAGE, 2, &[2; 4096]));
    assert!(arriving.by_buffer[&0].sent.is_empty());
    assert!(arriving.take(other | 2).is_none());
    assert!(arriving.take(3).is_none(), "its sample did not come");
    assert!(arriving.take(2).is_none(), "it was dropped with that");
}

#[test]
fn a_sample_without_a_snapshot_takes_none() {
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x1100, &[9; 128]));
    assert!(arriving.take(0).is_none());
    assert_eq!(bytes(&arriving.take(1).expect("the other one is still there")), [9; 128]);
}

#[test]
fn a_sample_that_interrupts_another_finds_the_pages_that_were_just_sent() {
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x1000, &[9; 128]));
    arriving.page(&page(1, PAGE, 5, &[5; 4096]));
    let inner = (1 << 40) | 1;
    arriving.registers(&registers(inner, PAGE + 0x1000, &[8; 128]));
    let hashes = 5_u64.to_ne_bytes();
    let stack = Stack { snapshot: 1, low: Avma(SP), high: Avma(PAGE + 0x1000), tid: TID, hashes: &hashes };
    arriving.stack(&Stack { snapshot: inner, ..stack });
    assert_eq!(bytes(&arriving.take(inner).expect("it came")), [5; 0x200]);
    arriving.stack(&stack);
    assert_eq!(bytes(&arriving.take(1).expect("it came")), [5; 0x200]);
}

#[test]
fn stacks_are_counted_from_their_end_or_from_that_of_the_copy() {
    let of = |stack_end| {
        let mut arriving = Arriving::default();
        arriving.registers(&registers(1, stack_end, &[9; 128]));
        arriving.take(1).expect("it came").anchor().0
    };
    assert_eq!(of(SP + 0x9000), SP + 0x9000);
    assert_eq!(of(0), SP + 128, "the end is not known");
    assert_eq!(of(SP - 8), SP + 128, "it cannot be");
    assert_eq!(of(SP + (1 << 33)), SP + 128, "the distance is no stack's");
}

#[test]
fn stacks_further_out_come_in_their_order() {
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x1100, &[9; 128]));
    for (snapshot, byte) in [(2, 7), (3, 8)] {
        let top = [byte; 128];
        arriving.registers(&Registers { is_outer: true, ..registers(snapshot, PAGE + 0x1100, &top) });
    }
    arriving.stack(&Stack { snapshot: 3, low: Avma(SP), high: Avma(SP + 8), tid: TID, hashes: &[0; 8] });
    let taken = arriving.take(1).expect("it came");
    assert_eq!(taken.outer.iter().map(bytes).collect::<Vec<_>>(), [vec![7; 128], vec![0; 8]]);
}

#[test]
fn pages_that_somebody_has_are_counted_however_they_came() {
    let mut arriving = Arriving::with_room(3 * 4096);
    let first =
        taken(&mut arriving, PAGE + 0x2000, &[(PAGE, [1; 4096]), (PAGE + 0x1000, [2; 4096])], &[1, 2]);
    let list = size_of::<(u64, Option<Page>)>();
    assert_eq!(arriving.alive.total(), 2 * 4096 + 2 * list);
    // The outer page is the first one's; the inner one is new, and takes the last room.
    let second = taken(&mut arriving, PAGE + 0x2000, &[(PAGE, [3; 4096])], &[3, 2]);
    drop(first);
    assert_eq!(arriving.alive.total(), 2 * 4096 + 2 * list, "the first one's inner page is gone");
    let third =
        taken(&mut arriving, PAGE + 0x2000, &[(PAGE, [4; 4096]), (PAGE + 0x1000, [5; 4096])], &[4, 5]);
    assert_eq!(bytes(&third), [4; 0x200], "there was room for one page");
    assert_eq!((arriving.take_refused(), arriving.take_refused()), (1, 0));
    assert_eq!(bytes(&second), [&[3; 0x200][..], &[2; 0x1000]].concat());
    drop((second, third));
    assert_eq!(arriving.alive.total(), 2 * 4096, "what may be needed again is kept");
}
