//! Tokens for Google Cloud, and the project they come with.
//!
//! A configured key file is of a service account. Otherwise application default credentials: the file that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, the one `gcloud` leaves, then the metadata server. Types of files that
//! name arbitrary token addresses or programs are refused. Files are read whenever a token is needed, so that they
//! may change. Contract: autodiscovery page, 13.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use reqwest::Url;
use ringway_shards::plan::Secret;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::json;

use crate::discovery::Failure;
use crate::discovery::cloud::{
    Fresh, TOKEN_BYTES_MAX, form, not_understood, or_default, parse_token, token_refused,
};
use crate::discovery::http::{Answer, Ask, Client, url};
use crate::discovery::settings::Gcp;

/// How long before its end a token is renewed: the metadata server gives out the same one until 4 minutes before.
pub const EARLY: Duration = Duration::from_secs(225);
const SCOPE: &str = "https://www.googleapis.com/auth/compute.readonly";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const JWT_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Life of what is signed to get a token, the most that Google takes.
const JWT_LIFE: Duration = Duration::from_secs(3600);
/// How far in the past it begins, for clocks that are ahead.
const JWT_SLACK: Duration = Duration::from_secs(10);
const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const PROJECT_PATH: &str = "/computeMetadata/v1/project/project-id";
/// Most bytes of the name of a project, with its domain.
const PROJECT_BYTES_MAX: usize = 128;
const WHAT: &str = "token of Google Cloud";

/// What the environment says of default credentials.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The file it names.
    pub named_file: Option<PathBuf>,
    /// The file of `gcloud`; need not exist.
    pub user_file: Option<PathBuf>,
    /// Base URL of the metadata server.
    pub metadata: String,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_environment() -> Surroundings {
        let path = |name| env::var_os(name).filter(|value| !value.is_empty());
        let folder = path("CLOUDSDK_CONFIG").map(PathBuf::from);
        let folder =
            folder.or_else(|| Some(PathBuf::from(path("HOME")?).join(".config").join("gcloud")));
        let host = env::var("GCE_METADATA_HOST").unwrap_or_default();
        let host = match host.trim() {
            "" => "metadata.google.internal",
            host => host,
        };
        Surroundings {
            named_file: path("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
            user_file: folder.map(|folder| folder.join("application_default_credentials.json")),
            metadata: format!("http://{host}"),
        }
    }
}

/// Who asks, and about what.
#[derive(Clone, Debug)]
pub struct Account {
    /// Access token.
    pub token: Arc<Secret>,
    /// Project.
    pub project: Arc<str>,
}

/// Finds accounts.
#[derive(Debug)]
pub struct Finder {
    outside: Client,
    nearby: Client,
    project: Option<Box<str>>,
    key_file: Option<PathBuf>,
    surroundings: Surroundings,
}

/// A file with credentials, as far as it is supported.
pub enum File {
    /// Key of a service account.
    Service(ServiceKey),
    /// What a user granted.
    User(UserGrant),
}

/// Key of a service account. Has no `Debug`: it is a secret.
#[derive(Deserialize)]
pub struct ServiceKey {
    client_email: String,
    private_key: Secreted,
    #[serde(default, deserialize_with = "or_default")]
    private_key_id: String,
    #[serde(default, deserialize_with = "or_default")]
    project_id: String,
    #[serde(default = "token_uri")]
    token_uri: String,
}

/// What a user granted `gcloud`. Has no `Debug`: it is a secret.
#[derive(Deserialize)]
pub struct UserGrant {
    client_id: String,
    client_secret: Secreted,
    refresh_token: Secreted,
    #[serde(default = "token_uri")]
    token_uri: String,
}

#[derive(Deserialize)]
#[serde(from = "String")]
struct Secreted(Secret);

impl From<String> for Secreted {
    fn from(text: String) -> Secreted {
        Secreted(Secret::new(text))
    }
}

fn token_uri() -> String {
    TOKEN_URI.to_owned()
}

/// Reads a file with credentials.
///
/// # Errors
/// When it is none, or of a type that is not supported. Nothing of it but its type is in the failure.
pub fn parse_file(text: &[u8]) -> Result<File, Failure> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type", default, deserialize_with = "or_default")]
        kind: String,
    }
    const FILE: &str = "credentials of Google Cloud";
    let understood = |error| not_understood(FILE, &error);
    let typed: Typed = serde_json::from_slice(text).map_err(understood)?;
    match &*typed.kind {
        "service_account" => serde_json::from_slice(text).map(File::Service),
        "authorized_user" => serde_json::from_slice(text).map(File::User),
        other => {
            let shown = crate::discovery::http::shown(other);
            let reason = format!("{FILE}: type {shown:?} is not supported");
            return Err(Failure::new(reason));
        }
    }
    .map_err(understood)
}

/// Reads a key file of a service account.
///
/// # Errors
/// When it is none, also when it holds other credentials: those could lead anywhere.
pub fn parse_service_key(text: &[u8]) -> Result<ServiceKey, Failure> {
    match parse_file(text)? {
        File::Service(key) => Ok(key),
        File::User(_) => Err(Failure::new(
            "gcp.credentials_file: must be a key of a service account; without it, application default credentials \
             are used, and they may be a user's",
        )),
    }
}

impl Finder {
    /// A finder that looks as the settings say, and around itself.
    ///
    /// # Errors
    /// When the settings of block `http` cannot be used together.
    pub fn new(settings: &Gcp, surroundings: Surroundings) -> Result<Finder, Failure> {
        Ok(Finder {
            outside: Client::new(&settings.http)?,
            nearby: Client::direct(&settings.http)?,
            project: settings.project.clone(),
            key_file: settings.credentials_file.clone(),
            surroundings,
        })
    }

    /// A new token, and the project.
    ///
    /// # Errors
    /// When either cannot be found.
    pub async fn account(&self) -> Result<Fresh<Account>, Failure> {
        let file = self.file().await?;
        let fresh = match &file {
            Some(File::Service(key)) => self.exchange(key).await?,
            Some(File::User(grant)) => self.refresh(grant).await?,
            None => {
                let answer = self.metadata(TOKEN_PATH).await?;
                parse_token(WHAT, &answer.body)?
            }
        };
        let project = match (&self.project, &file) {
            (Some(project), _) => project.to_string(),
            (None, Some(File::Service(key))) if !key.project_id.is_empty() => {
                key.project_id.clone()
            }
            _ => self.project().await?,
        };
        Ok(Fresh {
            value: Account {
                token: fresh.value,
                project: project.into(),
            },
            life: fresh.life,
        })
    }

    /// The file to use; `None`: the metadata server.
    async fn file(&self) -> Result<Option<File>, Failure> {
        if let Some(file) = &self.key_file {
            let key = parse_service_key(&read(file).await?).map_err(|failure| at(file, failure))?;
            return Ok(Some(File::Service(key)));
        }
        if let Some(file) = &self.surroundings.named_file {
            let found = parse_file(&read(file).await?).map_err(|failure| at(file, failure))?;
            return Ok(Some(found));
        }
        let Some(file) = &self.surroundings.user_file else {
            return Ok(None);
        };
        match tokio::fs::read(file).await {
            Ok(text) => parse_file(&text)
                .map(Some)
                .map_err(|failure| at(file, failure)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(file, Failure::new(error.to_string()))),
        }
    }

    async fn exchange(&self, key: &ServiceKey) -> Result<Fresh<Arc<Secret>>, Failure> {
        let assertion = assertion(key, SystemTime::now())?;
        let pairs = [("grant_type", JWT_GRANT), ("assertion", &assertion)];
        self.token(&key.token_uri, &pairs).await
    }

    async fn refresh(&self, grant: &UserGrant) -> Result<Fresh<Arc<Secret>>, Failure> {
        let pairs = [
            ("grant_type", "refresh_token"),
            ("client_id", &grant.client_id),
            ("client_secret", grant.client_secret.0.expose()),
            ("refresh_token", grant.refresh_token.0.expose()),
        ];
        self.token(&grant.token_uri, &pairs).await
    }

    async fn token(
        &self,
        uri: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Fresh<Arc<Secret>>, Failure> {
        let url = Url::parse(uri)
            .map_err(|_| Failure::new(format!("{WHAT}: token_uri of the file is no URL")))?;
        let answer = self.outside.ask_plain(form(url, pairs)).await?;
        match answer.status {
            StatusCode::OK => parse_token(WHAT, &answer.body),
            _ => Err(token_refused(WHAT, &answer)),
        }
    }

    async fn project(&self) -> Result<String, Failure> {
        let hint = "no project: set gcp.project";
        let answer = self
            .metadata(PROJECT_PATH)
            .await
            .map_err(|failure| Failure {
                reason: format!("{hint}; tried the credentials and {failure}"),
                ..failure
            })?;
        let text = String::from_utf8_lossy(&answer.body);
        let name = text.trim();
        let is_name = !name.is_empty()
            && name.len() <= PROJECT_BYTES_MAX
            && name.bytes().all(|byte| byte.is_ascii_graphic());
        match is_name {
            true => Ok(name.to_owned()),
            false => Err(Failure::new(format!(
                "{hint}; the metadata server has none"
            ))),
        }
    }

    async fn metadata(&self, path: &str) -> Result<Answer, Failure> {
        let mut ask = Ask::get(
            url(&self.surroundings.metadata, path, &[])?,
            TOKEN_BYTES_MAX,
        );
        ask.headers.insert(
            HeaderName::from_static("metadata-flavor"),
            HeaderValue::from_static("Google"),
        );
        let answer = self.nearby.ask_plain(ask).await?;
        match answer.status {
            StatusCode::OK => Ok(answer),
            _ => Err(token_refused("metadata server", &answer)),
        }
    }
}

async fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let text = tokio::fs::read(file).await;
    text.map_err(|error| at(file, Failure::new(error.to_string())))
}

fn at(file: &Path, failure: Failure) -> Failure {
    Failure {
        reason: format!("{}: {failure}", file.display()),
        ..failure
    }
}

/// What a service account signs to get a token: a JWT, RS256.
fn assertion(key: &ServiceKey, now: SystemTime) -> Result<String, Failure> {
    let since = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let begin = since.saturating_sub(JWT_SLACK);
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if !key.private_key_id.is_empty() {
        header["kid"] = json!(key.private_key_id);
    }
    let claims = json!({
        "iss": key.client_email,
        "scope": SCOPE,
        "aud": key.token_uri,
        "iat": begin.as_secs(),
        "exp": (begin + JWT_LIFE).as_secs(),
    });
    let encode = |part: &serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let signature = signature(&key.private_key.0, signed.as_bytes());
    let signature = signature.ok_or_else(|| {
        let reason = "the private_key of the service account is no RSA key in PEM";
        Failure::new(format!("{WHAT}: {reason}"))
    })?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn signature(key: &Secret, text: &[u8]) -> Option<Vec<u8>> {
    let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).ok()?;
    let key = any_supported_type(&key).ok()?;
    let signer = key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])?;
    signer.sign(text).ok()
}

#[cfg(test)]
pub(super) mod tests;
