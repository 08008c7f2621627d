//! Reads perf's description of machine and recording: feature sections, or records of a stream.

use super::attr::Attr;
use super::bytes::Bytes;
use super::tracing::SwitchFields;

/// Numbers of features.
mod number {
    pub(super) const TRACING_DATA: u32 = 1;
    pub(super) const BUILD_ID: u32 = 2;
    pub(super) const HOSTNAME: u32 = 3;
    pub(super) const OS_RELEASE: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCH: u32 = 6;
    pub(super) const COMMAND_LINE: u32 = 11;
    pub(super) const EVENT_DESC: u32 = 12;
    pub(super) const CLOCK_DATA: u32 = 29;
}

/// `misc` of a build-id: the record has its length.
const MISC_LEN: u16 = 1 << 15;
/// `misc`: the record belongs to the kernel or a module.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// perf's names for the kernel itself.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// The features that the import needs.
#[derive(Debug, Default)]
pub(in super::super) struct Features {
    pub(in super::super) host: String,
    pub(in super::super) kernel_release: String,
    pub(in super::super) perf_version: String,
    pub(in super::super) arch: String,
    pub(in super::super) command_line: Vec<String>,
    /// Path and build-id of files of user space.
    pub(in super::super) build_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub(in super::super) kernel_build_id: Vec<u8>,
    /// One moment on two clocks: since 1970, and that of the records, ns.
    pub(in super::super) clock_ns: Option<(u64, u64)>,
    /// Where `sched:sched_switch` has its fields.
    pub(in super::super) switch: Option<SwitchFields>,
}

impl Features {
    pub(super) fn is_wanted(feature: u32) -> bool {
        matches!(
            feature,
            number::TRACING_DATA
                ..=number::ARCH | number::COMMAND_LINE | number::EVENT_DESC | number::CLOCK_DATA
        )
    }

    /// Reads a feature; `None` if it is truncated.
    pub(super) fn take(&mut self, feature: u32, bytes: &[u8], attrs: &mut [Attr]) -> Option<()> {
        let mut bytes = Bytes(bytes);
        match feature {
            number::TRACING_DATA => self.switch = SwitchFields::find(bytes.0),
            number::BUILD_ID => self.build_ids(bytes)?,
            number::HOSTNAME => self.host = bytes.header_text()?,
            number::OS_RELEASE => self.kernel_release = bytes.header_text()?,
            number::VERSION => self.perf_version = bytes.header_text()?,
            number::ARCH => self.arch = bytes.header_text()?,
            number::COMMAND_LINE => {
                let count = bytes.u32()?;
                self.command_line = (0..count).map_while(|_| bytes.header_text()).collect();
            }
            number::EVENT_DESC => event_names(bytes, attrs)?,
            number::CLOCK_DATA => {
                bytes.u64()?;
                self.clock_ns = Some((bytes.u64()?, bytes.u64()?));
            }
            _ => {}
        }
        Some(())
    }

    /// Reads a list of records with one build-id each.
    fn build_ids(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        while !bytes.0.is_empty() {
            let (_, misc, len) = (bytes.u32()?, bytes.u16()?, bytes.u16()?);
            self.build_id(misc, bytes.take(usize::from(len).checked_sub(8)?)?)?;
        }
        Some(())
    }

    /// Reads the build-id of one file: process, 24 bytes, path.
    pub(super) fn build_id(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let mut bytes = Bytes(body);
        bytes.u32()?;
        let id = bytes.take(24)?;
        // Old versions do not store the length: build-ids do not end with four zeros.
        let len = match misc & MISC_LEN {
            0 => (0..=20).rev().step_by(4).find(|len| *len == 0 || id[len - 4..*len] != [0; 4]).unwrap_or(0),
            _ => usize::from(id[20]).min(20),
        };
        let (path, id) = (bytes.text().to_vec(), id[..len].to_vec());
        match misc & MODE {
            MODE_KERNEL if path == KERNEL => self.kernel_build_id = id,
            MODE_KERNEL => {}
            _ if id.is_empty() => {}
            _ => self.build_ids.push((path, id)),
        }
        Some(())
    }
}

/// Reads the names of events, which are in the order of the attributes.
fn event_names(mut bytes: Bytes<'_>, attrs: &mut [Attr]) -> Option<()> {
    let (count, attr_len) = (bytes.u32()?, bytes.u32()? as usize);
    for attr in attrs.iter_mut().take(count as usize) {
        bytes.take(attr_len)?;
        let ids = bytes.u32()?;
        attr.name = bytes.header_text()?;
        bytes.words(u64::from(ids))?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_id(misc: u16, id: &[u8; 24], path: &[u8]) -> Vec<u8> {
        let len = (8 + 4 + 24 + path.len()) as u16;
        let head = [&67_u32.to_le_bytes()[..], &misc.to_le_bytes(), &len.to_le_bytes(), &[0xff; 4]].concat();
        [&head[..], id, path].concat()
    }

    #[test]
    fn build_ids_have_the_length_that_they_had() {
        let mut id = [0; 24];
        id[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 0]);
        let mut told = id;
        told[20] = 6;
        let (user, kernel) = (2, 1);
        let list = [
            build_id(user, &id, b"/bin/a\0\0"),
            build_id(user | MISC_LEN, &told, b"/bin/b\0\0"),
            build_id(user, &[0; 24], b"/bin/c\0"),
            build_id(kernel, &id, b"[kernel.kallsyms]\0"),
            build_id(kernel, &told, b"/lib/modules/x.ko\0"),
        ];
        let mut features = Features::default();
        features.take(number::BUILD_ID, &list.concat(), &mut []).expect("whole");
        let ids: Vec<(&[u8], &[u8])> =
            features.build_ids.iter().map(|(path, id)| (&path[..], &id[..])).collect();
        assert_eq!(ids, [(&b"/bin/a"[..], &id[..8]), (&b"/bin/b"[..], &id[..6])]);
        assert_eq!(features.kernel_build_id, id[..8]);
        let cut = list.concat();
        assert!(features.take(number::BUILD_ID, &cut[..cut.len() - 1], &mut []).is_none());
    }

    #[test]
    fn a_list_that_claims_more_than_there_is_ends_with_what_is_there() {
        let mut features = Features::default();
        let bytes = [&u32::MAX.to_le_bytes()[..], &4_u32.to_le_bytes(), b"perf"].concat();
        features.take(number::COMMAND_LINE, &bytes, &mut []).expect("some");
        assert_eq!(features.command_line, ["perf"]);
        let attrs = &mut [Attr::default()];
        assert!(features.take(number::EVENT_DESC, &[0xff; 16], attrs).is_none());
    }
}
