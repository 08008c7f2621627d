//! Which machine frames run which functions, where nothing but their number tells it.
//!
//! Each run of the eval loop has a machine frame in it. So the runs and these frames belong together one by one, from the outside on. If there are
//! not as many of both, nobody knows which one has no partner, and nothing is said about this stack: a run is being entered or left (PHP gives back
//! what a function has kept while its run is still on the stack), or functions are missing in the list (generators, fibers, long lists).

use std::ops::Range;

use super::Shown;
use crate::kernel::wire::InterpretedFrame;

/// Notes the machine frames that run the functions of a thread; of its stack, leaf first, all addresses are known.
pub(super) fn place(
    frames: &mut [InterpretedFrame],
    shown: &[Shown],
    machine: impl Iterator<Item = u64>,
    eval: &Range<u64>,
) {
    let mut in_eval: Vec<usize> = Vec::new();
    for (position, address) in machine.enumerate() {
        // A call may be the last instruction of the loop.
        if eval.contains(&address.saturating_sub(u64::from(position > 0))) {
            in_eval.push(position);
        }
    }
    let ends: Vec<usize> = (0..frames.len())
        .filter(|at| frames[*at].is_entered && !matches!(shown[*at], Shown::Builtin(_) | Shown::Nothing))
        .collect();
    let are_lists = frames.iter().filter(|frame| frame.is_innermost).count();
    if are_lists != 1 || in_eval.len() != ends.len() {
        return;
    }
    for (end, position) in ends.into_iter().zip(in_eval) {
        frames[end].machine_frame = position + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVAL: Range<u64> = 0x100..0x200;

    /// Places functions, each with what is shown and whether native code called it; returns the positions, from 1.
    fn placed(functions: &[(Shown, bool)], machine: &[u64]) -> Vec<usize> {
        let frame = |(at, (_, is_entered)): (usize, &(Shown, bool))| InterpretedFrame {
            code: 8,
            instruction: 0,
            check: 0,
            machine_frame: 0,
            is_innermost: at == 0,
            is_entered: *is_entered,
            is_in_registers: false,
        };
        let mut frames: Vec<_> = functions.iter().enumerate().map(frame).collect();
        let shown: Vec<Shown> = functions.iter().map(|it| it.0).collect();
        place(&mut frames, &shown, machine.iter().copied(), &EVAL);
        frames.iter().map(|frame| frame.machine_frame).collect()
    }

    #[test]
    fn runs_and_frames_of_the_loop_belong_together_from_the_outside_on() {
        let (own, builtin) = (Shown::Function(1), Shown::Builtin(1));
        let functions = [(own, false), (own, true), (builtin, true), (own, true)];
        // The last byte of the loop may be that of a call.
        assert_eq!(placed(&functions, &[0x10, 0x150, 0x20, 0x200, 0x30]), [0, 2, 0, 4]);
        assert_eq!(placed(&functions, &[0x110, 0x20, 0x200]), [0, 1, 0, 3]);
    }

    #[test]
    fn what_does_not_agree_is_placed_nowhere() {
        let own = Shown::Function(1);
        let functions = [(own, true), (own, true)];
        assert_eq!(placed(&functions, &[0x10, 0x150]), [0, 0]);
        assert_eq!(placed(&functions, &[0x10, 0x150, 0x150, 0x150]), [0, 0]);
        assert_eq!(placed(&functions, &[0x100, 0x150, 0x150]), [0, 0]);
    }
}
