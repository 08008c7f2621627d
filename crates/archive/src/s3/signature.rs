//! Signs requests: AWS Signature Version 4.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use ring::hmac;

/// Who asks.
pub(super) struct Signer {
    pub(super) access_key: String,
    pub(super) secret_key: String,
    /// What goes with temporary keys.
    pub(super) session_token: Option<String>,
    pub(super) region: String,
}

/// A request as it is signed.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// Its path, [`encoded`].
    pub(super) path: &'a str,
    /// Its query: names and values encoded, in the order of the names.
    pub(super) query: &'a str,
    /// Headers that are signed besides, in small letters.
    pub(super) headers: &'a [(&'a str, String)],
    /// The SHA-256 of its body, hexadecimal.
    pub(super) body_hash: &'a str,
}

impl Signer {
    /// Returns all headers of a request that is sent at this moment, but `host`.
    pub(super) fn headers(&self, request: &Signed<'_>, now: Timestamp) -> Vec<(String, String)> {
        let now = now.to_zoned(TimeZone::UTC);
        let (day, moment) = (now.strftime("%Y%m%d").to_string(), now.strftime("%Y%m%dT%H%M%SZ").to_string());
        let mut headers = vec![
            ("host".to_owned(), request.host.to_owned()),
            ("x-amz-content-sha256".to_owned(), request.body_hash.to_owned()),
            ("x-amz-date".to_owned(), moment.clone()),
        ];
        let token = self.session_token.iter().map(|token| ("x-amz-security-token".to_owned(), token.clone()));
        headers.extend(token);
        headers.extend(request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|header| &*header.0).collect();
        let names = names.join(";");
        let Signed { method, path, query, body_hash, .. } = request;
        let mut canonical = format!("{method}\n{path}\n{query}\n");
        for (name, value) in &headers {
            canonical += &format!("{name}:{}\n", value.trim());
        }
        canonical += &format!("\n{names}\n{body_hash}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let hash = hexadecimal(digest(&SHA256, canonical.as_bytes()).as_ref());
        let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hash}");
        let mut key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in [&*day, &*self.region, "s3", "aws4_request"] {
            key = mac(&key, part);
        }
        let signature = hexadecimal(&mac(&key, &text));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
            self.access_key
        );
        headers.retain(|header| header.0 != "host");
        headers.push(("authorization".to_owned(), authorization));
        headers
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Writes bytes as hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("bug: a text takes everything");
        text
    })
}

/// Writes a text as a part of a URL: all bytes but letters, digits, `-`, `_`, `.`, `~` and those that are `kept` as `%XX`.
pub(super) fn encoded(text: &str, kept: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let letter = char::from(byte);
        if letter.is_ascii_alphanumeric() || "-_.~".contains(letter) || kept.contains(letter) {
            encoded.push(letter);
        } else {
            write!(encoded, "%{byte:02X}").expect("bug: a text takes everything");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of nothing.
    const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn signature(signed: &Signed<'_>, session_token: Option<&str>) -> String {
        let signer = Signer {
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session_token: session_token.map(str::to_owned),
            region: "us-east-1".into(),
        };
        let headers = signer.headers(signed, "2013-05-24T00:00:00Z".parse().expect("a moment"));
        let (_, value) = headers.last().expect("headers");
        value.split("Signature=").nth(1).expect("a signature").to_owned()
    }

    #[test]
    fn requests_are_signed_as_the_examples_of_the_reference() {
        // Amazon S3 API Reference, "Signature Calculations for the Authorization Header".
        let host = "examplebucket.s3.amazonaws.com";
        let range = [("range", "bytes=0-9".to_owned())];
        let get =
            Signed { method: "GET", host, path: "/test.txt", query: "", headers: &range, body_hash: NOTHING };
        assert_eq!(signature(&get, None), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        assert_ne!(signature(&get, Some("token")), signature(&get, None));
        let put = Signed {
            method: "PUT",
            host,
            path: &encoded("/test$file.text", "/"),
            query: "",
            headers: &[
                ("date", "Fri, 24 May 2013 00:00:00 GMT".to_owned()),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY".to_owned()),
            ],
            body_hash: &hexadecimal(digest(&SHA256, b"Welcome to Amazon S3.").as_ref()),
        };
        assert_eq!(signature(&put, None), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
        let list = Signed {
            method: "GET",
            host,
            path: "/",
            query: "max-keys=2&prefix=J",
            headers: &[],
            body_hash: NOTHING,
        };
        assert_eq!(
            signature(&list, None),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn names_are_encoded_byte_by_byte() {
        assert_eq!(encoded("day=1/ü+x~", "/"), "day%3D1/%C3%BC%2Bx~");
        assert_eq!(encoded("a/b", ""), "a%2Fb");
    }
}
