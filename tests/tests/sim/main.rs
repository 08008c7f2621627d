//! Tests that need no eBPF: made-up recordings with known contents, in every view of the report.

mod annotate;
mod audit;
mod corpus;
mod counted;
mod counts;
mod cut;
mod events;
mod frameless;
mod golden;
mod golden_damage;
mod golden_diff;
mod golden_diff_flame;
mod golden_names;
mod golden_time;
mod headers;
mod install;
mod long_stacks;
mod merge;
mod rooms;
mod runtimes;
mod serve;
mod settings;
mod stacks;
mod tui;
mod verify_repair;
mod wait_views;
