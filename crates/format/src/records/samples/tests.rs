use super::*;
use crate::records::Payload as _;

fn read_back(rows: &[Sample], basis: &Basis) -> Vec<Sample> {
    let bytes = SamplesV1::from_rows(rows, basis).expect("in order").to_bytes().expect("fits");
    SamplesV1::view(&bytes).expect("own bytes").rows().expect("own rows")
}

proptest::proptest! {
    #[test]
    fn samples_survive_a_round_trip_whatever_they_are_measured_from(
        rows in proptest::collection::vec((0_u64..1 << 40, 0_u16..5, 0_u32..90, 0_u32..50, 0_u32..50), 0..300),
        period_ns: u64,
        newest_stack in 0_u32..60,
    ) {
        let row = |(time_ns, cpu, task, user_stack, kernel_stack): (u64, u16, u32, u32, u32)| Sample {
            time_ns,
            cpu,
            event: (task % 3) as u8,
            user_end: WalkEnd((user_stack % 9) as u8),
            kernel_end: WalkEnd((time_ns % 9) as u8),
            task,
            user_stack,
            kernel_stack,
            weight: time_ns ^ u64::from(task), snapshot: 0, repair: StackRepair::NONE };
        let mut rows: Vec<Sample> = rows.into_iter().map(row).collect();
        rows.sort_by_key(|row| row.time_ns);
        let basis = Basis { period_ns, newest_stack, ..Basis::default() };
        proptest::prop_assert_eq!(read_back(&rows, &basis), rows.clone());
        let basis = Basis { unit_ns: 1_000, ..basis };
        rows.iter_mut().for_each(|row| row.time_ns -= row.time_ns % 1_000);
        proptest::prop_assert_eq!(read_back(&rows, &basis), rows);
    }
}

#[test]
fn samples_out_of_order_are_refused() {
    let row = |time_ns| Sample {
        time_ns,
        cpu: 0,
        event: 0,
        user_end: WalkEnd::NONE,
        kernel_end: WalkEnd::NONE,
        task: 0,
        user_stack: 0,
        kernel_stack: 0,
        weight: 1,
        snapshot: 0,
        repair: StackRepair::NONE,
    };
    let error = SamplesV1::from_rows(&[row(10), row(5)], &Basis::default()).expect_err("backwards");
    assert!(error.to_string().contains("cannot follow"), "{error}");
}
