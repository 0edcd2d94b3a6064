//! Region and credentials for AWS, as `aws-config` finds them.
//!
//! Environment, shared files, web identity, container endpoint, instance metadata, then a role on top: the chain is
//! the library's, the HTTP it does goes through our client, so that bounds, deadlines, proxies and trusted
//! certificates are those of the discoverer. Proxies are for AWS only: whoever gives out credentials on this
//! machine or its link is asked directly. The endpoint of STS is the library's too, with `AWS_ENDPOINT_URL_STS`.
//! Contract: autodiscovery page, 12.1.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::sts::AssumeRoleProvider;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tokio::sync::Mutex;

use crate::discovery::Failure;
use crate::discovery::cloud::{Fresh, Kept, Lease, TOKEN_BYTES_MAX};
use crate::discovery::http::{Ask, Client, shown};
use crate::discovery::settings::Aws;

/// Region of signatures where an endpoint is configured and nothing names a region.
const REGION_DEFAULT: &str = "us-east-1";
/// Most that credentials are renewed before their end; machines of a fleet spread over its second half.
const EARLY_MAX: Duration = Duration::from_secs(300);
/// Name of the sessions of an assumed role.
const SESSION: &str = "ringway";

/// Who asks, and where.
#[derive(Clone, Debug)]
pub struct Account {
    /// Region.
    pub region: Arc<str>,
    /// Credentials.
    pub lease: Lease<Credentials>,
}

/// Where region and credentials come from.
#[derive(Debug)]
pub struct Chain {
    settings: Aws,
    wire: Wire,
    /// What the chain begins with instead of looking around: the keys of the configuration.
    base: Option<SharedCredentialsProvider>,
    found: Mutex<Option<Found>>,
    credentials: Kept<Credentials>,
}

#[derive(Clone, Debug)]
struct Found {
    region: Arc<str>,
    provider: SharedCredentialsProvider,
}

impl Chain {
    /// The chain of a discoverer; nothing is looked for yet.
    ///
    /// # Errors
    /// When the settings of block `http` cannot be used together.
    pub fn new(settings: &Aws) -> Result<Chain, Failure> {
        let wire = Wire {
            outside: Client::new(&settings.http)?,
            nearby: Client::direct(&settings.http)?,
            limits: (None, None),
        };
        let keys = settings.keys.as_ref().map(|(access, secret)| {
            let keys = Credentials::new(&**access, secret.expose(), None, None, "configuration");
            SharedCredentialsProvider::new(keys)
        });
        Ok(Chain {
            settings: settings.clone(),
            wire,
            base: keys,
            found: Mutex::new(None),
            credentials: Kept::new(early()),
        })
    }

    /// A chain that begins with this provider.
    #[cfg(test)]
    pub fn of(settings: &Aws, base: impl ProvideCredentials + 'static) -> Result<Chain, Failure> {
        let base = Some(SharedCredentialsProvider::new(base));
        Ok(Chain {
            base,
            ..Chain::new(settings)?
        })
    }

    /// Whether credentials are written in the configuration and used as they are: asking for them again is no use.
    pub fn is_fixed(&self) -> bool {
        self.settings.keys.is_some() && self.settings.role_arn.is_none()
    }

    /// Region and credentials, from before or found now.
    ///
    /// # Errors
    /// When one of them cannot be found.
    pub async fn account(&self) -> Result<Account, Failure> {
        let found = Box::pin(self.found()).await?;
        let lease = self.credentials.get(|| resolve(found.provider)).await?;
        Ok(Account {
            region: found.region,
            lease,
        })
    }

    /// Drops credentials that were refused, and where they were found: files are read once by the library, and may
    /// hold others now.
    pub async fn forget(&self, account: &Account) {
        self.credentials.forget(&account.lease).await;
        *self.found.lock().await = None;
    }

    async fn found(&self) -> Result<Found, Failure> {
        let mut kept = self.found.lock().await;
        if let Some(found) = &*kept {
            return Ok(found.clone());
        }
        let config = Box::pin(self.load()).await;
        let region = config.region().map(Region::as_ref).map(Arc::<str>::from);
        if let Some(region) = &region {
            check_region(region)?;
        } else if self.settings.http.endpoint.is_empty() {
            return Err(Failure::new(NO_REGION));
        }
        let found = Found {
            region: region.clone().unwrap_or_else(|| REGION_DEFAULT.into()),
            provider: Box::pin(self.provider(&config)).await?,
        };
        // Instance metadata that was silent once may name another region next time.
        if region.is_some() {
            *kept = Some(found.clone());
        }
        Ok(found)
    }

    async fn load(&self) -> SdkConfig {
        let wire = self.wire.clone();
        let client = http_client_fn(move |settings, _| wire.within(settings));
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(client);
        if let Some(region) = &self.settings.region {
            loader = loader.region(Region::new(region.to_string()));
        }
        if let Some(profile) = &self.settings.profile {
            loader = loader.profile_name(&**profile);
        }
        if let Some(base) = &self.base {
            loader = loader.credentials_provider(base.clone());
        }
        // The futures of the library are large.
        Box::pin(loader.load()).await
    }

    async fn provider(&self, config: &SdkConfig) -> Result<SharedCredentialsProvider, Failure> {
        let base = config
            .credentials_provider()
            .ok_or_else(|| Failure::new("no credentials for AWS"))?;
        let Some(role) = &self.settings.role_arn else {
            return Ok(base);
        };
        let region = config.region().cloned();
        let region = region.unwrap_or(Region::from_static(REGION_DEFAULT));
        let builder = AssumeRoleProvider::builder(&**role)
            .session_name(SESSION)
            .configure(config)
            .region(region);
        let provider = Box::pin(builder.build_from_provider(base)).await;
        Ok(SharedCredentialsProvider::new(provider))
    }
}

const NO_REGION: &str = "no region: set aws.region; tried AWS_REGION, AWS_DEFAULT_REGION, the profile of the shared \
     files, and instance metadata";

/// The region becomes part of a host name.
fn check_region(region: &str) -> Result<(), Failure> {
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match !region.is_empty() && region.len() <= 63 && region.bytes().all(is_fine) {
        true => Ok(()),
        false => Err(Failure::new("the region that was found is none")),
    }
}

/// Between half of [`EARLY_MAX`] and all of it.
fn early() -> Duration {
    let nanos = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    EARLY_MAX / 2 + EARLY_MAX / 2 * (nanos % 1000) / 1000
}

async fn resolve(provider: SharedCredentialsProvider) -> Result<Fresh<Credentials>, Failure> {
    let credentials = provider
        .provide_credentials()
        .await
        .map_err(|error| Failure::new(format!("credentials for AWS: {}", causes(&error))))?;
    let life = credentials
        .expiry()
        .map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
    Ok(Fresh {
        value: credentials,
        life,
    })
}

fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    shown(&text)
}

// === The library's HTTP ===

/// Our client, as the library's.
#[derive(Clone, Debug)]
struct Wire {
    outside: Client,
    nearby: Client,
    /// Of connecting and of reading, as the library wants them.
    limits: (Option<Duration>, Option<Duration>),
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let wire = self.clone();
        HttpConnectorFuture::new(async move {
            let ask = asked(&request).map_err(|failure| ConnectorError::user(failure.into()))?;
            let client = match is_nearby(&ask.url) {
                true => &wire.nearby,
                false => &wire.outside,
            };
            let answering = client.ask_plain(ask);
            let answer = match wire.limit() {
                Some(limit) => tokio::time::timeout(limit, answering)
                    .await
                    .map_err(|elapsed| ConnectorError::timeout(elapsed.into()))?,
                None => answering.await,
            };
            let answer = answer.map_err(|failure| ConnectorError::io(failure.into()))?;
            let status = answer.status.as_u16().try_into();
            let status = status.map_err(|_| ConnectorError::io("not a status".into()))?;
            let mut response = HttpResponse::new(status, answer.body.to_vec().into());
            for (name, value) in &answer.headers {
                if let Ok(value) = value.to_str() {
                    let _ = response
                        .headers_mut()
                        .try_append(name.as_str().to_owned(), value.to_owned());
                }
            }
            Ok(response)
        })
    }
}

impl Wire {
    fn within(&self, settings: &HttpConnectorSettings) -> SharedHttpConnector {
        SharedHttpConnector::new(Wire {
            limits: (settings.connect_timeout(), settings.read_timeout()),
            ..self.clone()
        })
    }

    fn limit(&self) -> Option<Duration> {
        match self.limits {
            (Some(connect), Some(read)) => Some(connect + read),
            // A limit for one of the two leaves the other to the client's.
            _ => None,
        }
    }
}

fn asked(request: &HttpRequest) -> Result<Ask, Failure> {
    let cannot = || Failure::new("a request of aws-config cannot be sent");
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| cannot())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| cannot())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(Ask {
        method: Method::from_bytes(request.method().as_bytes()).map_err(|_| cannot())?,
        url: Url::parse(request.uri()).map_err(|_| cannot())?,
        headers,
        body: Bytes::copy_from_slice(request.body().bytes().ok_or_else(cannot)?),
        body_bytes_max: TOKEN_BYTES_MAX,
    })
}

/// Whether a host is this machine or on its link, as those of instance metadata and container credentials are.
fn is_nearby(url: &Url) -> bool {
    use std::net::IpAddr;
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            let is_unique_local = address.segments()[0] & 0xfe00 == 0xfc00;
            address.is_loopback() || is_unique_local || address.is_unicast_link_local()
        }
        Err(_) => host == "localhost",
    }
}

#[cfg(test)]
mod tests;
