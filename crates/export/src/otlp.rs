//! OpenTelemetry's profiles: a message of protocol buffers, which is `ProfilesData` and the body of a request to a collector, too.
//!
//! | room | what lives there |
//! |---|---|
//! | `groups` | samples that become one message |
//! | `code` | places of code, and what samples say besides |
//! | `dictionary` | tables of what all profiles refer to |
//! | `resource` | machine and writer |
//! | `nested` | messages that are too large for memory |
//!
//! Each event of a session is a profile: its samples have times and weights. The messages are those of one version of the protocol, which is still
//! changing; the attribute `icecore.otlp.proto_version` of the scope says which one, because the messages themselves do not.

mod code;
mod dictionary;
mod groups;
mod messages;
mod nested;
mod resource;

use std::io::{self, Write};

use icecore_profile::named::Amount;
use prost::Message as _;
use prost::encoding::{encoded_len_varint, key_len};

use crate::exported::Exported;
use crate::format::Format;
use crate::identity::identity;
use crate::kept::Fact;
use crate::wire;
use code::Code;
use dictionary::Dictionary;
use groups::{Groups, Profile};
use messages::data::RESOURCE_PROFILES;
use messages::resource_profiles::{RESOURCE, SCOPE_PROFILES};
use messages::scope_profiles::{PROFILES, SCOPE};
use messages::{ProfileHead, SAMPLES, Sample, ValueType};

/// The version of opentelemetry-proto whose messages are written.
const PROTO_VERSION: &str = "1.10.0";

/// The format.
#[derive(Debug)]
pub struct Otlp;

impl Format for Otlp {
    fn name(&self) -> &'static str {
        "otlp"
    }

    fn version(&self) -> Option<&'static str> {
        Some("v1development of opentelemetry-proto 1.10.0, alpha")
    }

    fn is_text(&self) -> bool {
        false
    }

    fn keeps(&self) -> &'static [Fact] {
        &[
            Fact::Inlined,
            Fact::Lines,
            Fact::Images,
            Fact::BuildIds,
            Fact::Addresses,
            Fact::Sides,
            Fact::Times,
            Fact::Cpus,
            Fact::Threads,
            Fact::Processes,
            Fact::Cgroups,
            Fact::Hosts,
            Fact::Events,
            Fact::Units,
            Fact::Samples,
            Fact::Waits,
            Fact::Verdict,
            Fact::Incomplete,
            Fact::Guesses,
        ]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let mut code = Code::new(of);
        let groups = Groups::new(of, |key| code.identity(key));
        let profiles = groups.profiles(|event| of.events[event].is_usual);
        let mut writer = Writer { of, groups: &groups, dictionary: code.dictionary };
        for profiles in profiles.chunk_by(|a, b| a.part == b.part) {
            writer.session(profiles, out)?;
        }
        writer.dictionary.write(out)
    }
}

/// The growing message.
struct Writer<'a> {
    of: &'a Exported<'a>,
    groups: &'a Groups,
    dictionary: Dictionary,
}

impl Writer<'_> {
    /// Writes the profiles of a session.
    fn session(&mut self, profiles: &[Profile], out: &mut dyn Write) -> io::Result<()> {
        let resource = resource::resource(&self.of.report.loaded.tables.parts.part(profiles[0].part).session);
        let scope = resource::scope(self.of);
        let mut lens = Vec::new();
        for profile in profiles {
            lens.push(nested::measured(|out| self.profile(profile, out))?);
        }
        let profiles_len: u64 = lens.iter().map(|len| field_len(PROFILES, *len)).sum();
        let scope_len = field_len(SCOPE, scope.encoded_len() as u64) + profiles_len;
        let len = field_len(RESOURCE, resource.encoded_len() as u64) + field_len(SCOPE_PROFILES, scope_len);
        nested::head(RESOURCE_PROFILES, len, out)?;
        wire::message(RESOURCE, &resource, out)?;
        nested::head(SCOPE_PROFILES, scope_len, out)?;
        wire::message(SCOPE, &scope, out)?;
        for (profile, len) in profiles.iter().zip(lens) {
            nested::head(PROFILES, len, out)?;
            self.profile(profile, out)?;
        }
        Ok(())
    }

    fn profile(&mut self, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.head(profile).encode_to_vec())?;
        for group in &profile.groups {
            wire::message(SAMPLES, &self.sample(*group), out)?;
        }
        Ok(())
    }

    /// Makes all of a profile but its samples.
    fn head(&mut self, profile: &Profile) -> ProfileHead {
        let of = self.of;
        let event = &of.events[profile.event];
        let part = of.report.loaded.tables.parts.part(profile.part);
        let mut begin_ns = part.time_ns(part.start_ns());
        let mut end_ns = part.receipt.as_ref().map_or(begin_ns, |receipt| part.time_ns(receipt.end_ns));
        let mut amount = Amount::default();
        for position in profile.groups.iter().flat_map(|group| self.groups.samples(*group)) {
            let moment = of.sample(*position).moment;
            begin_ns = begin_ns.min(moment.time_ns);
            // The end is no time of a sample.
            end_ns = end_ns.max(moment.time_ns.saturating_add(1));
            amount.add(Amount { samples: 1, weight: moment.weight });
        }
        let dictionary = &mut self.dictionary;
        let kind = ValueType { r#type: dictionary.text(&event.name), unit: dictionary.text(&event.unit) };
        let begin_unix_ns = unix_ns(of, begin_ns);
        ProfileHead {
            sample_type: Some(kind),
            time_unix_nano: begin_unix_ns,
            duration_nano: unix_ns(of, end_ns).saturating_sub(begin_unix_ns),
            period_type: (event.period > 0).then_some(kind),
            period: wire::signed(event.period),
            profile_id: identity(of, Some(profile.part), &event.name, amount).to_vec(),
        }
    }

    fn sample(&self, group: u32) -> Sample {
        let of = self.of;
        let identity = &self.groups.identities[group as usize];
        let positions = self.groups.samples(group);
        let moments = positions.iter().map(|position| of.sample(*position).moment);
        Sample {
            stack: identity.stack,
            attributes: identity.attributes.clone(),
            values: moments.clone().map(|moment| wire::signed(moment.weight)).collect(),
            timestamps_unix_nano: moments.map(|moment| unix_ns(of, moment.time_ns)).collect(),
        }
    }
}

/// Returns a moment of the recording as ns since 1970-01-01 UTC.
fn unix_ns(of: &Exported<'_>, time_ns: u64) -> u64 {
    let zero_ns = of.report.loaded.tables.parts.zero_ns();
    of.begin_unix_ns().saturating_add(time_ns).saturating_sub(zero_ns)
}

/// Returns the length of a field with its head.
fn field_len(tag: u32, len: u64) -> u64 {
    key_len(tag) as u64 + encoded_len_varint(len) as u64 + len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_format_is_that_of_the_messages() {
        assert!(Otlp.version().is_some_and(|version| version.contains(PROTO_VERSION)));
    }
}
