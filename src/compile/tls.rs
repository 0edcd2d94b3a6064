//! TLS settings, both sides, from files already read. Contract: configuration page, 3.5.

use std::hash::{DefaultHasher, Hash, Hasher};

use ringway_io::net::tls::{
    ALPN_HTTP11, CertKeyPem, CertPem, ClientTls, ClientTlsOptions, ServerTls, SystemRoots,
};
use ringway_shards::plan::{Origin, Scheme};
use serde_json::Value as Json;

use super::context::Context;
use super::roster::Roster;
use super::routes;
use crate::config::backends::Tls;
use crate::config::origin_url::OriginUrl;
use crate::config::{Fault, Path, defaults};

/// TLS towards one origin.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) settings: Option<ClientTls>,
    /// Differs where the settings do.
    digest: u64,
}

impl Client {
    /// All that makes connections to an origin differ besides the address.
    pub(super) fn peer_key(&self, url: &OriginUrl) -> String {
        match url.scheme {
            Scheme::Http => "http".to_owned(),
            Scheme::Https => format!("https {} {:016x}", url.authority.host, self.digest),
        }
    }
}

/// A certificate and its key as written.
struct Pair<'a> {
    chain: &'a [u8],
    key: &'a [u8],
}

impl Pair<'_> {
    fn to_pem(&self, label: &str) -> CertKeyPem {
        CertKeyPem {
            label: label.to_owned(),
            chain_pem: self.chain.to_vec(),
            key_pem: self.key.to_vec(),
        }
    }
}

/// Both files of a pair; half a pair is a problem.
fn pair<'a>(
    context: &mut Context<'a>,
    at: &Path,
    (chain_key, chain): (&'static str, Option<&str>),
    (key_key, key): (&'static str, Option<&str>),
) -> Option<Pair<'a>> {
    let chain = chain.filter(|name| !name.is_empty());
    let key = key.filter(|name| !name.is_empty());
    for (name, written) in [(chain_key, chain), (key_key, key)] {
        if let Some(written) = written {
            context.note_written(&at.key(name), Json::from(written));
        }
    }
    let (written, needs) = match (chain, key) {
        (Some(chain), Some(key)) => {
            let files = context.inputs.files;
            return Some(Pair {
                chain: files.get(chain)?,
                key: files.get(key)?,
            });
        }
        (None, None) => return None,
        (Some(_), None) => (chain_key, key_key),
        (None, Some(_)) => (key_key, chain_key),
    };
    context.fail_key(&at.key(written), Fault::HalfPair { needs });
    None
}

/// TLS of a listener: the certificates of all its backends; `None` without any.
pub(super) fn server(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    listener: &str,
) -> Option<ServerTls> {
    let mut pairs = Vec::new();
    let mut last = None;
    for (_, entry) in routes::on_listener(roster, listener) {
        let Some(tls) = &entry.written.tls else {
            continue;
        };
        let at = Path::of(&["backends", entry.name, "tls"]);
        let chain = ("full_chain_cert_path", tls.full_chain_cert_path.as_deref());
        let key = ("private_key_path", tls.private_key_path.as_deref());
        let Some(pair) = pair(context, &at, chain, key) else {
            continue;
        };
        // Each alone first: so a refusal has the place of its own pair.
        match build_server(vec![(&pair, entry.name)]) {
            Ok(_) => pairs.push((pair, entry.name)),
            Err(reason) => {
                let at = at.key("full_chain_cert_path");
                context.fail_value(&at, Fault::Tls { reason });
            }
        }
        last = Some(at);
    }
    let last = last?;
    if pairs.is_empty() {
        return None;
    }
    let named = pairs.iter().map(|(pair, name)| (pair, *name)).collect();
    match build_server(named) {
        Ok(tls) => Some(tls),
        Err(reason) => {
            context.fail_key(&last, Fault::Tls { reason });
            None
        }
    }
}

/// TLS towards an origin; `None` when it is refused.
pub(super) fn client(
    context: &mut Context<'_>,
    at: &Path,
    url: Option<&OriginUrl>,
    written: Option<&Tls>,
) -> Option<Client> {
    let at = at.key("tls");
    let none = Tls::default();
    let tls = written.unwrap_or(&none);
    let is_plain = url.is_some_and(|url| url.scheme == Scheme::Http);
    if is_plain {
        for key in [
            "insecure_skip_verify",
            "certificate_authority_paths",
            "client_cert_path",
            "client_key_path",
        ] {
            context.warn_no_effect(&at.key(key), "the origin is spoken to without TLS");
        }
    }
    let chain = ("client_cert_path", tls.client_cert_path.as_deref());
    let key = ("client_key_path", tls.client_key_path.as_deref());
    let pair = pair(context, &at, chain, key);
    let authorities = tls
        .certificate_authority_paths
        .as_deref()
        .unwrap_or_default();
    if !authorities.is_empty() {
        let at = at.key("certificate_authority_paths");
        context.note_written(&at, Json::from(authorities.to_vec()));
    }
    if is_plain {
        return Some(Client {
            settings: None,
            digest: 0,
        });
    }
    let insecure_skip_verify = context.pick(
        &at.key("insecure_skip_verify"),
        tls.insecure_skip_verify,
        defaults::INSECURE_SKIP_VERIFY,
    );
    let files = context.inputs.files;
    let read = |name: &String| Some((name.clone(), files.get(name)?));
    let options = Options {
        insecure_skip_verify,
        authorities: authorities.iter().filter_map(read).collect(),
        pair,
    };
    match build_client(&options, files.system_roots()) {
        Ok(settings) => Some(Client {
            settings: Some(settings),
            digest: options.digest(),
        }),
        Err(reason) => {
            context.fail_key(&at, Fault::Tls { reason });
            None
        }
    }
}

/// TLS towards an origin that is spoken to without it, for requests that a rewriter turns to HTTPS.
pub(super) fn spare(
    context: &mut Context<'_>,
    at: &Path,
    url: Option<&OriginUrl>,
    written: Option<&Tls>,
) -> Option<ClientTls> {
    let url = OriginUrl {
        scheme: Scheme::Https,
        ..url?.clone()
    };
    client(context, at, Some(&url), written)?.settings
}

/// Settings for a client that must have some, though it speaks only without TLS.
pub(super) fn unspoken(context: &mut Context<'_>, at: &Path) -> Option<ClientTls> {
    let roots = context.inputs.files.system_roots();
    let options = Options::default();
    // Where nobody vouches for anybody, as in an image without authorities, there still is nothing to check.
    let unchecked = Options {
        insecure_skip_verify: true,
        ..Options::default()
    };
    build_client(&options, roots)
        .or_else(|_| build_client(&unchecked, roots))
        .map_err(|reason| context.fail_key(at, Fault::Tls { reason }))
        .ok()
}

/// TLS of an origin's probe; `at` is the key that chose its scheme.
pub(super) fn for_probe(
    context: &mut Context<'_>,
    at: &Path,
    scheme: Scheme,
    origin: &Origin,
) -> Option<ClientTls> {
    match (scheme, &origin.tls) {
        (Scheme::Http, _) => None,
        (Scheme::Https, Some(tls)) => Some(tls.clone()),
        // Only the probe speaks TLS: nothing is configured for it.
        (Scheme::Https, None) => {
            let roots = context.inputs.files.system_roots();
            build_client(&Options::default(), roots)
                .map_err(|reason| context.fail_value(at, Fault::Tls { reason }))
                .ok()
        }
    }
}

/// TLS towards an origin as written.
#[derive(Default)]
struct Options<'a> {
    insecure_skip_verify: bool,
    /// Files and their contents.
    authorities: Vec<(String, &'a [u8])>,
    pair: Option<Pair<'a>>,
}

impl Options<'_> {
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.insecure_skip_verify.hash(&mut hasher);
        self.authorities.hash(&mut hasher);
        if let Some(pair) = &self.pair {
            pair.chain.hash(&mut hasher);
            pair.key.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The server side of `io::net::tls`; each pair goes with the backend it was written for.
fn build_server(pairs: Vec<(&Pair<'_>, &str)>) -> Result<ServerTls, String> {
    let certificates: Vec<CertKeyPem> = pairs
        .into_iter()
        .map(|(pair, name)| pair.to_pem(name))
        .collect();
    ServerTls::build(&certificates, ALPN_HTTP11).map_err(|error| error.to_string())
}

/// The client side of `io::net::tls`.
fn build_client(options: &Options<'_>, roots: &SystemRoots) -> Result<ClientTls, String> {
    let authorities = options.authorities.iter();
    let extra_ca = authorities.map(|(file, content)| CertPem {
        label: file.clone(),
        pem: content.to_vec(),
    });
    let settings = ClientTlsOptions {
        insecure_skip_verify: options.insecure_skip_verify,
        extra_ca: extra_ca.collect(),
        client: options
            .pair
            .as_ref()
            .map(|pair| pair.to_pem("client_cert_path")),
    };
    ClientTls::build(&settings, roots, ALPN_HTTP11).map_err(|error| error.to_string())
}
