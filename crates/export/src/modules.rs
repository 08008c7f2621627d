//! Images as the Firefox Profiler names them: a debug name and a debug id, and addresses that are relative to the first segment.

use std::collections::BTreeSet;

use debugid::DebugId;
use icecore_elf::{Machine, Svma};
use icecore_profile::map::Map;
use icecore_profile::named::names::short;
use icecore_profile::stacks::locate::{CodeLocation, Located, Locator};
use icecore_symbolize::image::{FileOff, Finder, Identity, Layout, hex};
use ring::digest::{SHA256, digest};

/// An image of a recording.
#[derive(Debug)]
pub struct Module {
    /// The recording, a position.
    pub recording: usize,
    /// The image, a position in [`Locator::images`].
    pub image: u32,
    /// The path as the process saw it.
    pub path: String,
    /// The last part of the path.
    pub debug_name: String,
    /// What tells the image from others.
    pub debug_id: DebugId,
    /// The build-id; empty if there is none.
    pub code_id: String,
    /// Where its code lies, if its file is available.
    layout: Option<Layout>,
}

/// The modules of all recordings.
#[derive(Debug, Default)]
pub struct Modules {
    /// Each once.
    pub all: Vec<Module>,
    /// By recording and image. Several images may be one module: files with one build-id and one name.
    of_images: Map<(usize, u32), u32>,
}

impl Modules {
    /// Adds all images of a recording that were hit.
    ///
    /// # Cost    opens their files
    pub fn add_all(
        &mut self,
        recording: usize,
        located: &Located,
        locator: &Locator<'_>,
        finder: &Finder<'_>,
    ) {
        let hit = located.places.iter().filter_map(|place| match place {
            CodeLocation::Image(image, _) => Some(*image),
            _ => None,
        });
        for image in hit.collect::<BTreeSet<u32>>() {
            let identity = &locator.images[image as usize];
            let layout = finder.look(identity).files.ok().map(|files| files.image.layout);
            self.add(Module::new((recording, image), identity, layout));
        }
    }

    fn add(&mut self, module: Module) {
        let image = (module.recording, module.image);
        let position = self.position(&module.debug_name, &module.debug_id.breakpad().to_string());
        let position = position.unwrap_or_else(|| {
            self.all.push(module);
            self.all.len() - 1
        });
        self.of_images.insert(image, position as u32);
    }

    /// Finds the module of an image, a position.
    pub fn of_image(&self, recording: usize, image: u32) -> Option<u32> {
        self.of_images.get(&(recording, image)).copied()
    }

    /// Finds a module by its debug name and its debug id, as the format of Breakpad has it.
    pub fn find(&self, debug_name: &str, debug_id: &str) -> Option<&Module> {
        self.position(debug_name, debug_id).map(|position| &self.all[position])
    }

    fn position(&self, debug_name: &str, debug_id: &str) -> Option<usize> {
        let debug_id = DebugId::from_breakpad(debug_id).ok()?;
        self.all.iter().position(|module| module.debug_name == debug_name && module.debug_id == debug_id)
    }

    /// Finds a module by its build-id.
    pub fn by_code_id(&self, code_id: &str) -> Option<&Module> {
        let is = |module: &&Module| !code_id.is_empty() && module.code_id.eq_ignore_ascii_case(code_id);
        self.all.iter().find(is)
    }
}

impl Module {
    fn new((recording, image): (usize, u32), identity: &Identity, layout: Option<Layout>) -> Self {
        // The Profiler takes no name with a slash, and no empty one.
        let name = short(&identity.path).replace('/', "_");
        Self {
            recording,
            image,
            path: identity.path.clone(),
            debug_name: if name.is_empty() { "unnamed".to_owned() } else { name },
            debug_id: debug_id(identity),
            code_id: hex(&identity.build_id),
            layout,
        }
    }

    /// Returns the address of code as the Profiler has it; `None` if it has no room for it, or the file is not available.
    pub fn address(&self, off: FileOff) -> Option<u32> {
        self.narrow(self.layout.as_ref()?.code(off)?)
    }

    /// Returns what an address in the image is for the Profiler; `None` as above.
    pub fn narrow(&self, at: Svma) -> Option<u32> {
        let address = at.0.checked_sub(self.layout.as_ref()?.begin().0)?;
        // The Profiler keeps signed numbers of 32 bits.
        i32::try_from(address).ok().map(i32::cast_unsigned)
    }

    /// Returns the offset of an address of code.
    pub fn off(&self, address: u64) -> Option<FileOff> {
        let layout = self.layout.as_ref()?;
        let at = Svma(layout.begin().0.checked_add(address)?);
        let (off, _) = layout.rest_of_segment(at).filter(|_| layout.is_code(at))?;
        Some(off)
    }

    /// Returns what an address in the image is for the Profiler.
    pub fn relative(&self, at: Svma) -> u64 {
        at.0.wrapping_sub(self.layout.as_ref().map_or(0, |layout| layout.begin().0))
    }

    /// Returns the name of the processor.
    pub fn arch(&self) -> Option<&'static str> {
        Machine::of_elf(self.layout.as_ref()?.machine.0).map(|machine| match machine {
            Machine::X86_64 => "x86_64",
            Machine::Aarch64 => "aarch64",
        })
    }
}

/// Makes a debug id of a build-id as every tool does for little-endian ELF; without one, of whatever tells the file from others.
fn debug_id(identity: &Identity) -> DebugId {
    if !identity.build_id.is_empty() {
        return of_bytes(&identity.build_id);
    }
    let Identity { path, size_bytes, modified_unix_ns, inode, .. } = identity;
    let text = format!("{path}\0{size_bytes}\0{modified_unix_ns}\0{inode:?}");
    of_bytes(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Makes a debug id of a build-id, as text.
pub(crate) fn breakpad_id(build_id: &[u8]) -> String {
    of_bytes(build_id).breakpad().to_string()
}

fn of_bytes(bytes: &[u8]) -> DebugId {
    let mut guid = [0; 16];
    let len = bytes.len().min(16);
    guid[..len].copy_from_slice(&bytes[..len]);
    // Its first three fields are little-endian numbers.
    DebugId::from_guid_age(&guid, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_symbolize::image::{Inode, Kind};

    #[test]
    fn a_debug_id_is_that_of_other_tools() {
        let build_id = (0x10..0x24).collect();
        let path = "/usr/bin/x".to_owned();
        let (kind, inode, has_double) = (Kind::File, None, false);
        let identity =
            Identity { kind, path, build_id, size_bytes: 0, modified_unix_ns: 0, inode, has_double };
        assert_eq!(
            debug_id(&identity).breakpad().to_string(),
            "1312111015141716 18191A1B1C1D1E1F0".replace(' ', "")
        );
        let nameless = Identity { build_id: Vec::new(), ..identity };
        let other = Identity { path: "/usr/bin/y".into(), ..nameless.clone() };
        let replaced = Identity { inode: Some(Inode { device: 1, number: 2 }), ..nameless.clone() };
        let ids = [&nameless, &other, &replaced].map(debug_id);
        assert!(ids[0] != ids[1] && ids[0] != ids[2], "{ids:?}");
    }
}
