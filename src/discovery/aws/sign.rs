//! Signatures of requests to AWS, version 4, by `aws-sigv4`.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign as make};
use aws_sigv4::sign::v4;
use hyper::header::{HeaderName, HeaderValue};

use crate::discovery::Failure;
use crate::discovery::http::Ask;

/// Where a signature is good.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Region.
    pub region: &'a str,
    /// Service, as signatures call it.
    pub service: &'a str,
}

/// Adds the headers that sign a request as it is, with its body.
///
/// # Errors
/// When something of it cannot be signed.
pub fn sign(
    ask: &mut Ask,
    credentials: &Credentials,
    scope: Scope<'_>,
    now: SystemTime,
) -> Result<(), Failure> {
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|_| cannot())?
        .into();
    let headers = ask
        .headers
        .iter()
        .map(|(name, value)| Ok((name.as_str(), value.to_str().map_err(|_| cannot())?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let request = SignableRequest::new(
        ask.method.as_str(),
        ask.url.as_str(),
        headers.into_iter(),
        SignableBody::Bytes(&ask.body),
    );
    let signed = request.and_then(|request| make(request, &params));
    let (instructions, _) = signed.map_err(|_| cannot())?.into_parts();
    let (additions, _) = instructions.into_parts();
    for header in additions {
        let mut value = HeaderValue::from_str(header.value()).map_err(|_| cannot())?;
        value.set_sensitive(true);
        ask.headers
            .insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}

/// The errors of the library may repeat what was to be signed.
fn cannot() -> Failure {
    Failure::new("a request to AWS cannot be signed")
}

#[cfg(test)]
mod tests;
