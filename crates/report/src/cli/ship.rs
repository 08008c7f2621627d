//! The arguments of `ship`.

use std::path::PathBuf;

use clap::Args;

/// `ship`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report ship [OPTIONS] <DEST> <FILE>...")]
#[command(after_help = "\
Examples:
  icecore-report ship /mnt/profiles /var/lib/icecore/h-*.icecore
  icecore-report ship s3://profiles/web-03 demo.icecore
  icecore-report ship ssh://me@archive-host:2222/var/profiles demo.icecore
  icecore-record -a --rotate 10min --ship /mnt/profiles/web-03

A file appears at DEST whole or not at all, under its own name. A file of the same name and the same bytes there counts as arrived; one \
with other bytes is an error, and stays. FILE stays as well: only icecore-record --ship removes what has arrived. A file that a \
recorder is writing is refused.

DEST is a folder, which must exist; s3://BUCKET/PREFIX, where and who in the variables AWS_ENDPOINT_URL, AWS_REGION, \
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; or ssh://[USER@]HOST[:PORT]/PATH and HOST:PATH, to which `sftp` copies \
without asking anything (ICECORE_SFTP names another program, and its options). If a folder or a bucket is an archive of icecore-report \
(`archive DIR add`), recordings are added to it.

Exit codes: 0 if all have arrived, 2 if one has not.")]
pub struct Ship {
    /// The archive: a folder, s3://BUCKET/PREFIX, ssh://HOST:PORT/PATH or HOST:PATH
    #[arg(value_name = "DEST", help_heading = "Arguments", display_order = 1)]
    pub to: String,
    /// Finished recordings
    #[arg(
        value_name = "FILE",
        help_heading = "Arguments",
        display_order = 2,
        required_unless_present = "requests"
    )]
    pub files: Vec<PathBuf>,
    /// Read paths from stdin, one a line, and answer each with one line of JSON: icecore-record starts it so
    #[arg(long, conflicts_with = "files", hide = true)]
    pub requests: bool,
}
