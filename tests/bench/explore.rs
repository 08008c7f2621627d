//! Loads a recording as `tui` does, and prints how long filters, tables, trees and the time line take: milliseconds of time, and of
//! CPU time of their thread.
//!
//! usage: explore FILE

use std::path::Path;
use std::time::Instant;

use icecore_analysis::explore::call_tree::{CallTree, Direction, Ground};
use icecore_analysis::explore::filters::{Filters, Matching, Subject, Verb};
use icecore_analysis::explore::{Explorer, Owners};
use icecore_format::read::Recording;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::stacks::hits::{Apart, WaitsApart};
use icecore_symbolize::image::Search;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: explore FILE")?;
    let path = Path::new(&path);
    let (recording, search) = (Recording::open(path)?, Search::nowhere());
    let (threads, events, moments) = (true, true, true);
    let apart = Apart { threads, events, moments, waits: WaitsApart::Rows, ..Apart::default() };
    let timed = Timed::now();
    let loaded = Loaded::new(path, &recording, Default::default(), Default::default(), &search, apart);
    let named = loaded.name(&search, None, &icecore_profile::watch::Unwatched);
    let report = loaded.report(&named.located, named.names);
    let profile = &report.profile;
    timed.print("load");
    println!(
        "{} moments, {} rows, {} stacks",
        profile.moments.len(),
        profile.rows.len(),
        profile.stacks.len()
    );
    let of_thread: Vec<u32> = (0..profile.threads.len() as u32).collect();
    let owners = Owners {
        processes: of_thread.len(),
        threads: of_thread.len(),
        process_of_thread: of_thread.clone(),
        thread_of_thread: of_thread,
        units: vec!["ns".into()],
    };
    let timed = Timed::now();
    let explorer = Explorer::new(profile, owners);
    timed.print("prepare");
    let all = Filters::of(vec![true]);
    let timed = Timed::now();
    let everything = explorer.select(all.clone(), None);
    timed.print("select everything, for the first time");
    let (begin_ns, end_ns) = explorer.span_ns();
    let middle = begin_ns.midpoint(end_ns);
    let hottest = everything.functions(&explorer).into_iter().max_by_key(|row| row.sum.total.weight);
    let function = hottest.map_or(0, |row| row.number);
    let range = Filters { range_ns: Some((begin_ns, middle)), ..all.clone() };
    let cases = [
        ("select half of the time", range),
        ("select a thread", all.with(Verb::Only, Subject::Thread(0))),
        ("select a function", all.with(Verb::Only, Subject::Function(function))),
        ("hide a function", all.with(Verb::Hide, Subject::Function(function))),
    ];
    for (what, filters) in cases {
        let timed = Timed::now();
        let selected = explorer.select(filters, Some(&everything));
        selected.functions(&explorer);
        timed.print(&format!("{what}, and its functions"));
        let timed = Timed::now();
        explorer.lanes(&selected, (begin_ns, end_ns), 180);
        timed.print("  time line");
        let ground = Ground { explorer: &explorer, selected: &selected };
        let timed = Timed::now();
        let tree = CallTree::all(ground);
        timed.print("  tree");
        let timed = Timed::now();
        drop(tree.again(ground, None, 0));
        timed.print("  the same tree again");
        let timed = Timed::now();
        CallTree::of(ground, function, Direction::Callers);
        timed.print("  callers of a function");
    }
    let is_in = profile.names.functions.iter().map(|function| function.name.contains('7')).collect();
    let timed = Timed::now();
    explorer.find(&everything, Matching { pattern: "7".into(), is_in });
    timed.print("search");
    Ok(())
}

struct Timed(Instant, f64);

impl Timed {
    fn now() -> Self {
        Self(Instant::now(), ran_ms())
    }

    fn print(self, what: &str) {
        println!("{:>8.1} {:>8.1}  {what}", self.0.elapsed().as_secs_f64() * 1e3, ran_ms() - self.1);
    }
}

/// Returns the CPU time of this thread; 0 where the kernel does not tell it.
fn ran_ms() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e6
}
