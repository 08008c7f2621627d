//! What profiles say of the machine that was recorded, and of who writes them.

use icecore_format::records::SessionV1;

use super::PROTO_VERSION;
use super::messages::{AnyValue, KeyValue, Resource, Scope};
use crate::exported::Exported;

/// Describes the machine of a session. Labels are attributes under their own names, and `service` is the name of the service, too.
pub(super) fn resource(session: &SessionV1) -> Resource {
    let arch = match &*session.arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mut attributes = Attributes::default();
    attributes.add("host.name", &session.host);
    attributes.add("host.arch", arch);
    attributes.add("os.type", "linux");
    attributes.add("icecore.kernel.release", &session.kernel_release);
    attributes.add("icecore.boot_id", &session.boot_id);
    session.labels.iter().for_each(|label| attributes.add(&label.key, &label.value));
    let service = session.labels.iter().find(|label| label.key == "service");
    service.into_iter().for_each(|label| attributes.add("service.name", &label.value));
    Resource { attributes: attributes.0 }
}

/// Describes who writes profiles, and how good the data is.
pub(super) fn scope(of: &Exported<'_>) -> Scope {
    let mut attributes = Attributes::default();
    // The messages of other versions have the same package.
    attributes.add("icecore.otlp.proto_version", PROTO_VERSION);
    attributes.0.push(key_value("icecore.remarks", of.remarks().as_slice()));
    Scope {
        name: "icecore".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        attributes: attributes.0,
    }
}

/// Attributes, each of which has another key.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    /// Adds an attribute, unless it says nothing, or its key is taken.
    fn add(&mut self, key: &str, value: &str) {
        if !key.is_empty() && !value.is_empty() && self.0.iter().all(|known| known.key != key) {
            self.0.push(key_value(key, value));
        }
    }
}

fn key_value(key: &str, value: impl Into<AnyValue>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value.into()) }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::LabelV1;

    use super::*;

    #[test]
    fn a_label_is_an_attribute_and_cannot_replace_another() {
        let label = |key: &str, value: &str| LabelV1 { key: key.to_owned(), value: value.to_owned() };
        let labels = vec![label("service", "shop"), label("host.name", "liar"), label("service", "again")];
        let session =
            SessionV1 { host: "h1".to_owned(), arch: "x86_64".to_owned(), labels, ..SessionV1::default() };
        let resource = resource(&session);
        let value = |text: &str| KeyValue { key: text.to_owned(), value: None };
        let keys: Vec<&str> = resource.attributes.iter().map(|it| &*it.key).collect();
        assert_eq!(keys, ["host.name", "host.arch", "os.type", "service", "service.name"]);
        assert_eq!(resource.attributes[0], KeyValue { value: Some("h1".into()), ..value("host.name") });
        assert_eq!(resource.attributes[4], KeyValue { value: Some("shop".into()), ..value("service.name") });
    }
}
