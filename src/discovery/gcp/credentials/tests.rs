//! Each way to a token, against a token endpoint and a metadata server.

use super::*;
use crate::discovery::stub::{self, Folder, Reply, Request, Stub};

/// Made for these tests; opens nothing.
pub(in crate::discovery::gcp) const KEY: &str = include_str!("key.pem");
const PUBLIC_KEY: &str = include_str!("key.pub.pem");

/// A key file of a service account, with what such files also hold.
pub(in crate::discovery::gcp) fn service_key(token_uri: &str) -> String {
    json!({
        "type": "service_account", "project_id": "p-0", "private_key_id": "kid-0", "private_key": KEY,
        "client_email": "reader@p-0.example", "client_id": "0", "token_uri": token_uri,
        "auth_uri": "https://accounts.example/auth", "universe_domain": "googleapis.com"
    })
    .to_string()
}

fn user_grant(token_uri: &str) -> String {
    json!({
        "type": "authorized_user", "client_id": "c-0", "client_secret": "hunter2", "refresh_token": "hunter3",
        "account": "", "universe_domain": "googleapis.com", "token_uri": token_uri
    })
    .to_string()
}

/// The claims of a token request whose signature is good.
pub(in crate::discovery::gcp) fn verified(request: &Request) -> serde_json::Value {
    let form = request.form();
    assert_eq!(form[0], ("grant_type".into(), JWT_GRANT.into()));
    assert_eq!(form[1].0, "assertion");
    let (signed, signature) = form[1].1.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&decode(header)).unwrap();
    assert_eq!(
        header,
        json!({"alg": "RS256", "typ": "JWT", "kid": "kid-0"})
    );
    assert!(is_signed(signed.as_bytes(), &decode(signature)));
    assert!(!is_signed(b"another text", &decode(signature)));
    serde_json::from_slice(&decode(claims)).unwrap()
}

fn is_signed(text: &[u8], signature: &[u8]) -> bool {
    let body: String = PUBLIC_KEY
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let key = base64::engine::general_purpose::STANDARD
        .decode(body)
        .unwrap();
    let known = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let mut known = known.mapping.iter();
    let rs256 = known.find(|entry| entry.0 == SignatureScheme::RSA_PKCS1_SHA256);
    let algorithms = rs256.unwrap().1;
    algorithms
        .iter()
        .any(|algorithm| algorithm.verify_signature(&key, text, signature).is_ok())
}

pub(in crate::discovery::gcp) fn nowhere() -> Surroundings {
    Surroundings {
        named_file: None,
        user_file: None,
        metadata: "http://127.0.0.1:9".to_owned(),
    }
}

fn finder(key_file: Option<&Path>, surroundings: Surroundings) -> Finder {
    let settings = Gcp {
        http: stub::http(""),
        project: None,
        credentials_file: key_file.map(Into::into),
    };
    Finder::new(&settings, surroundings).unwrap()
}

async fn token_endpoint() -> Stub {
    Stub::start(|_| {
        Reply::ok(r#"{"access_token":"token-0","expires_in":3599,"token_type":"Bearer"}"#)
    })
    .await
}

/// Demands its header, as the real one does.
async fn metadata_server(project: &'static str) -> Stub {
    Stub::start(move |request| {
        if request.header("metadata-flavor") != Some("Google") {
            return Reply::new(403, "<html>");
        }
        match &*request.path {
            TOKEN_PATH => {
                Reply::ok(r#"{"access_token":"token-m","expires_in":300,"token_type":"Bearer"}"#)
            }
            PROJECT_PATH => Reply::ok(project),
            _ => Reply::new(404, "<html>"),
        }
    })
    .await
}

#[tokio::test]
async fn a_service_account_signs_for_its_token() {
    let mut stub = token_endpoint().await;
    let folder = Folder::new();
    let uri = format!("{}/token", stub.endpoint());
    let file = folder.write("key.json", &service_key(&uri));
    let found = finder(Some(&file), nowhere()).account().await.unwrap();
    assert_eq!(found.value.token.expose(), "token-0");
    assert_eq!(&*found.value.project, "p-0");
    assert_eq!(found.life, Some(Duration::from_secs(3599)));
    let claims = verified(&stub.next_seen().await);
    assert_eq!(claims["iss"], "reader@p-0.example");
    assert_eq!(claims["scope"], SCOPE);
    assert_eq!(claims["aud"], uri);
    let [begin, end] = ["iat", "exp"].map(|name| claims[name].as_u64().unwrap());
    assert_eq!(end - begin, 3600);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    assert!(begin <= now.unwrap().as_secs() && begin > 1_700_000_000);
}

#[tokio::test]
async fn a_user_refreshes_and_the_project_is_the_machines() {
    let mut stub = token_endpoint().await;
    let metadata = metadata_server("p-m\n").await;
    let folder = Folder::new();
    let surroundings = Surroundings {
        named_file: Some(folder.write("adc.json", &user_grant(&stub.endpoint()))),
        user_file: None,
        metadata: metadata.endpoint(),
    };
    let found = finder(None, surroundings).account().await.unwrap();
    assert_eq!(found.value.token.expose(), "token-0");
    assert_eq!(&*found.value.project, "p-m");
    let sent = stub.next_seen().await.form();
    let wanted = [
        ("grant_type", "refresh_token"),
        ("client_id", "c-0"),
        ("client_secret", "hunter2"),
        ("refresh_token", "hunter3"),
    ];
    assert_eq!(
        sent,
        wanted.map(|(name, value)| (name.into(), value.into()))
    );
}

#[tokio::test]
async fn without_files_the_metadata_server_is_asked() {
    let mut metadata = metadata_server("p-m").await;
    let folder = Folder::new();
    let surroundings = Surroundings {
        named_file: None,
        user_file: Some(folder.join("none.json")),
        metadata: metadata.endpoint(),
    };
    let found = finder(None, surroundings).account().await.unwrap();
    assert_eq!(found.value.token.expose(), "token-m");
    assert_eq!(&*found.value.project, "p-m");
    let paths: Vec<_> = metadata
        .seen()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(paths, [TOKEN_PATH, PROJECT_PATH]);
}

#[tokio::test]
async fn a_broken_file_does_not_lead_to_the_metadata_server() {
    let mut metadata = metadata_server("p-m").await;
    let folder = Folder::new();
    let broken = folder.write(
        "broken.json",
        r#"{"type":"authorized_user","refresh_token":"hunter3"}"#,
    );
    for (named_file, user_file) in [
        (Some(broken.clone()), None),
        (None, Some(broken)),
        (Some(folder.join("none.json")), None),
    ] {
        let surroundings = Surroundings {
            named_file,
            user_file,
            metadata: metadata.endpoint(),
        };
        let failure = finder(None, surroundings).account().await.unwrap_err();
        assert!(failure.reason.contains(".json"), "{failure}");
        assert!(!failure.reason.contains("hunter3"), "{failure}");
    }
    assert_eq!(metadata.seen().len(), 0);
}

#[tokio::test]
async fn refusals_are_shown_without_what_was_sent() {
    let refused = r#"{"error":"invalid_grant","error_description":"Bad request","sent":"hunter3"}"#;
    let stub = Stub::start(move |_| Reply::new(400, refused)).await;
    let folder = Folder::new();
    let file = folder.write("adc.json", &user_grant(&stub.endpoint()));
    let surroundings = Surroundings {
        named_file: Some(file),
        ..nowhere()
    };
    let failure = finder(None, surroundings).account().await.unwrap_err();
    assert!(
        failure.reason.contains("invalid_grant: Bad request"),
        "{failure}"
    );
    assert!(!failure.reason.contains("hunter"), "{failure}");
}

#[tokio::test]
async fn no_project_says_what_to_set() {
    let folder = Folder::new();
    for name in ["", "a b", "a\nb"] {
        let metadata = metadata_server(name).await;
        let surroundings = Surroundings {
            user_file: Some(folder.join("none.json")),
            metadata: metadata.endpoint(),
            ..nowhere()
        };
        let failure = finder(None, surroundings).account().await.unwrap_err();
        assert!(failure.reason.contains("gcp.project"), "{failure}");
    }
}

#[test]
fn only_known_types_of_files_are_used() {
    assert!(parse_service_key(service_key("https://t.example").as_bytes()).is_ok());
    let user = user_grant("https://t.example");
    assert!(matches!(parse_file(user.as_bytes()), Ok(File::User(_))));
    let failure = parse_service_key(user.as_bytes()).err().unwrap();
    assert!(failure.reason.contains("service account"), "{failure}");
    for other in [
        r#"{"type":"external_account","credential_source":{"executable":{"command":"/bin/x"}}}"#,
        r#"{"type":"impersonated_service_account"}"#,
        r#"{"client_email":"a"}"#,
    ] {
        let failure = parse_file(other.as_bytes()).err().unwrap();
        assert!(failure.reason.contains("not supported"), "{failure}");
    }
    let failure =
        parse_file(br#"{"type":"service_account","private_key":7,"client_email":"hunter2"}"#);
    assert!(!failure.err().unwrap().reason.contains("hunter2"));
    assert!(parse_file(b"").is_err());
}

#[test]
fn a_key_that_is_none_is_a_failure_without_it() {
    for key in [
        "hunter2",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
    ] {
        let text = service_key("https://t.example");
        let mut text: serde_json::Value = serde_json::from_str(&text).unwrap();
        text["private_key"] = json!(key);
        let key = parse_service_key(text.to_string().as_bytes()).unwrap();
        let failure = assertion(&key, SystemTime::now()).unwrap_err();
        assert!(failure.reason.contains("private_key"), "{failure}");
        assert!(!failure.reason.contains("hunter2"), "{failure}");
    }
}
