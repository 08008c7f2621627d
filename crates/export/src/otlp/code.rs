//! Code, and what else samples have: positions in the tables of the dictionary.

use icecore_format::records::Language;
use icecore_profile::named::waits::Waker;
use icecore_profile::stacks::locate::CodeLocation;
use icecore_symbolize::image::hex;

use super::dictionary::Dictionary;
use super::groups::{Identity, Key};
use super::messages::{Function, Line, Location, Mapping};
use crate::exported::{Exported, NO_STACK};

/// The key of a build-id.
const BUILD_ID: &str = "process.executable.build_id.gnu";

/// Code that was exported so far.
pub(super) struct Code<'a> {
    of: &'a Exported<'a>,
    pub(super) dictionary: Dictionary,
    /// The node of each site; `None` if it has none yet.
    nodes: Vec<Option<u32>>,
    /// The location of each place if it is sure and if it was guessed; 0 if it has none yet.
    locations: Vec<[i32; 2]>,
}

impl<'a> Code<'a> {
    /// Exports nothing yet.
    pub(super) fn new(of: &'a Exported<'a>) -> Self {
        let mut nodes = vec![None; of.sites.len()];
        nodes[0] = Some(0);
        Self { of, dictionary: Dictionary::new(), nodes, locations: vec![[0; 2]; of.located.places.len()] }
    }

    /// Exports what samples with a key refer to.
    pub(super) fn identity(&mut self, key: &Key) -> Identity {
        let (stack, attributes) = (self.stack(key.site), self.attributes(key));
        Identity { part: key.part, event: key.event, stack, attributes }
    }

    /// Returns the position of the stack of a site.
    fn stack(&mut self, site: u32) -> i32 {
        if site == 0 {
            return self.no_stack();
        }
        let of = self.of;
        let missing: Vec<u32> =
            of.walk(site).map(|(at, _)| at).take_while(|at| self.nodes[*at as usize].is_none()).collect();
        for at in missing.iter().rev() {
            let site = of.sites[*at as usize];
            let caller = self.nodes[site.caller as usize].expect("bug: callers come first");
            let location = self.location(site.place, site.guessed);
            self.nodes[*at as usize] = Some(self.dictionary.node(caller, location));
        }
        let node = self.nodes[site as usize].expect("bug: just numbered");
        self.dictionary.stack(node)
    }

    /// Returns the position of the stack of samples without one. Readers may drop samples without locations.
    fn no_stack(&mut self) -> i32 {
        let name = self.dictionary.text(NO_STACK);
        let function = self.dictionary.function(Function { name, ..Function::default() });
        let lines = vec![Line { function, line: 0 }];
        let location = self.dictionary.location(Location { lines, ..Location::default() });
        let node = self.dictionary.node(0, location);
        self.dictionary.stack(node)
    }

    /// Returns the positions of the attributes of samples.
    fn attributes(&mut self, key: &Key) -> Vec<i32> {
        let of = self.of;
        let thread = &of.report.profile.threads[key.thread as usize];
        let dictionary = &mut self.dictionary;
        let mut all = vec![
            dictionary.attribute("process.pid", thread.tgid),
            dictionary.attribute("process.executable.name", &*thread.process),
            dictionary.attribute("thread.id", thread.tid),
            dictionary.attribute("thread.name", &*thread.comm),
            dictionary.attribute("cpu.logical_number", u32::from(key.cpu)),
        ];
        let cgroup = of.report.loaded.cgroups.path(thread.cgroup);
        all.extend(cgroup.map(|path| dictionary.attribute("icecore.cgroup", path)));
        if let Some(wait) = key.wait.map(|wait| &of.report.profile.waits[wait as usize]) {
            all.push(dictionary.attribute("icecore.wait.kind", &*wait.kind.name()));
            match &wait.waker {
                Waker::Thread(waker) => {
                    all.push(dictionary.attribute("icecore.waker.name", &*waker.comm));
                    all.push(dictionary.attribute("icecore.waker.thread.id", waker.tid));
                }
                other => {
                    let words = other.words().unwrap_or_default();
                    all.push(dictionary.attribute("icecore.waker.name", words));
                }
            }
        }
        let incomplete =
            key.incomplete.map(|end| dictionary.attribute("icecore.stack.incomplete", end.name()));
        all.extend(incomplete);
        all
    }

    /// Returns the position of the location of a place.
    fn location(&mut self, place: u32, guessed: bool) -> i32 {
        let known = self.locations[place as usize][usize::from(guessed)];
        if known != 0 {
            return known;
        }
        let of = self.of;
        let frames = of.frames(place);
        let function = |position: &u32| of.function(*position);
        let (mapping, address) = match of.location(place) {
            CodeLocation::Image(image, off) => (self.image(image), off.0),
            CodeLocation::Kernel(part, address) => {
                let image = frames.last().map(function).and_then(|function| function.image);
                (self.kernel(part, image), address.0)
            }
            _ => (0, 0),
        };
        let lines = frames.iter().map(|position| {
            let line = of.frame(*position).line.unwrap_or(0).into();
            Line { function: self.function(*position), line }
        });
        let lines = lines.collect();
        let language = frames.last().map_or(Language::UNKNOWN, |position| function(position).language);
        let mut attributes = Vec::new();
        let frame_type = frame_type(of.location(place), language);
        attributes.extend(frame_type.map(|it| self.dictionary.attribute("profile.frame.type", it)));
        attributes.extend(guessed.then(|| self.dictionary.attribute("icecore.frame.guessed", true)));
        let location = self.dictionary.location(Location { mapping, address, lines, attributes });
        self.locations[place as usize][usize::from(guessed)] = location;
        location
    }

    fn function(&mut self, position: u32) -> i32 {
        let of = self.of;
        let function = of.function(position);
        let declared = function.declared.or(function.seen.map(|(file, _)| (file, 0)));
        let file = declared.map_or(of.frame(position).file, |(file, _)| Some(file));
        let name = self.dictionary.text(&function.name);
        let filename = file.map_or(0, |file| self.dictionary.text(&of.names().files[file as usize]));
        let start_line = declared.map_or(0, |(_, line)| line.into());
        self.dictionary.function(Function { name, filename, start_line })
    }

    /// Returns the mapping of a file, in which addresses are offsets in the file.
    fn image(&mut self, image: u32) -> i32 {
        let identity = &self.of.locator.images[image as usize];
        // A size of 0 is an unknown one.
        let memory_limit = if identity.size_bytes == 0 { u64::MAX } else { identity.size_bytes };
        self.mapping(&identity.path, &identity.build_id, (0, memory_limit))
    }

    /// Returns the mapping of the kernel of a session, or of a module of it: a position among the names of images.
    fn kernel(&mut self, part: u32, image: Option<u32>) -> i32 {
        let of = self.of;
        let path = image.map_or("[kernel]", |image| &of.names().images[image as usize].path);
        let session = &of.report.loaded.tables.parts.part(part).session;
        // A module has a build-id of its own.
        let build_id = if path == "[kernel]" { &session.kernel_build_id[..] } else { &[] };
        self.mapping(path, build_id, (0, u64::MAX))
    }

    fn mapping(&mut self, path: &str, build_id: &[u8], (memory_start, memory_limit): (u64, u64)) -> i32 {
        let filename = self.dictionary.text(path);
        let build_id = (!build_id.is_empty()).then(|| self.dictionary.attribute(BUILD_ID, &*hex(build_id)));
        let attributes = build_id.into_iter().collect();
        self.dictionary.mapping(Mapping { memory_start, memory_limit, filename, attributes })
    }
}

/// Returns the type of a frame as the semantic conventions name it; `None` if it is unknown.
fn frame_type(location: CodeLocation, language: Language) -> Option<&'static str> {
    match (location, language) {
        (CodeLocation::Kernel(..), _) => Some("kernel"),
        (_, Language::PYTHON) => Some("cpython"),
        (_, Language::JAVA) => Some("jvm"),
        (_, Language::PHP) => Some("php"),
        (_, Language::JAVASCRIPT) => Some("v8js"),
        (CodeLocation::Image(..), _) => Some("native"),
        _ => None,
    }
}
