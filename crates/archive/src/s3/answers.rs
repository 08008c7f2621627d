//! Reads what an object store answers in XML.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use crate::store::Stored;

/// A page of a listing, `ListObjectsV2`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    #[serde(default)]
    contents: Vec<Contents>,
    next_continuation_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Contents {
    key: String,
    last_modified: Timestamp,
    size: u64,
}

/// What was listed, and what names the next page.
pub(super) struct Page {
    pub(super) files: Vec<Stored>,
    pub(super) next: Option<String>,
}

/// Reads a page of a listing. What does not begin with the prefix, or has a part that begins with a dot, is left out.
pub(super) fn page(xml: &str, prefix: &str) -> Result<Page, quick_xml::DeError> {
    let listing: Listing = quick_xml::de::from_str(xml)?;
    let stored = |Contents { key, last_modified, size }: Contents| {
        let name = PathBuf::from(key.strip_prefix(prefix)?);
        let is_hidden = |name: &Path| name.iter().any(|part| part.as_encoded_bytes().starts_with(b"."));
        let is_file = !key.ends_with('/') && !is_hidden(&name);
        is_file.then_some(Stored { name, bytes: size, modified: last_modified.into() })
    };
    let files = listing.contents.into_iter().filter_map(stored).collect();
    Ok(Page { files, next: listing.next_continuation_token.filter(|token| !token.is_empty()) })
}

/// Why a request was refused.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Refusal {
    /// `NoSuchKey`, `AccessDenied` …
    pub(super) code: String,
    pub(super) message: String,
}

/// Reads why a request was refused; nothing if the answer does not say it.
pub(super) fn refusal(xml: &str) -> Refusal {
    quick_xml::de::from_str(xml).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_and_refusals_are_read_and_foreign_keys_left_out() {
        let contents = |key: &str| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-09-01T00:00:01.000Z</LastModified>\
                 <ETag>&quot;x&quot;</ETag><Size>7</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )
        };
        let xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Name>b</Name><Prefix>p/</Prefix><KeyCount>5</KeyCount><IsTruncated>true</IsTruncated>{}{}{}{}{}\
             <NextContinuationToken>1/a==</NextContinuationToken></ListBucketResult>",
            contents("p/day=1/a&amp;b"),
            contents("p/.tmp/x"),
            contents("p/.x"),
            contents("p/folder/"),
            contents("q/x")
        );
        let Page { files, next } = page(&xml, "p/").expect("a page");
        let second = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_788_220_801);
        assert_eq!(files, [Stored { name: "day=1/a&b".into(), bytes: 7, modified: second }]);
        assert_eq!(next.as_deref(), Some("1/a=="));
        let empty = "<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated></ListBucketResult>";
        assert!(page(empty, "").is_ok_and(|page| page.files.is_empty() && page.next.is_none()));
        assert!(page("<html>", "").is_err() && page("", "").is_err());
        let said =
            refusal("<Error><Code>NoSuchKey</Code><Message>It is not there.</Message><Key>x</Key></Error>");
        assert_eq!((&*said.code, &*said.message), ("NoSuchKey", "It is not there."));
        assert_eq!(refusal("gateway").code, "");
    }
}
