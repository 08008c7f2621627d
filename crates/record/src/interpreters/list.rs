//! Where an interpreter has the list of its frames: what the sampler must know (`struct interpreter`, bpf/wire.h).

/// Offsets in bytes; 0 of what a version does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct List {
    pub(super) first_interpreter: u32,
    pub(super) next_interpreter: u32,
    pub(super) threads: u32,
    pub(super) next_thread: u32,
    pub(super) thread: u32,
    /// In a thread: the innermost frame, or run of the eval loop if it `has_runs`.
    pub(super) frame: u32,
    pub(super) has_runs: bool,
    pub(super) run_frame: u32,
    /// Whether a run leads to the next one outwards, and where (3.11).
    pub(super) outer_run: u32,
    pub(super) previous: u32,
    pub(super) code: u32,
    pub(super) instruction: u32,
    /// The bits of a frame, and which of them it has if it is the outermost one of a run; 0 if its address tells that.
    pub(super) flags: u32,
    pub(super) entered: u32,
    /// The size of what holds all this.
    pub(super) frame_bytes: u32,
    /// By DWARF's numbers.
    pub(super) frame_register: u32,
    pub(super) instruction_register: u32,
    pub(super) number: u32,
    /// 0 if the number alone tells a function from others at its address.
    pub(super) file: u32,
    pub(super) name: u32,
    pub(super) class: u32,
    pub(super) class_name: u32,
    pub(super) lines: u32,
    pub(super) builtin: u32,
    pub(super) text_head: u32,
    pub(super) is_hash_first: bool,
    pub(super) characters: u32,
    pub(super) end_bytes: u32,
    pub(super) line: u32,
    /// Where functions have machine frames of their own.
    pub(super) shared: u32,
    pub(super) script: u32,
    pub(super) script_number: u32,
    pub(super) kind: u32,
    pub(super) bytecode_kind: u32,
}

impl List {
    /// How many bytes of a code object hold the fields that tell it from others.
    pub(super) fn code_bytes(&self) -> u32 {
        let words = [self.file, self.name, self.class, self.lines].map(|off| off + 8);
        words.into_iter().fold(self.number + 4, u32::max)
    }

    /// Encodes it; `runtime` is the address of the state of the interpreter.
    pub(super) fn bytes(&self, runtime: u64) -> Vec<u8> {
        let words = [
            self.first_interpreter,
            self.next_interpreter,
            self.threads,
            self.next_thread,
            self.thread,
            self.frame,
            u32::from(self.has_runs),
            self.run_frame,
            self.outer_run,
            self.previous,
            self.code,
            self.instruction,
            self.flags,
            self.entered,
            self.frame_bytes,
            self.frame_register,
            self.instruction_register,
            self.number,
            self.file,
            self.name,
            self.class,
            self.class_name,
            self.lines,
            self.code_bytes(),
            self.builtin,
            self.text_head,
            u32::from(self.is_hash_first),
            self.characters,
            self.end_bytes,
            self.line,
            self.shared,
            self.script,
            self.script_number,
            self.kind,
            self.bytecode_kind,
            0,
        ];
        runtime.to_ne_bytes().into_iter().chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect()
    }
}
