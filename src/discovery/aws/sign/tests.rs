//! What is part of a signature; the signature itself is the library's.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, Url};

use super::*;

fn ask() -> Ask {
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    Ask {
        method: Method::POST,
        url: Url::parse("https://ec2.us-east-1.amazonaws.com:8443/prefix/").unwrap(),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, form)]),
        body: Bytes::from_static(b"Action=DescribeInstances"),
        body_bytes_max: 1,
    }
}

fn signature(ask: &mut Ask, credentials: &Credentials) -> String {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
    let scope = Scope {
        region: "us-east-1",
        service: "ec2",
    };
    sign(ask, credentials, scope, now).unwrap();
    let value = &ask.headers["authorization"];
    assert!(value.is_sensitive());
    value.to_str().unwrap().to_owned()
}

#[test]
fn host_time_type_and_session_are_signed() {
    let session = Some("session-0".to_owned());
    let credentials = Credentials::new("AKID0", "hunter2", session, None, "test");
    let mut ask = ask();
    let text = signature(&mut ask, &credentials);
    let wanted = "AWS4-HMAC-SHA256 Credential=AKID0/20150830/us-east-1/ec2/aws4_request, \
                  SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
    assert!(text.starts_with(wanted), "{text}");
    assert_eq!(ask.headers["x-amz-date"], "20150830T123600Z");
    assert_eq!(ask.headers["x-amz-security-token"], "session-0");
    assert!(!format!("{ask:?}").contains("session-0"));
}

#[test]
fn body_and_place_are_part_of_the_signature() {
    let credentials = Credentials::new("AKID0", "hunter2", None, None, "test");
    let first = signature(&mut ask(), &credentials);
    assert_eq!(first, signature(&mut ask(), &credentials));
    let mut other = ask();
    other.body = Bytes::from_static(b"Action=TerminateInstances");
    assert_ne!(first, signature(&mut other, &credentials));
    let mut other = ask();
    other.url.set_port(None).unwrap();
    assert_ne!(first, signature(&mut other, &credentials));
}
