//! Compares stacks of real programs, stopped anywhere: they reach a root, and framehop agrees where there are unwind tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use icecore_elf::Avma;
use icecore_unwind::{By, End, Frame, Limits, Machine, Modules, StackMemory, Unwinder};

use crate::images::Images;
use crate::running::{Snapshot, snapshots};

/// The number of stacks of each program.
const STACKS: usize = 500;

/// The results for the stacks of a program.
#[derive(Debug, Default)]
struct Tally {
    stacks: usize,
    frames: usize,
    rooted: usize,
    /// How the others end, and where.
    others: BTreeMap<String, usize>,
    /// framehop finds the same.
    equal: usize,
    /// framehop finds the same, but ends earlier.
    theirs_ends_before: usize,
    /// framehop continues where this library ends.
    ours_ends_before: usize,
    /// Another frame after code without unwind tables, where both can only guess.
    guesses: usize,
    /// framehop finds an address that is not code, and this library finds a frame.
    theirs_is_no_code: usize,
    /// Frames that framehop skips: it continues with one that this library finds further out. Where a function begins or ends,
    /// framehop judges by instructions, this library by the tables.
    theirs_skips: Vec<String>,
    /// Another frame after code with unwind tables.
    different: Vec<String>,
}

impl Tally {
    /// Runs a program. A stop at the wrong moment may end it early, which does not affect its stacks.
    fn of_program(command: &mut Command) -> Self {
        let mut tries = (0..3).map(|_| Self::of(&snapshots(command, STACKS)));
        let tally = tries.find(|tally| tally.stacks > STACKS / 4).expect("it runs for a while");
        println!("{}: {tally:#?}", command.get_program().display());
        tally
    }

    fn of(snapshots: &[Snapshot]) -> Self {
        let mut tally = Self::default();
        let mut unwinder = Unwinder::new(Limits::new(Machine::X86_64));
        let mut framehop = Framehop::default();
        for snapshot in snapshots {
            let mut frames = Vec::new();
            let registers = snapshot.registers.clone();
            let end = unwinder.unwind(registers, snapshot, &*snapshot.images, &mut frames);
            tally.count(&frames, end, &snapshot.images);
            tally.compare(&frames, &framehop.unwind(snapshot), &snapshot.images);
        }
        tally
    }

    fn count(&mut self, frames: &[Frame], end: End, images: &Images) {
        self.stacks += 1;
        self.frames += frames.len();
        if end == End::Root {
            self.rooted += 1;
        } else {
            let last = frames.last().map(|frame| images.symbol(frame.address.0)).unwrap_or_default();
            *self.others.entry(format!("{end:?} {last}")).or_default() += 1;
        }
    }

    fn compare(&mut self, ours: &[Frame], theirs: &[u64], images: &Images) {
        let same = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours.address.0 == **theirs).count();
        match (ours.get(same), theirs.get(same)) {
            (None, None) => self.equal += 1,
            (Some(_), None) => self.theirs_ends_before += 1,
            (None, Some(_)) => self.ours_ends_before += 1,
            (Some(Frame { by: By::TopOfStack | By::FramePointer, .. }), Some(_)) => self.guesses += 1,
            (Some(_), Some(other)) if images.find(Avma(*other)).is_none() => self.theirs_is_no_code += 1,
            (Some(frame), Some(other)) => {
                let outer = ours[same..].iter().any(|frame| frame.address.0 == *other);
                let [before, ours, theirs] =
                    [ours[same - 1].address.0, frame.address.0, *other].map(|at| images.symbol(at));
                let kind = if outer { &mut self.theirs_skips } else { &mut self.different };
                kind.push(format!("frame {same} behind {before}: {ours} and not {theirs}"));
            }
        }
    }
}

/// The other one, for images that change.
#[derive(Default)]
struct Framehop {
    engine: Option<Engine>,
}

type Engine = (Rc<Images>, UnwinderX86_64<&'static [u8]>, CacheX86_64);

impl Framehop {
    fn unwind(&mut self, snapshot: &Snapshot) -> Vec<u64> {
        let images = &snapshot.images;
        let known = self.engine.take().filter(|known| Rc::ptr_eq(&known.0, images));
        let (_, unwinder, cache) = self
            .engine
            .insert(known.unwrap_or_else(|| (images.clone(), images.framehop(), CacheX86_64::new())));
        let registers = &snapshot.registers;
        let rbp = registers.value(6).expect("all are known");
        let start = UnwindRegsX86_64::new(registers.pc().0, registers.sp().0, rbp);
        let mut read = |address| snapshot.read_u64(Avma(address)).map_err(drop);
        let mut frames = unwinder.iter_frames(registers.pc().0, start, cache, &mut read);
        let mut found = Vec::new();
        while let (Ok(Some(frame)), true) = (frames.next(), found.len() < 2000) {
            found.push(frame.address());
        }
        found
    }
}

#[test]
fn stacks_of_compilers_and_interpreters_reach_a_root() {
    let dir = tempfile::tempdir().expect("a folder");
    for mut command in [cc1(dir.path()), python(), rustc(dir.path())] {
        let tally = Tally::of_program(&mut command);
        // Where a program begins and ends there is one stack or two.
        assert!((tally.stacks - tally.rooted) * 100 <= tally.stacks + 200);
        assert!(tally.different.is_empty());
        assert!((tally.ours_ends_before + tally.theirs_skips.len()) * 100 <= tally.stacks + 200);
    }
}

#[test]
fn stacks_of_code_jit_names_reach_a_root_by_frame_pointers() {
    let script = "for (let i = 0; i < 300; i++) {
        JSON.parse(JSON.stringify(Array.from({ length: 5000 }, (_, j) => ({ a: j, b: String(j) }))));
        [...Array(20000).keys()].map(String).sort();
    }";
    let mut node = Command::new("node");
    node.args(["-e", script]);
    let tally = Tally::of_program(&mut node);
    assert!(tally.rooted * 100 >= tally.stacks * 97);
}

fn cc1(dir: &Path) -> Command {
    let path = Command::new("gcc").arg("-print-prog-name=cc1").output().expect("gcc is installed").stdout;
    let function = |i| {
        format!(
            "int f{i}(int a, int *b) {{ for (int i = 0; i < a; i++) b[i] += b[i ^ {i}] * a; return b[a]; }}\n"
        )
    };
    std::fs::write(dir.join("large.c"), (0..4000).map(function).collect::<String>()).expect("room");
    let mut cc1 = Command::new(String::from_utf8(path).expect("a path").trim());
    cc1.args(["-O2", "-quiet", "-o", "/dev/null"]).arg(dir.join("large.c"));
    cc1
}

fn python() -> Command {
    let script = "import json, re
for i in range(400):
    json.loads(json.dumps([{'a': j, 'b': str(j)} for j in range(2000)]))
    re.sub('a+b', 'c', 'aaab' * 5000)
    sorted(map(str, range(20000)), key=lambda text: text[::-1])";
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    python
}

fn rustc(dir: &Path) -> Command {
    let function = |i| {
        format!(
            "pub fn f{i}(v: &mut Vec<u64>) -> String {{ v.sort(); v.iter().map(|x| format!(\"{{x:?}}{i}\")).collect() }}\n"
        )
    };
    std::fs::write(dir.join("large.rs"), (0..600).map(function).collect::<String>()).expect("room");
    let mut rustc = Command::new("rustc");
    rustc.args(["-O", "--crate-type=lib", "-o"]).arg(dir.join("large.rlib")).arg(dir.join("large.rs"));
    rustc
}
