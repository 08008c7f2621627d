//! What the rows of `top` stand for, and what is said of it.

use serde::Serialize;

use super::by::By;
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::Side;
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::waits::Waker;
use icecore_profile::named::{ProfileRow, Thread};
use icecore_profile::recording::cgroups::CgroupId;
use icecore_profile::stacks::fields::Field;

/// What a row stands for, by one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A position in the names' functions.
    Function(u32),
    /// Function, file, line.
    Line(u32, Option<u32>, Option<u32>),
    /// A position in the names' images.
    Image(Option<u32>),
    /// A process or thread with its name, on a host.
    Task(usize, u32, u32, Box<str>),
    /// The name of threads.
    Comm(Box<str>),
    /// A CPU of a host.
    Cpu(usize, u16),
    /// A cgroup of a host.
    Cgroup(usize, CgroupId),
    /// A host.
    Host(usize),
    /// A field, if the samples have one, and what stands for it.
    Field(Option<Field>, String),
    /// The kind of waits, or what ended them if that is no thread.
    Wait(String),
}

/// The samples that are no waits.
const NO_WAIT: &str = "no wait";

/// What is known of the subject of one key, or of a row.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Facts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) side: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    #[serde(skip_serializing_if = "<[Box<str>]>::is_empty")]
    pub(super) aliases: Box<[Box<str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::views) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tgid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::views) cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<Field>,
}

/// The value of one key.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Value {
    pub(super) by: &'static str,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<String>,
    #[serde(flatten)]
    pub(super) facts: Facts,
}

impl Facts {
    /// Adds what is not known yet.
    pub(super) fn complete(self, more: Self) -> Self {
        Self {
            side: self.side.or(more.side),
            reason: self.reason.or(more.reason),
            aliases: if self.aliases.is_empty() { more.aliases } else { self.aliases },
            language: self.language.or(more.language),
            file: self.file.or(more.file),
            line: self.line.or(more.line),
            host: self.host.or(more.host),
            tgid: self.tgid.or(more.tgid),
            tid: self.tid.or(more.tid),
            comm: self.comm.or(more.comm),
            cgroup: self.cgroup.or(more.cgroup),
            cpu: self.cpu.or(more.cpu),
            field: self.field.or(more.field),
        }
    }
}

/// Who ran the code of rows: the subjects of all keys that are not of code.
#[derive(Default)]
pub(super) struct Contexts {
    /// The subjects, in the order of the keys, and the cgroup in which all of it ran.
    pub(super) all: Vec<(Vec<Subject>, Option<CgroupId>)>,
    /// The context of each row of the profile, a position in `all`.
    pub(super) of_row: Vec<u32>,
}

impl Contexts {
    pub(super) fn new(report: &Report<'_>, keys: &[By]) -> Self {
        let profile = &report.profile;
        let mut subjects: Interned<Vec<Subject>> = Interned::new();
        let mut cgroups: Vec<CgroupId> = Vec::new();
        let mut known: Map<(u32, u16, Option<u32>), u32> = Map::default();
        let of_row = profile.rows.iter().map(|row| {
            *known.entry((row.thread, row.cpu, row.wait)).or_insert_with(|| {
                let context = subjects.intern(keys.iter().map(|by| of_row(report, *by, row)).collect());
                let cgroup = profile.threads[row.thread as usize].cgroup;
                match cgroups.get_mut(context as usize) {
                    Some(all) if *all != cgroup => *all = 0,
                    Some(_) => {}
                    None => cgroups.push(cgroup),
                }
                context
            })
        });
        let of_row = of_row.collect();
        let cgroups = cgroups.into_iter().map(|cgroup| (cgroup != 0).then_some(cgroup));
        Self { all: subjects.into_items().into_iter().zip(cgroups).collect(), of_row }
    }
}

/// Returns the subject of a row of the profile, by a key that is not of code.
fn of_row(report: &Report<'_>, by: By, row: &ProfileRow) -> Subject {
    let profile = &report.profile;
    let thread = &profile.threads[row.thread as usize];
    let host_of = |thread: &Thread| report.loaded.tables.parts.part(thread.part).host;
    let of_process = |it: &Thread| Subject::Task(host_of(it), it.tgid, it.tgid, it.process.clone());
    let of_thread = |it: &Thread| Subject::Task(host_of(it), it.tgid, it.tid, it.comm.clone());
    let wait = row.wait.map(|wait| &profile.waits[wait as usize]);
    match by {
        By::Process => of_process(thread),
        By::Thread => of_thread(thread),
        By::Comm => Subject::Comm(thread.comm.clone()),
        By::Cpu => Subject::Cpu(host_of(thread), row.cpu),
        By::Cgroup => Subject::Cgroup(host_of(thread), thread.cgroup),
        By::Host => Subject::Host(host_of(thread)),
        By::Field => Subject::Field(thread.field.clone(), thread.field_name()),
        By::Wait => Subject::Wait(wait.map_or_else(|| NO_WAIT.to_owned(), |wait| wait.kind.name())),
        By::Waker | By::WakerThread => match wait.map(|wait| &wait.waker) {
            Some(Waker::Thread(it)) if by == By::Waker => of_process(it),
            Some(Waker::Thread(it)) => of_thread(it),
            Some(other) => Subject::Wait(other.words().unwrap_or_default().to_owned()),
            None => Subject::Wait(NO_WAIT.to_owned()),
        },
        By::Function | By::Inlined | By::Line | By::Address | By::Image => Subject::Image(None),
    }
}

impl Value {
    /// Describes a subject by one key. It names hosts if there are several.
    pub(super) fn new(report: &Report<'_>, by: By, subject: &Subject, cgroup: Option<CgroupId>) -> Self {
        let parts = &report.loaded.tables.parts;
        let host_name = |host: usize| (parts.hosts().len() > 1).then(|| parts.hosts()[host].clone());
        let path = |id: CgroupId| report.loaded.cgroups.path(id).map(str::to_owned);
        let value =
            |name: &str, facts: Facts| Self { by: by.name(), name: name.to_owned(), image: None, facts };
        match subject {
            Subject::Function(function) => Self::of_function(report, by, *function),
            Subject::Line(function, file, line) if by == By::Line => {
                let mut value = Self::of_function(report, by, *function);
                value.facts.file =
                    Some(file.map(|file| report.profile.names.files[file as usize].to_string()));
                value.facts.line = Some(*line);
                value
            }
            Subject::Line(function, ..) => Self::of_function(report, by, *function),
            Subject::Image(image) => {
                let image = image.map(|image| report.profile.names.images[image as usize].path.to_string());
                let name = image.as_deref().unwrap_or("[no image]");
                Self { image: image.clone(), ..value(name, Facts::default()) }
            }
            Subject::Task(host, tgid, tid, name) => {
                let facts = Facts { host: host_name(*host), tgid: Some(*tgid), ..Facts::default() };
                let (tid, comm) = ((by != By::Waker).then_some(*tid), Some(name.to_string()));
                let cgroup = if by.is_of_waits() { None } else { cgroup.and_then(path) };
                value(name, Facts { tid, comm, cgroup, ..facts })
            }
            Subject::Comm(name) => value(name, Facts { comm: Some(name.to_string()), ..Facts::default() }),
            Subject::Cpu(host, cpu) => {
                let facts = Facts { host: host_name(*host), cpu: Some(*cpu), ..Facts::default() };
                value(&cpu.to_string(), facts)
            }
            Subject::Cgroup(host, id) => {
                let (host, cgroup) = (host_name(*host), path(*id));
                value(
                    &cgroup.clone().unwrap_or_else(|| "-".to_owned()),
                    Facts { host, cgroup, ..Facts::default() },
                )
            }
            Subject::Host(host) => {
                let name = &parts.hosts()[*host];
                value(name, Facts { host: Some(name.clone()), ..Facts::default() })
            }
            Subject::Field(field, name) => value(name, Facts { field: field.clone(), ..Facts::default() }),
            Subject::Wait(name) => value(name, Facts::default()),
        }
    }

    /// Describes a function, or by image where it is.
    fn of_function(report: &Report<'_>, by: By, function: u32) -> Self {
        let names = &report.profile.names;
        let function = &names.functions[function as usize];
        let image = names.image(function).map(|image| image.path.to_string());
        if by == By::Image {
            let name = image.clone().unwrap_or_else(|| "[no image]".to_owned());
            return Self { by: by.name(), name, image, facts: Facts::default() };
        }
        let side = Some(if function.side == Side::User { "user" } else { "kernel" });
        let reason = function.reason.map(|reason| reason.code());
        let (aliases, language) = (function.aliases.clone(), function.language_name());
        let facts = Facts { side, reason, aliases, language, ..Facts::default() };
        Self { by: by.name(), name: function.name.to_string(), image, facts }
    }
}
