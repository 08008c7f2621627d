//! Finds where fields lie in the raw data of a tracepoint, by what perf noted of tracefs.

/// The fields of `sched:sched_switch` that make waits of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct SwitchFields {
    /// What the thread that leaves the CPU does.
    prev_state: Field,
    /// The next thread.
    next_pid: Field,
}

/// A number: its offset and length, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    off: usize,
    len: usize,
}

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Switch {
    /// What the thread that leaves the CPU does, bits as the tracepoint has them.
    pub(in super::super) prev_state: u64,
    /// The next thread.
    pub(in super::super) next_tid: u32,
}

impl SwitchFields {
    /// Finds the fields; `None` if perf has noted none.
    ///
    /// # Source
    /// Linux `tools/perf/util/trace-event-info.c`: the files `format` of tracefs, as they are, among other texts
    pub(super) fn find(tracing: &[u8]) -> Option<Self> {
        const NAME: &[u8] = b"name: sched_switch\n";
        let at = tracing.windows(NAME.len()).position(|window| window == NAME)?;
        let format = &tracing[at + NAME.len()..];
        let end = format.windows(9).position(|window| window == b"print fmt")?;
        let format = std::str::from_utf8(&format[..end]).ok()?;
        Some(Self {
            prev_state: Field::find(format, "prev_state")?,
            next_pid: Field::find(format, "next_pid")?,
        })
    }

    /// Reads a switch; `None` if the raw data is too short.
    pub(in super::super) fn switch(self, raw: &[u8]) -> Option<Switch> {
        Some(Switch { prev_state: self.prev_state.of(raw)?, next_tid: self.next_pid.of(raw)? as u32 })
    }
}

impl Field {
    /// Finds a line `field:long prev_state; offset:32; size:8; signed:1;`, with tabs between.
    fn find(format: &str, name: &str) -> Option<Self> {
        let words = |line: &str| -> Option<Self> {
            let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
            (parts.next()?.rsplit(' ').next()? == name).then_some(())?;
            let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
            Some(Self { off: number("offset:")?, len: number("size:")? })
        };
        format.lines().find_map(words).filter(|field| matches!(field.len, 4 | 8))
    }

    fn of(self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.off..self.off.checked_add(self.len)?)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::*;

    /// What perf notes of the tracepoint, behind other texts.
    pub(in super::super::super) const TRACING: &[u8] =
        b"\x17\x08\x44tracing0.6\0...name: sched_wakeup\nID: 1\nformat:\n\tfield:pid_t next_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        print fmt: x\nname: sched_switch\nID: 77\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\nprint fmt: \"prev_comm=%s\"\n";

    #[test]
    fn fields_lie_where_tracefs_says() {
        let fields = SwitchFields::find(TRACING).expect("it is there");
        assert_eq!(
            (fields.prev_state, fields.next_pid),
            (Field { off: 32, len: 8 }, Field { off: 56, len: 4 })
        );
        let mut raw = [0; 60];
        (raw[32], raw[33], raw[56], raw[57]) = (2, 1, 7, 1);
        assert_eq!(fields.switch(&raw), Some(Switch { prev_state: 0x102, next_tid: 0x107 }));
        assert_eq!(fields.switch(&raw[..59]), None);
        for end in 0..TRACING.len() - 30 {
            assert_eq!(SwitchFields::find(&TRACING[..end]), None, "{end}");
        }
        let text = String::from_utf8_lossy(TRACING);
        for (from, to) in [("size:8", "size:3"), ("offset:32", "offset:x"), ("next_pid", "other")] {
            assert_eq!(SwitchFields::find(text.replace(from, to).as_bytes()), None, "{from}");
        }
        let far = text.replace("offset:32", "offset:18446744073709551615");
        assert_eq!(SwitchFields::find(far.as_bytes()).expect("numbers").switch(&raw), None);
    }
}
