//! The costs of functions and of the calls between them, by line; and what functions are called.

use std::borrow::Cow;

use icecore_profile::Profile;
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::Function;
use icecore_profile::named::{Amount, depth_first, through};

/// A line of a function, or a call there.
///
/// Functions are numbered as in the names; processes follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Spot {
    /// The function.
    pub(super) node: u32,
    /// The file of the line, if it is known.
    pub(super) file: Option<u32>,
    /// The line; 0 if it is unknown.
    pub(super) line: u32,
    /// The function that is called; `None` for own cost.
    pub(super) callee: Option<u32>,
}

/// Costs of several events.
pub(super) struct Graph<'a> {
    profile: &'a Profile,
    spots: Interned<Spot>,
    /// The number of samples of each spot, of all events.
    samples: Vec<u64>,
    /// The weights of each spot, by event.
    costs: Vec<u64>,
    events: usize,
    processes: Vec<&'a str>,
}

impl<'a> Graph<'a> {
    /// Adds up samples; a column for each of these events.
    ///
    /// # Cost    O(events × stacks)
    pub(super) fn new(profile: &'a Profile, events: &[u8]) -> Self {
        let mut processes = Interned::new();
        let process_of: Vec<u32> =
            profile.threads.iter().map(|thread| processes.intern(&*thread.process)).collect();
        let (spots, events_len) = (Interned::new(), events.len());
        let (samples, costs) = (Vec::new(), Vec::new());
        let processes = processes.into_items();
        let mut graph = Self { profile, spots, samples, costs, events: events_len, processes };
        let mut outermost = vec![0; profile.stacks.len()];
        for (stack, entry) in profile.stacks.iter().enumerate().skip(1) {
            outermost[stack] = if entry.caller == 0 { stack } else { outermost[entry.caller as usize] };
        }
        for (column, event) in events.iter().enumerate() {
            let mut at = vec![Amount::default(); profile.stacks.len()];
            for row in profile.rows.iter().filter(|row| row.event == *event) {
                at[row.stack as usize].add(row.amount());
                let callee = outermost[row.stack as usize];
                let callee = (callee != 0).then(|| profile.function_id(profile.stacks[callee]));
                let node = profile.names.functions.len() as u32 + process_of[row.thread as usize];
                graph.add(Spot { node, file: None, line: 0, callee }, column, row.amount());
            }
            graph.functions(column, &at);
        }
        graph
    }

    /// Adds up the functions of an event, given the samples of each stack.
    fn functions(&mut self, column: usize, at: &[Amount]) {
        let profile = self.profile;
        let passing = through(profile, at.to_vec());
        let mut on_path = vec![0u32; profile.names.functions.len()];
        let spot = |stack: u32, callee| {
            let frame = &profile.names.frames[profile.stacks[stack as usize].frame as usize];
            let (file, line) = frame.file.zip(frame.line).unzip();
            Spot { node: frame.function, file, line: line.unwrap_or(0), callee }
        };
        depth_first(profile, |stack, enters| {
            let entry = profile.stacks[stack as usize];
            let function = profile.function_id(entry);
            let depth = &mut on_path[function as usize];
            if !enters {
                *depth -= 1;
                return;
            }
            *depth += 1;
            let is_first = *depth == 1;
            self.add(spot(stack, None), column, at[stack as usize]);
            if is_first && entry.caller != 0 {
                self.add(spot(entry.caller, Some(function)), column, passing[stack as usize]);
            }
        });
    }

    fn add(&mut self, spot: Spot, column: usize, amount: Amount) {
        if amount.samples == 0 {
            return;
        }
        let position = self.spots.intern(spot) as usize;
        self.samples.resize(self.spots.len(), 0);
        self.costs.resize(self.spots.len() * self.events, 0);
        self.samples[position] = self.samples[position].saturating_add(amount.samples);
        let cost = &mut self.costs[position * self.events + column];
        *cost = cost.saturating_add(amount.weight);
    }

    /// Lists the names of processes.
    pub(super) fn processes(&self) -> Vec<&'a str> {
        self.processes.clone()
    }

    /// Lists all spots with their samples and costs, by function and line.
    pub(super) fn sorted(self) -> impl Iterator<Item = (Spot, u64, Vec<u64>)> {
        let Self { spots, samples, costs, events, .. } = self;
        let spots = spots.into_items();
        let mut order: Vec<usize> = (0..spots.len()).collect();
        order.sort_unstable_by_key(|at| spots[*at]);
        order
            .into_iter()
            .map(move |at| (spots[at], samples[at], costs[at * events..(at + 1) * events].to_vec()))
    }
}

/// What functions and processes are called, and where they are.
pub(super) struct Subjects<'a> {
    profile: &'a Profile,
    processes: Vec<&'a str>,
    /// The number of the file of each function.
    files: Vec<u32>,
}

/// Stands for a name that is not known.
const UNKNOWN: &str = "???";

impl<'a> Subjects<'a> {
    pub(super) fn new(profile: &'a Profile, processes: Vec<&'a str>) -> Self {
        let names = &profile.names;
        let mut of_frames = vec![None; names.functions.len()];
        for frame in names.frames.iter().filter(|frame| frame.line.is_some()) {
            let known = &mut of_frames[frame.function as usize];
            *known = known.or(frame.file);
        }
        let declared = |function: &Function| function.declared.or(function.seen).map(|(file, _)| file);
        let known = of_frames.into_iter().zip(&names.functions);
        let known: Vec<Option<u32>> = known.map(|(file, function)| file.or(declared(function))).collect();
        // The functions without a file, by name.
        let mut namesakes: Map<&str, u32> = Map::default();
        let unknown = names.functions.iter().zip(&known).filter(|(_, file)| file.is_none());
        unknown.for_each(|(function, _)| *namesakes.entry(&*function.name).or_default() += 1);
        let file = |(function, known): (&Function, &Option<u32>)| match (known, function.image) {
            (Some(file), _) => file + 1,
            (None, Some(image)) if namesakes[&*function.name] > 1 => 1 + names.files.len() as u32 + image,
            (None, _) => 0,
        };
        let files = names.functions.iter().zip(&known).map(file).collect();
        Self { profile, processes, files }
    }

    fn function(&self, node: u32) -> Option<&'a Function> {
        self.profile.names.functions.get(node as usize)
    }

    /// Returns the name of a function or a process.
    pub(super) fn name(&self, node: u32) -> Cow<'a, str> {
        match self.function(node) {
            Some(function) => Cow::Borrowed(&*function.name),
            None => {
                let process = node as usize - self.profile.names.functions.len();
                format!("[process {}]", self.processes[process]).into()
            }
        }
    }

    /// Returns the number of the object of a function.
    pub(super) fn object(&self, node: u32) -> u32 {
        self.function(node).and_then(|function| function.image).map_or(0, |image| image + 1)
    }

    /// Returns the name of an object.
    pub(super) fn object_name(&self, object: u32) -> Cow<'a, str> {
        let image = object.checked_sub(1).map(|image| &*self.profile.names.images[image as usize].path);
        Cow::Borrowed(image.unwrap_or(UNKNOWN))
    }

    /// Returns the number of the file of a function.
    pub(super) fn file(&self, node: u32) -> u32 {
        self.files.get(node as usize).copied().unwrap_or(0)
    }

    /// Returns the number of a source file.
    pub(super) fn source(&self, file: u32) -> u32 {
        file + 1
    }

    /// Returns the name of a file.
    pub(super) fn file_name(&self, file: u32) -> Cow<'a, str> {
        let names = &self.profile.names;
        match file.checked_sub(1).map(|file| file as usize) {
            None => UNKNOWN.into(),
            Some(file) => match names.files.get(file) {
                Some(path) => Cow::Borrowed(path),
                None => format!("{UNKNOWN} {}", names.images[file - names.files.len()].path).into(),
            },
        }
    }

    /// Returns the line that declares a function in its file; 0 if it is unknown.
    pub(super) fn line(&self, node: u32) -> u32 {
        let declared = self.function(node).and_then(|function| function.declared);
        declared.filter(|(file, _)| self.source(*file) == self.file(node)).map_or(0, |(_, line)| line)
    }
}
