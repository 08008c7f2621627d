//! Numbers that identify what was exported, for formats whose readers leave out what they have already.

use icecore_profile::named::Amount;
use ring::digest::{Context, SHA256};

use crate::exported::Exported;

/// Identifies samples of a recording. The same samples always have the same number; others have another one: of another session, with other
/// filters, or with another sum.
pub(crate) fn identity(of: &Exported<'_>, part: Option<u32>, event: &str, amount: Amount) -> [u8; 16] {
    let mut digest = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        digest.update(&(bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    for session in of.report.loaded.tables.parts.iter().map(|part| &part.session) {
        add(session.host.as_bytes());
        add(session.boot_id.as_bytes());
        add(&session.start_ns.to_le_bytes());
        add(&session.start_unix_ns.to_le_bytes());
    }
    of.report.filtered.iter().for_each(|filter| add(filter.as_bytes()));
    add(&part.unwrap_or(u32::MAX).to_le_bytes());
    add(event.as_bytes());
    add(&amount.samples.to_le_bytes());
    add(&amount.weight.to_le_bytes());
    let mut identity = [0; 16];
    identity.copy_from_slice(&digest.finish().as_ref()[..16]);
    identity
}
