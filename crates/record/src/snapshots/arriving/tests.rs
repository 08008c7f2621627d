use super::*;

const CPU: u32 = 3;
/// In the middle of a page.
const SP: u64 = 0x7ffd_0000_0e00;
const PAGE: u64 = 0x7ffd_0000_0000;

fn registers(snapshot: u64, stack_end: u64, wanted: u32, top: &[u8]) -> Registers<'_> {
    let mut values = [0; REGISTER_COUNT];
    values[STACK_POINTER] = SP;
    Registers { cpu: CPU, snapshot, values, stack_end, wanted, top }
}

fn page(snapshot: u64, address: u64, bytes: &[u8]) -> StackPage<'_> {
    StackPage { cpu: CPU, snapshot, address, bytes }
}

#[test]
fn a_stack_begins_at_its_stack_pointer_and_ends_where_it_was_to_end() {
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x1100, 0x300, &[9; 128]));
    // Below the stack pointer lies what nobody uses any more; behind the end, arguments of the program.
    let first: Vec<u8> = (0..4096_u32).map(|at| if at < 0xe00 { 1 } else { (at / 16) as u8 }).collect();
    arriving.page(&page(1, PAGE, &first));
    arriving.page(&page(1, PAGE + 0x1000, &[3; 4096]));
    let taken = arriving.take(CPU, 1).expect("it came");
    assert_eq!(taken.bytes, [&first[0xe00..], &[3; 0x100]].concat());
    assert_eq!((taken.stack_pointer(), taken.anchor()), (SP, PAGE + 0x1100));
}

#[test]
fn without_pages_there_is_the_top() {
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x1100, 0, &[9; 128]));
    assert_eq!(arriving.take(CPU, 1).expect("it came").bytes, [9; 128]);
    arriving.registers(&registers(2, PAGE + 0x1100, 0, &[]));
    assert_eq!(arriving.take(CPU, 2).expect("it came").bytes, []);
}

#[test]
fn a_page_that_could_not_be_read_is_zero() {
    let mut arriving = Arriving::default();
    arriving.registers(&registers(1, PAGE + 0x3000, 0x2200, &[9; 128]));
    arriving.page(&page(1, PAGE, &[1; 4096]));
    arriving.page(&page(1, PAGE + 0x2000, &[3; 4096]));
    let taken = arriving.take(CPU, 1).expect("it came");
    assert_eq!(taken.bytes, [&[1; 0x200][..], &[0; 0x1000], &[3; 0x1000]].concat());
}

#[test]
fn pages_and_samples_of_others_do_not_meet() {
    let mut arriving = Arriving::default();
    arriving.page(&page(1, PAGE, &[1; 4096]));
    arriving.registers(&registers(2, 0, 0x200, &[9; 128]));
    arriving.page(&page(1, PAGE, &[1; 4096]));
    arriving.page(&StackPage { cpu: CPU + 1, ..page(2, PAGE, &[2; 4096]) });
    assert_eq!(arriving.by_cpu[&CPU].1.bytes.len(), 128);
    assert_eq!(arriving.take(CPU + 1, 2), None);
    assert_eq!(arriving.take(CPU, 3), None, "its sample did not come");
    assert_eq!(arriving.take(CPU, 2), None, "it was dropped with that");
}

#[test]
fn stacks_are_counted_from_their_end_or_from_that_of_the_copy() {
    let of = |stack_end, wanted| {
        let mut arriving = Arriving::default();
        arriving.registers(&registers(1, stack_end, wanted, &[9; 128]));
        arriving.page(&page(1, PAGE, &[1; 4096]));
        arriving.take(CPU, 1).expect("it came").anchor()
    };
    assert_eq!(of(SP + 0x9000, 0x200), SP + 0x9000);
    assert_eq!(of(0, 0x200), SP + 0x200, "the end is not known");
    assert_eq!(of(SP - 8, 0x200), SP + 0x200, "it cannot be");
    assert_eq!(of(SP + (1 << 33), 0x200), SP + 0x200, "the distance is no stack's");
}

#[test]
fn memory_is_used_again_and_not_piled_up() {
    let mut arriving = Arriving::default();
    for _ in 0..1000 {
        arriving.reuse(Vec::with_capacity(4096));
        arriving.reuse(Vec::new());
    }
    assert_eq!(arriving.spare.len(), MAX_SPARE);
    arriving.reuse(vec![7; 4096]);
    arriving.registers(&registers(1, 0, 0, &[9; 128]));
    assert_eq!(arriving.spare.len(), MAX_SPARE - 1);
    assert_eq!(arriving.take(CPU, 1).expect("it came").bytes, [9; 128], "nothing is left of another stack");
}
