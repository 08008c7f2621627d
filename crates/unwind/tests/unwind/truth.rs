//! Compares unwound stacks with the true ones in every instruction of these programs.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use icecore_unwind::{End, Frame, Limits, Machine, Registers, Unwinder};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};

use crate::follow::{BREAKPOINT, Truth, is_call};
use crate::images::Images;
use crate::programs::{Program, compile};
use crate::stopped::{Memory, Victim, registers};

/// Functions that leave or enter stacks by other means than calls. In them, unwind tables describe the stack to which they switch.
const SWITCHES: [&str; 4] = ["__longjmp", "__start_context", "setcontext", "swapcontext"];
/// Functions that replace what their callers' registers were by those of a handler, on the stack, before they go there.
const LANDING: [&str; 2] = ["_Unwind_RaiseException", "_Unwind_Resume"];
/// Functions with wrong unwind tables: GCC computes the CFA of a function with dynamic alignment from r10 in its epilogue, but
/// still looks for the caller's rbp where rbp points, after rbp has been restored.
const WRONG: [(&str, &str); 1] = [("gcc", "aligned_alloca")];

/// The result for one program.
#[derive(Default)]
struct Tally {
    instructions: usize,
    exact: usize,
    framehop_exact: usize,
    deepest_bytes: u64,
    /// Stacks that need not be exact, by the function that is the reason.
    excused: BTreeMap<&'static str, usize>,
    /// The others.
    wrong: Vec<String>,
}

#[test]
fn stacks_are_exact_in_every_instruction() {
    let dir = tempfile::tempdir().expect("a folder");
    let programs = compile(dir.path());
    let queue = Mutex::new(programs.iter());
    // A process is traced by the thread that began to.
    let work = || {
        let next = || queue.lock().expect("nobody panics with it").next();
        std::iter::from_fn(next).map(|program| (program, follow(program))).collect::<Vec<_>>()
    };
    let tallies: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("all is well")).collect()
    });
    for (program, tally) in &tallies {
        let share = |exact: usize| 100.0 * exact as f64 / tally.instructions as f64;
        println!(
            "{:45} {:7} instructions, exact {:.3} %, framehop {:.3} %, up to {} KiB; {:?}",
            program.name,
            tally.instructions,
            share(tally.exact),
            share(tally.framehop_exact),
            tally.deepest_bytes / 1024,
            tally.excused,
        );
    }
    for (program, tally) in tallies {
        let wrong = &tally.wrong;
        assert!(
            wrong.is_empty(),
            "{}: {} wrong: {:#?}",
            program.name,
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
        let excused: usize = tally.excused.values().sum();
        assert_eq!(tally.exact + excused, tally.instructions);
        assert!(
            tally.instructions > 5000 && excused * 40 < tally.instructions,
            "{}: {excused}",
            program.name
        );
        assert!(
            program.name.starts_with('r') || program.name.contains("++") || tally.deepest_bytes > 64 << 10
        );
    }
}

/// Runs a program from one breakpoint to the next, and compares stacks after every instruction.
fn follow(program: &Program) -> Tally {
    let child = Command::new(&program.path).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut victim = Victim(child.expect("it runs"));
    let pid = victim.pid();
    ptrace::seize(pid, ptrace::Options::empty()).expect("a child of ours");
    victim.0.stdin.take().expect("piped").write_all(b"g").expect("it reads");
    assert_eq!(waitpid(pid, None), Ok(WaitStatus::Stopped(pid, Signal::SIGTRAP)), "{}", program.name);

    let memory = Memory::of(pid).expect("we may trace it");
    let mut judge = Judge::new(Images::of_process(pid, &memory.file));
    let mut truth = judge.begin(registers(pid).expect("it stands still"), &memory);
    let mut tally = Tally::default();
    let mut signal = None;
    loop {
        let before = registers(pid).expect("it stands still");
        let code = memory.word(before.pc().0).map(u64::to_le_bytes).expect("code");
        if code[0] == BREAKPOINT {
            return tally;
        }
        ptrace::step(pid, signal).expect("it goes on");
        memory.refresh();
        let was_signal = match waitpid(pid, None).expect("it stops") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => signal.take().is_some(),
            WaitStatus::Stopped(_, other) => {
                signal = Some(other);
                continue;
            }
            other => panic!("{}: {other:?}", program.name),
        };
        let now = registers(pid).expect("it stands still");
        let mut find = |sp| {
            // A stack that is not known was made meanwhile, and images may have been, too.
            judge = Judge::new(Images::of_process(pid, &memory.file));
            judge.images.writable(sp).expect("a stack can be written")
        };
        if was_signal {
            truth.interrupted((before.pc().0, before.sp().0), now.sp().0, &memory, &mut find);
        } else {
            truth.stepped(now.sp().0, is_call(code), &memory, &mut find);
        }
        tally.deepest_bytes = tally.deepest_bytes.max(truth.bytes(now.sp().0));
        judge.compare(&now, &memory, &truth.chain(now.pc().0), program, &mut tally);
    }
}

/// Both unwinders, and what they need.
struct Judge {
    images: Images,
    unwinder: Unwinder,
    frames: Vec<Frame>,
    framehop: (UnwinderX86_64<&'static [u8]>, CacheX86_64),
}

impl Judge {
    fn new(images: Images) -> Self {
        let framehop = (images.framehop(), CacheX86_64::new());
        let unwinder = Unwinder::new(Limits::new(Machine::X86_64));
        Self { images, unwinder, frames: Vec::new(), framehop }
    }

    /// Begins with the frames from `main` outwards, which are the same in every program.
    fn begin(&mut self, registers: Registers, memory: &Memory) -> Truth {
        let end = self.unwinder.unwind(registers, memory, &self.images, &mut self.frames);
        let outermost =
            self.frames.last().map(|frame| self.images.symbol(frame.address.0)).unwrap_or_default();
        assert!(end == End::Root && outermost.starts_with("_start+"), "{end:?} {outermost}");
        Truth::new(&self.frames, &self.images)
    }

    fn compare(
        &mut self,
        registers: &Registers,
        memory: &Memory,
        expected: &[u64],
        program: &Program,
        tally: &mut Tally,
    ) {
        self.frames.clear();
        let end = self.unwinder.unwind(registers.clone(), memory, &self.images, &mut self.frames);
        tally.instructions += 1;
        tally.framehop_exact += usize::from(self.framehop(registers, memory, expected.len()) == expected);
        let found: Vec<u64> = self.frames.iter().map(|frame| frame.address.0).collect();
        if found == expected && end == End::Root {
            tally.exact += 1;
        } else if let Some(excuse) = self.excuse(expected, program) {
            *tally.excused.entry(excuse).or_default() += 1;
        } else {
            let names = |chain: &[u64]| chain.iter().map(|at| self.images.symbol(*at)).collect::<Vec<_>>();
            tally.wrong.push(format!("{end:?} {:?} instead of {:?}", names(&found), names(expected)));
        }
    }

    fn excuse(&self, expected: &[u64], program: &Program) -> Option<&'static str> {
        let symbol = |at: &u64| self.images.symbol(*at).split('+').next().unwrap_or_default().to_owned();
        let leaf = symbol(&expected[0]);
        let wrong = WRONG.iter().filter(|(compiler, _)| program.name.starts_with(&format!("{compiler} ")));
        let leaves = SWITCHES.into_iter().chain(wrong.map(|wrong| wrong.1));
        leaves.into_iter().find(|name| leaf == *name).or_else(|| {
            LANDING.into_iter().find(|name| expected.iter().take(4).any(|at| symbol(at) == *name))
        })
    }

    /// Addresses as framehop finds them, one more than there are at most.
    fn framehop(&mut self, registers: &Registers, memory: &Memory, len: usize) -> Vec<u64> {
        let mut read = |address| memory.word(address).ok_or(());
        let rbp = registers.value(6).expect("all are known");
        let start = UnwindRegsX86_64::new(registers.pc().0, registers.sp().0, rbp);
        let (unwinder, cache) = &mut self.framehop;
        let mut frames = unwinder.iter_frames(registers.pc().0, start, cache, &mut read);
        let mut found = Vec::new();
        while let (Ok(Some(frame)), true) = (frames.next(), found.len() <= len) {
            found.push(frame.address());
        }
        found
    }
}
