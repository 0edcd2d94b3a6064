//! Tokens for Azure: three requests, one for each way of being somebody.
//!
//! There is no chain: what is configured works, or the reading fails. Contract: autodiscovery page, 14.1.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use ringway_shards::plan::Secret;

use crate::discovery::Failure;
use crate::discovery::cloud::{Fresh, TOKEN_BYTES_MAX, form, parse_token, segment, token_refused};
use crate::discovery::http::{Ask, Client, read_token, url};
use crate::discovery::settings::{Azure, AzureCloud, AzureIdentity};

/// How long before its end a token is renewed.
pub const EARLY: Duration = Duration::from_secs(120);
const METADATA: &str = "http://169.254.169.254";
const METADATA_PATH: &str = "/metadata/identity/oauth2/token";
const METADATA_API_VERSION: &str = "2018-02-01";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const WHAT: &str = "token of Azure";

/// Base URLs of a cloud, without a final `/`.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The resource manager; its tokens are for this, wherever it is asked.
    pub resource_manager: String,
    /// Who knows service principals.
    pub login: String,
    /// Who knows managed identities, on this machine's link.
    pub metadata: String,
}

impl Hosts {
    /// Those of a cloud; `AZURE_POD_IDENTITY_AUTHORITY_HOST` replaces the metadata service.
    pub fn of(cloud: AzureCloud) -> Hosts {
        let (resource_manager, login) = match cloud {
            AzureCloud::Public => (
                "https://management.azure.com",
                "https://login.microsoftonline.com",
            ),
            AzureCloud::UsGovernment => (
                "https://management.usgovcloudapi.net",
                "https://login.microsoftonline.us",
            ),
            AzureCloud::China => (
                "https://management.chinacloudapi.cn",
                "https://login.chinacloudapi.cn",
            ),
        };
        let metadata = env::var("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or_default();
        Hosts {
            resource_manager: resource_manager.to_owned(),
            login: login.to_owned(),
            metadata: match metadata.trim() {
                "" => METADATA.to_owned(),
                host => host.to_owned(),
            },
        }
    }
}

/// Who ringway is.
#[derive(Debug)]
pub struct Identity {
    outside: Client,
    nearby: Client,
    configured: AzureIdentity,
    hosts: Hosts,
}

impl Identity {
    /// The identity that is configured.
    ///
    /// # Errors
    /// When the settings of block `http` cannot be used together.
    pub fn new(settings: &Azure, hosts: Hosts) -> Result<Identity, Failure> {
        Ok(Identity {
            outside: Client::new(&settings.http)?,
            nearby: Client::direct(&settings.http)?,
            configured: settings.identity.clone(),
            hosts,
        })
    }

    /// A new token.
    ///
    /// # Errors
    /// When there is none.
    pub async fn token(&self) -> Result<Fresh<Arc<Secret>>, Failure> {
        let answer = match &self.configured {
            AzureIdentity::Managed { client_id } => {
                let ask = self.managed(client_id.as_deref())?;
                self.nearby.ask_plain(ask).await?
            }
            AzureIdentity::Secret {
                tenant_id,
                client_id,
                secret,
            } => {
                let proof = [("client_secret", secret.expose())];
                let ask = self.principal(tenant_id, client_id, &proof)?;
                self.outside.ask_plain(ask).await?
            }
            AzureIdentity::Federated {
                tenant_id,
                client_id,
                token_file,
            } => {
                let assertion = read_token(token_file).await?;
                let proof = [
                    ("client_assertion_type", ASSERTION),
                    ("client_assertion", &assertion),
                ];
                let ask = self.principal(tenant_id, client_id, &proof)?;
                self.outside.ask_plain(ask).await?
            }
        };
        match answer.status {
            StatusCode::OK => parse_token(WHAT, &answer.body),
            _ => Err(token_refused(WHAT, &answer)),
        }
    }

    fn managed(&self, client_id: Option<&str>) -> Result<Ask, Failure> {
        let resource = format!("{}/", self.hosts.resource_manager);
        let mut pairs = vec![
            ("api-version", METADATA_API_VERSION),
            ("resource", &resource),
        ];
        if let Some(client_id) = client_id {
            pairs.push(("client_id", client_id));
        }
        let base = &self.hosts.metadata;
        let mut ask = Ask::get(url(base, METADATA_PATH, &pairs)?, TOKEN_BYTES_MAX);
        let name = HeaderName::from_static("metadata");
        ask.headers.insert(name, HeaderValue::from_static("true"));
        Ok(ask)
    }

    fn principal(
        &self,
        tenant_id: &str,
        client_id: &str,
        proof: &[(&str, &str)],
    ) -> Result<Ask, Failure> {
        let path = format!("/{}/oauth2/v2.0/token", segment(tenant_id));
        let scope = format!("{}/.default", self.hosts.resource_manager);
        let mut pairs = vec![
            ("grant_type", "client_credentials"),
            ("client_id", client_id),
            ("scope", &scope),
        ];
        pairs.extend_from_slice(proof);
        Ok(form(url(&self.hosts.login, &path, &[])?, &pairs))
    }
}

#[cfg(test)]
mod tests;
