//! The samples of a recording in the Firefox Profiler's format. Code of files has addresses, for which the Profiler asks names; all
//! other frames have the names that the recording has for them.

use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameHandle, FrameInfo, LibraryHandle,
    LibraryInfo, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle,
    Timestamp,
};

use super::Served;
use super::modules::Modules;
use icecore_listing::stacks::CountedStacks;
use icecore_profile::map::Map;
use icecore_profile::recording::events::Meaning;
use icecore_profile::recording::load::clean;
use icecore_profile::stacks::locate::CodeLocation;

/// Writes the samples of one recording, a position among `recordings`, of the events that other views show.
///
/// # Cost    O(samples + frames of distinct stacks of each thread)
pub(super) fn profile(recordings: &[Served<'_>], modules: &Modules, recording: usize) -> Vec<u8> {
    let served = &recordings[recording];
    let report = served.report;
    let (profile, loaded) = (&report.profile, report.loaded);
    let events = loaded.tables.parts.events();
    let usual = loaded.usual_events();
    let mut writer = Writer::new(served, modules, recording);
    let stacks = CountedStacks::new(report, served.located);
    for moment in &profile.moments {
        let row = &profile.rows[moment.row as usize];
        if !usual.has(row.event) || stacks.innermost(moment.hit).is_none() {
            continue;
        }
        let thread = writer.thread(row.thread);
        let stack = writer.stack(thread, served.located.leaves[moment.hit as usize]);
        let is_of_cpu =
            events.get(usize::from(row.event)).is_some_and(|event| Meaning::of(event).is_of_cpu());
        let cpu = if is_of_cpu { CpuDelta::from_nanos(moment.weight) } else { CpuDelta::ZERO };
        let time = writer.time(moment.time_ns);
        writer.profile.add_sample(thread, time, stack, cpu, 1);
    }
    serde_json::to_vec(&writer.profile).unwrap_or_default()
}

/// The growing profile.
struct Writer<'a> {
    served: &'a Served<'a>,
    modules: &'a Modules,
    recording: usize,
    profile: Profile,
    user: CategoryHandle,
    kernel: CategoryHandle,
    /// By the position of the module.
    libraries: Vec<LibraryHandle>,
    /// By part and process id.
    processes: Map<(u32, u32), ProcessHandle>,
    /// By their positions in the profile.
    threads: Map<u32, ThreadHandle>,
    /// By thread and spot.
    stacks: Map<(ThreadHandle, u32), Option<StackHandle>>,
    /// By thread and place, outermost first.
    frames: Map<(ThreadHandle, u32), Vec<FrameHandle>>,
    /// For each function, whether it is hidden.
    hidden: Vec<bool>,
}

impl<'a> Writer<'a> {
    fn new(served: &'a Served<'a>, modules: &'a Modules, recording: usize) -> Self {
        let loaded = served.report.loaded;
        let parts = &loaded.tables.parts;
        let name = loaded.path.file_name().unwrap_or_default().to_string_lossy();
        let begin =
            ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(parts.start_unix_ns()));
        let rate =
            parts.events().iter().map(|event| event.frequency_hz).find(|rate| *rate > 0).unwrap_or(1_000);
        let mut profile = Profile::new(&name, begin, SamplingInterval::from_nanos(1_000_000_000 / rate));
        profile.set_os_name("Linux");
        let library = |module: &super::modules::Module| LibraryInfo {
            name: module.debug_name.clone(),
            debug_name: module.debug_name.clone(),
            path: module.path.clone(),
            debug_path: module.path.clone(),
            debug_id: module.debug_id,
            code_id: Some(module.code_id.clone()).filter(|id| !id.is_empty()),
            arch: module.arch().map(str::to_owned),
            symbol_table: None,
        };
        Self {
            libraries: modules.all.iter().map(|module| profile.add_lib(library(module))).collect(),
            user: profile.add_category("User", CategoryColor::Yellow),
            kernel: profile.add_category("Kernel", CategoryColor::Orange),
            profile,
            served,
            modules,
            recording,
            processes: Map::default(),
            threads: Map::default(),
            stacks: Map::default(),
            frames: Map::default(),
            hidden: loaded.patterns.matches(&served.report.profile.names).hidden,
        }
    }

    fn time(&self, time_ns: u64) -> Timestamp {
        let zero_ns = self.served.report.loaded.tables.parts.zero_ns();
        Timestamp::from_nanos_since_reference(time_ns.saturating_sub(zero_ns))
    }

    fn thread(&mut self, position: u32) -> ThreadHandle {
        let Self { profile, threads, processes, served, .. } = self;
        *threads.entry(position).or_insert_with(|| {
            let thread = &served.report.profile.threads[position as usize];
            let begin = Timestamp::from_nanos_since_reference(0);
            let name = clean(thread.process.as_bytes());
            let process = processes.entry((thread.part, thread.tgid));
            let process = *process.or_insert_with(|| profile.add_process(&name, thread.tgid, begin));
            // Threads come in the order of time: a process is called what it was called last.
            profile.set_process_name(process, &name);
            let made = profile.add_thread(process, thread.tid, begin, thread.tid == thread.tgid);
            profile.set_thread_name(made, &clean(thread.comm.as_bytes()));
            made
        })
    }

    /// Returns the stack that ends at a spot.
    fn stack(&mut self, thread: ThreadHandle, leaf: u32) -> Option<StackHandle> {
        let spots = &self.served.located.spots;
        let mut fresh = Vec::new();
        let (mut spot, mut stack) = (leaf, None);
        while spot != 0 {
            if let Some(known) = self.stacks.get(&(thread, spot)) {
                stack = *known;
                break;
            }
            fresh.push(spot);
            spot = spots[spot as usize].caller;
        }
        for spot in fresh.into_iter().rev() {
            for frame in self.frames(thread, spots[spot as usize].place) {
                stack = Some(self.profile.intern_stack(thread, stack, frame));
            }
            self.stacks.insert((thread, spot), stack);
        }
        stack
    }

    /// Returns the frames of a place: one with an address, which the Profiler symbolizes, or those that have names.
    fn frames(&mut self, thread: ThreadHandle, place: u32) -> Vec<FrameHandle> {
        if let Some(known) = self.frames.get(&(thread, place)) {
            return known.clone();
        }
        let location = self.served.located.places[place as usize];
        let is_kernel = matches!(location, CodeLocation::Kernel(..));
        let category_pair = if is_kernel { self.kernel } else { self.user }.into();
        let names = &self.served.report.profile.names;
        let functions = names.of_places.of(place as usize).iter().rev();
        let functions = functions.map(|frame| names.frames[*frame as usize].function as usize);
        let shown: Vec<usize> = functions.filter(|function| !self.hidden[*function]).collect();
        let frames = match self.addressed(location) {
            _ if shown.is_empty() => Vec::new(),
            Some(frame) => vec![frame],
            None => {
                let label = |function: usize| self.profile.intern_string(&names.functions[function].name);
                shown.into_iter().map(label).map(Frame::Label).collect()
            }
        };
        let mut intern = |frame| {
            let frame = FrameInfo { frame, category_pair, flags: FrameFlags::empty() };
            self.profile.intern_frame(thread, frame)
        };
        let frames: Vec<FrameHandle> = frames.into_iter().map(&mut intern).collect();
        self.frames.insert((thread, place), frames.clone());
        frames
    }

    /// Returns the frame of code in a module: the address by which it is looked up.
    fn addressed(&self, location: CodeLocation) -> Option<Frame> {
        let CodeLocation::Image(image, off) = location else { return None };
        let module = self.modules.of_image(self.recording, image)?;
        let address = self.modules.all[module as usize].address(off)?;
        Some(Frame::RelativeAddressFromInstructionPointer(self.libraries[module as usize], address))
    }
}
