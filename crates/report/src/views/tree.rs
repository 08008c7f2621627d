//! `tree`: who calls whom.

use std::borrow::Cow;

use serde::Serialize;

use super::rates::no_samples;
use super::{Needs, Result, Screen, Shown, View};
use crate::cli::{Select, root, share_percent};
use icecore_profile::named::Amount;
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::tree::{Label, Limits, Root, Tree, roots};
use icecore_text::quantity::{count, percent, things};
use icecore_text::{Page, Style};

/// The arguments of `tree`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report tree [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report tree demo.icecore                            from main down to the leaves
  icecore-report tree demo.icecore --callers                  from the hottest leaves up to main
  icecore-report tree demo.icecore --callers --focus '^memcpy$' --min-percent 0.1
  icecore-report tree demo.icecore --callers --wakers         who made whom wait")]
pub struct Args {
    /// Begin at the leaves: who called them?
    #[arg(long)]
    pub callers: bool,
    /// Begin at the root: what did it call? (the default)
    #[arg(long, conflicts_with = "callers")]
    pub callees: bool,
    /// Leave out branches below this share of the total
    #[arg(long, visible_alias = "percent-limit", value_name = "P", default_value_t = 1.0, value_parser = share_percent)]
    pub min_percent: f64,
    /// Show this many rows, the heaviest; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 0)]
    pub rows: usize,
    /// Cut branches at this depth
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_depth: u32,
    /// Begin the callees with the name of the process, the thread, or none
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true, value_parser = root())]
    pub root: Root,
    /// Put the stack and the name of the thread that ended each wait on top of its stack; shows off-cpu unless --event names others
    #[arg(long)]
    pub wakers: bool,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        Needs::root(self.root).with_wakers(self.wakers)
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let tree = TreeView::new(shown.report, self);
        if screen.json {
            // Indentation would make a deep tree quadratic.
            screen.one_line(&tree)?;
        } else {
            screen.emit(&tree, |page| tree.text(shown.report, page))?;
        }
        Ok(true)
    }
}

/// The document: the node of everything.
#[derive(Debug, Serialize)]
pub struct TreeView<'a> {
    schema: &'static str,
    direction: &'static str,
    unit: String,
    total_weight: u64,
    total_samples: u64,
    min_share: f64,
    filter: Option<String>,
    /// The number of all branches that are heavy enough; there may be fewer.
    row_count: u64,
    #[serde(flatten)]
    root: Branch<'a>,
}

/// A node with everything below it.
#[derive(Debug, Serialize)]
struct Branch<'a> {
    /// Borrowed, because a function may be in a million nodes.
    name: Cow<'a, str>,
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    self_share: f64,
    total_share: f64,
    /// The share of the total that has this frame by a guess.
    #[serde(skip_serializing_if = "is_none")]
    guessed_share: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    children: Vec<Branch<'a>>,
}

impl<'a> TreeView<'a> {
    /// Merges the stacks of a profile.
    pub fn new(report: &'a Report<'_>, options: &Args) -> Self {
        let profile = &report.profile;
        let limits = Limits { min_share: options.min_percent / 100.0, max_depth: options.max_depth };
        let mut tree = if options.callers {
            Tree::callers(profile, limits)
        } else {
            Tree::callees(profile, options.root, limits)
        };
        let row_count = tree.keep_heaviest(if options.rows > 0 { options.rows } else { usize::MAX });
        let whole = profile.whole();
        Self {
            row_count: row_count as u64,
            schema: "icecore.tree/1",
            direction: if options.callers { "callers" } else { "callees" },
            unit: profile.measure.unit.clone(),
            total_weight: whole.weight,
            total_samples: whole.samples,
            min_share: limits.min_share,
            filter: report.filtered.clone(),
            root: branch(report, &tree, &roots(profile, options.root).0, 0, whole),
        }
    }

    /// Writes the indented tree.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        let whole = Amount { samples: self.total_samples, weight: self.total_weight };
        super::preface(report, whole, page);
        page.gap();
        if self.root.children.is_empty() {
            let why = if whole.samples == 0 {
                &no_samples(report)
            } else {
                "no branch is that heavy: lower --min-percent"
            };
            page.line(why);
            return;
        }
        let rows = self.root.rows() - 1;
        // A caller has no self time, because its callee was running.
        let own = self.direction == "callees";
        page.styled(Style::Dim, if own { " TOTAL    SELF" } else { " TOTAL" });
        for child in &self.root.children {
            child.text("", "", own, page);
            page.gap();
        }
        let order = if own { "what it called" } else { "who called it" };
        let pruned =
            format!("below a function: {order}; branches under {} left out", percent(self.min_share));
        page.styled(Style::Dim, &pruned);
        if rows < self.row_count {
            let of = things(self.row_count, "row");
            page.styled(Style::Dim, &format!("{} of {of} shown, the heaviest (-n 0: all)", count(rows)));
        }
    }
}

/// Returns true for a share of nothing.
fn is_none(share: &f64) -> bool {
    *share == 0.0
}

/// Converts nodes to nested branches. The limits of the tree bound the depth.
fn branch<'a>(
    report: &'a Report<'_>,
    tree: &Tree,
    names: &[Box<str>],
    node: u32,
    whole: Amount,
) -> Branch<'a> {
    let node = &tree.nodes[node as usize];
    let (name, image, language) = match node.label {
        Label::All => (Cow::Borrowed("all"), None, None),
        Label::Root(root) => (Cow::Owned(names[root as usize].to_string()), None, None),
        Label::Function(function) => {
            let function = &report.profile.names.functions[function as usize];
            let image = report.profile.names.image(function);
            (Cow::Borrowed(&*function.name), image, function.language_name())
        }
    };
    Branch {
        name,
        image: image.map(|image| &*image.path),
        language,
        own: node.own.weight,
        total: node.total.weight,
        self_share: node.own.share_of(whole),
        total_share: node.total.share_of(whole),
        guessed_share: node.guessed.share_of(node.total),
        cut: node.cut,
        children: node.children.iter().map(|child| branch(report, tree, names, *child, whole)).collect(),
    }
}

impl Branch<'_> {
    /// Counts it and what is below.
    fn rows(&self) -> u64 {
        1 + self.children.iter().map(Self::rows).sum::<u64>()
    }

    /// Writes a node and everything below it. A straight chain stays in its column.
    ///
    /// ```text
    /// a            one child each: a chain
    /// b
    /// ├─ c         two children: a fork
    /// │  d
    /// └─ e
    /// ```
    fn text(&self, mark: &str, indent: &str, own: bool, page: &mut Page) {
        let total = percent(self.total_share);
        let own_share = match own {
            true if self.own == 0 => "        ".to_owned(),
            true => format!("{:>6}  ", percent(self.self_share)),
            false => String::new(),
        };
        let cut = match (self.guessed_share > 0.0, self.cut) {
            (true, true) => " ? …",
            (true, false) => " ?",
            (false, true) => " …",
            (false, false) => "",
        };
        let style = Style::of_share(if own { self.self_share } else { self.total_share });
        page.named(style, (&format!("{total:>6}  {own_share}"), mark), &self.name, cut);
        match self.children.as_slice() {
            [] => {}
            [only] => only.text(indent, indent, own, page),
            [first @ .., last] => {
                for child in first {
                    child.text(&format!("{indent}├─ "), &format!("{indent}│  "), own, page);
                }
                last.text(&format!("{indent}└─ "), &format!("{indent}   "), own, page);
            }
        }
    }
}
