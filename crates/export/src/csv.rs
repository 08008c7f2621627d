//! csv: functions and their sums as comma-separated values, for spreadsheets and data frames.
//!
//! A row is a function and an event. `self_inlined` and `total_inlined` are the parts of `self` and `total` where the function was inlined.

mod samples;

use std::collections::BTreeSet;
use std::io::{self, Write};

use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::{Function, Names, Side};
use icecore_profile::named::{Profile, Sum, groups, sums_apart};
use icecore_profile::stacks::locate::CodeLocation;
use icecore_symbolize::image::hex;
use icecore_text::csv::quoted;

use crate::exported::Exported;
use crate::format::Format;
use crate::kept::Fact;

pub use samples::CsvSamples;

/// The format.
#[derive(Debug)]
pub struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn is_text(&self) -> bool {
        true
    }

    fn keeps(&self) -> &'static [Fact] {
        &[Fact::Inlined, Fact::Images, Fact::BuildIds, Fact::Sides, Fact::Events, Fact::Units, Fact::Samples]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let profile = &of.report.profile;
        let build_ids = build_ids(of);
        let event_of = |event| of.events.iter().position(|it| it.event == event).unwrap_or(0);
        out.write_all(HEAD.as_bytes())?;
        for FunctionSums { event, function, all, inlined } in ranked(profile, event_of) {
            let event = &of.events[event as usize];
            let subject = subject(&profile.names, function, build_ids.get(&function));
            let Sum { own, total } = all;
            let (name, unit) = (quoted(&event.name), quoted(&event.unit));
            let declared = declared(&profile.names, &profile.names.functions[function as usize]);
            writeln!(
                out,
                "{name},{unit},{subject},{},{},{},{},{},{},{declared}",
                own.weight,
                total.weight,
                inlined.own.weight,
                inlined.total.weight,
                own.samples,
                total.samples
            )?;
        }
        Ok(())
    }
}

const HEAD: &str = "event,unit,function,image,build_id,side,language,\
                    self,total,self_inlined,total_inlined,self_samples,total_samples,file,line\n";

/// The sums of a function and an event.
struct FunctionSums {
    event: u32,
    function: u32,
    all: Sum,
    /// What of these sums hit the function where it was inlined.
    inlined: Sum,
}

/// Adds up the functions of each event, the heaviest first.
fn ranked(profile: &Profile, event_of: impl Fn(u8) -> usize) -> Vec<FunctionSums> {
    let event_of_row: Vec<u32> = profile.rows.iter().map(|row| event_of(row.event) as u32).collect();
    let frames = &profile.names.frames;
    let sums_of =
        |of_frame: Vec<u32>| sums_apart(profile, &event_of_row, &groups(profile, &of_frame, |_| true));
    let (pairs, sums) =
        sums_of(frames.iter().map(|frame| frame.function * 2 + u32::from(frame.inlined)).collect());
    let inlined: Map<(u32, u32), Sum> = pairs.into_iter().zip(sums).collect();
    let (pairs, sums) = sums_of(frames.iter().map(|frame| frame.function).collect());
    let functions = pairs.into_iter().zip(sums).map(|((event, function), all)| {
        let inlined = inlined.get(&(event, function * 2 + 1)).copied().unwrap_or_default();
        FunctionSums { event, function, all, inlined }
    });
    let mut functions: Vec<FunctionSums> = functions.filter(|it| it.all.total.samples > 0).collect();
    let identity = |it: &FunctionSums| {
        let function = &profile.names.functions[it.function as usize];
        (&function.name, profile.names.image(function).map(|image| &image.path), it.function)
    };
    functions.sort_by(|a, b| {
        let weights = |it: &FunctionSums| (it.all.own.weight, it.all.total.weight);
        a.event.cmp(&b.event).then(weights(b).cmp(&weights(a))).then_with(|| identity(a).cmp(&identity(b)))
    });
    functions
}

/// Describes a function: name, image, build-ids, side and language.
fn subject(names: &Names, function: u32, build_ids: Option<&BTreeSet<String>>) -> String {
    let function = &names.functions[function as usize];
    let image = names.image(function).map_or("", |image| &image.path);
    let build_ids: Vec<&str> = build_ids.into_iter().flatten().map(|id| &**id).collect();
    let side = if function.side == Side::Kernel { "kernel" } else { "user" };
    let language = function.language_name().unwrap_or_default();
    let (name, image, build_ids) = (quoted(&function.name), quoted(image), build_ids.join(" "));
    format!("{name},{image},{build_ids},{side},{}", quoted(&language))
}

/// Returns file and line of the declaration of a function; only the file if the line is unknown.
fn declared(names: &Names, function: &Function) -> String {
    let seen = function.seen.map(|(file, _)| (file, 0));
    let Some((file, line)) = function.declared.or(seen) else { return ",".to_owned() };
    let line = if line > 0 { line.to_string() } else { String::new() };
    format!("{},{line}", quoted(&names.files[file as usize]))
}

/// Finds the build-ids of the files that functions are in: files of one path can have several.
fn build_ids(of: &Exported<'_>) -> Map<u32, BTreeSet<String>> {
    let mut seen: Interned<(u32, Option<u32>, Option<u32>)> = Interned::new();
    for place in 0..of.located.places.len() as u32 {
        let (image, kernel) = match of.location(place) {
            CodeLocation::Image(image, _) => (Some(image), None),
            CodeLocation::Kernel(part, _) => (None, Some(part)),
            _ => continue,
        };
        for frame in of.frames(place) {
            seen.intern((of.frame(*frame).function, image, kernel));
        }
    }
    let mut of_functions: Map<u32, BTreeSet<String>> = Map::default();
    for (function, image, kernel) in seen.into_items() {
        let path = || of.names().image(&of.names().functions[function as usize]).map(|image| &*image.path);
        let id: &[u8] = match (image, kernel) {
            (Some(image), _) => &of.locator.images[image as usize].build_id,
            // That of a module is not in the recording.
            (_, Some(part)) if path() == Some("[kernel]") => {
                &of.report.loaded.tables.parts.part(part).session.kernel_build_id
            }
            _ => &[],
        };
        if !id.is_empty() {
            of_functions.entry(function).or_default().insert(hex(id));
        }
    }
    of_functions
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;

    fn rows(profile: &Profile) -> Vec<String> {
        let row = |it: &FunctionSums| {
            let Sum { own, total } = it.all;
            let (own_inlined, total_inlined) = (it.inlined.own.weight, it.inlined.total.weight);
            let subject = subject(&profile.names, it.function, None);
            format!("{} {subject} {} {} {own_inlined} {total_inlined}", it.event, own.weight, total.weight)
        };
        ranked(profile, usize::from).iter().map(row).collect()
    }

    #[test]
    fn each_event_has_sums_of_its_own_and_recursion_counts_once() {
        let mut profile = fixture::profile(&[("main;f;g;f", 3), ("main;g", 2)]);
        profile.rows[1].event = 1;
        assert_eq!(
            rows(&profile),
            [
                "0 f,/bin/x,,user, 30 30 0 0",
                "0 g,/bin/x,,user, 0 30 0 0",
                "0 main,/bin/x,,user, 0 30 0 0",
                "1 g,/bin/x,,user, 20 20 0 0",
                "1 main,/bin/x,,user, 0 20 0 0",
            ]
        );
    }

    #[test]
    fn inlined_copies_of_a_function_have_their_parts_of_its_sums() {
        let mut profile = fixture::profile(&[("main;f;g", 1), ("main;f", 2), ("h;f;k", 4), ("h;f", 8)]);
        // The `f` in `h` is inlined; it is another frame of the same function.
        let (f, own) = (profile.names.frames[1], profile.names.frames.len() as u32);
        profile.names.frames.push(icecore_profile::named::names::Frame { inlined: true, ..f });
        let h = profile.stacks.iter().position(|stack| stack.frame == 3).expect("the stack of h");
        let in_h = profile.stacks.iter_mut().find(|stack| stack.caller == h as u32 && stack.frame == 1);
        in_h.expect("a frame").frame = own;
        let f: Vec<String> = rows(&profile).into_iter().filter(|row| row.starts_with("0 f,")).collect();
        assert_eq!(f, ["0 f,/bin/x,,user, 100 150 80 120"]);
    }

    #[test]
    fn hostile_names_stay_in_their_fields() {
        let mut profile = fixture::profile(&[("main", 1)]);
        profile.names.functions[0].name = "a,\"b\"".into();
        profile.names.images[0].path = "=x\" y".into();
        assert_eq!(subject(&profile.names, 0, None), "\"a,\"\"b\"\"\",\"'=x\"\" y\",,user,");
        assert_eq!(declared(&profile.names, &profile.names.functions[0]), ",");
    }
}
