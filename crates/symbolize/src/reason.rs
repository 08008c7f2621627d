//! Why a frame has no name.

use std::fmt;

/// Why a frame has no name: what is missing, not what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No executable mapping held the address at that time.
    Unmapped,
    /// Nothing lies at the recorded path, or the file that ran was deleted.
    ImageMissing,
    /// A directory, device, FIFO or pseudo file lies at the recorded path.
    NotAFile,
    /// The file has another build-id: it is another build.
    BuildIdMismatch,
    /// There is no build-id, and size or modification time differ.
    ImageChanged,
    /// There is no build-id, and a file of the same size and time lies there, but it is not the file that was recorded.
    ImageUnproven,
    /// A file lies there, and the recording has neither its build-id nor its size: nothing tells whether it is the one that ran.
    ImageUnknown,
    /// The file cannot be opened, or is broken, or is no ELF file.
    ImageUnreadable,
    /// The file may not be opened: not even root may, if it is on FUSE without `allow_other`, or on NFS with `root_squash`.
    ImageDenied,
    /// The file system of the file, or one on the way to it, did not answer in time (FUSE, NFS).
    NoAnswer,
    /// The image is the right one, and neither symbols nor DWARF cover the address.
    NoSymbol,
    /// JIT code, in anonymous memory.
    Jit,
    /// The kernel's own page in user space.
    Vdso,
    /// Another mapping without a file, such as `[vsyscall]` or `[uprobes]`.
    Special,
    /// The recording has no kernel symbol for the address.
    KernelSymbolMissing,
    /// The recorder could not keep the rest of the stack.
    StackLost,
    /// An interpreter ran it, and the code was gone when the recorder read its name.
    CodeGone,
}

impl Reason {
    /// All reasons, in the order of declaration: `ALL[reason as usize] == reason`.
    pub const ALL: [Self; 17] = [
        Self::Unmapped,
        Self::ImageMissing,
        Self::NotAFile,
        Self::BuildIdMismatch,
        Self::ImageChanged,
        Self::ImageUnproven,
        Self::ImageUnknown,
        Self::ImageUnreadable,
        Self::ImageDenied,
        Self::NoAnswer,
        Self::NoSymbol,
        Self::Jit,
        Self::Vdso,
        Self::Special,
        Self::KernelSymbolMissing,
        Self::StackLost,
        Self::CodeGone,
    ];

    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Names the reason in JSON; these texts never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unmapped => "unmapped",
            Self::ImageMissing => "image_missing",
            Self::NotAFile => "not_a_file",
            Self::BuildIdMismatch => "build_id_mismatch",
            Self::ImageChanged => "image_changed",
            Self::ImageUnproven => "image_unproven",
            Self::ImageUnknown => "image_unknown",
            Self::ImageUnreadable => "image_unreadable",
            Self::ImageDenied => "image_denied",
            Self::NoAnswer => "no_answer",
            Self::NoSymbol => "no_symbol",
            Self::Jit => "jit",
            Self::Vdso => "vdso",
            Self::Special => "special",
            Self::KernelSymbolMissing => "kernel_symbol_missing",
            Self::StackLost => "stack_lost",
            Self::CodeGone => "code_gone",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmapped => "no mapping at this address",
            Self::ImageMissing => "file is gone",
            Self::NotAFile => "not a regular file",
            Self::BuildIdMismatch => "file is another build",
            Self::ImageChanged => "file changed since the recording",
            Self::ImageUnproven => "another file of the same size and time lies there",
            Self::ImageUnknown => "nobody knows whether the file there is the one that ran",
            Self::ImageUnreadable => "file cannot be read",
            Self::ImageDenied => "file may not be opened",
            Self::NoAnswer => "file system did not answer in time",
            Self::NoSymbol => "no symbol",
            Self::Jit => "JIT code",
            Self::Vdso => "vdso",
            Self::Special => "special mapping",
            Self::KernelSymbolMissing => "no kernel symbol",
            Self::StackLost => "stack lost",
            Self::CodeGone => "code that was gone when its name was read",
        })
    }
}

impl std::error::Error for Reason {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_is_in_order_with_distinct_texts() {
        for (i, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason as usize, i);
            let snake = format!("{reason:?}").chars().fold(String::new(), |mut text, c| {
                if c.is_uppercase() && !text.is_empty() {
                    text.push('_');
                }
                text.extend(c.to_lowercase());
                text
            });
            assert_eq!(reason.code(), snake);
        }
        let phrases: HashSet<_> = Reason::ALL.iter().map(Reason::to_string).collect();
        assert_eq!(phrases.len(), Reason::COUNT);
    }
}
