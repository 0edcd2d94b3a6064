//! Section `authenticators`: who may pass, their tables read and put together. Contract: configuration page, 6.

mod password;
mod users_file;

use std::collections::HashMap;

use ringway_shards::plan::{Authenticator, AuthenticatorId, AuthenticatorKind, Password};
use serde_json::{Map, Value as Json};

use super::context::Context;
use super::effective::MASK;
use crate::config::authenticators::Authenticator as Written;
use crate::config::{Fault, Path, defaults, schema};
use users_file::Format;

/// Most entries of the section.
const AUTHENTICATORS_MAX: usize = 1_000;
/// Most users of one authenticator.
const USERS_MAX: usize = 100_000;
/// Names that are not for authenticators: nobody, and "switched off".
const NOBODY: &[&str] = &["", "none"];

type Users = HashMap<Box<str>, Password>;

/// All entries of the section.
pub(super) struct Authenticators {
    /// By written order; `None` for those that are refused.
    names: Vec<(String, Option<AuthenticatorId>)>,
    compiled: Vec<Authenticator>,
}

impl Authenticators {
    /// Reads the section.
    pub(super) fn new(context: &mut Context<'_>) -> Self {
        let mut all = Authenticators {
            names: Vec::new(),
            compiled: Vec::new(),
        };
        let document = context.document;
        let written = &document.written.authenticators.0;
        if written.len() > AUTHENTICATORS_MAX {
            let authenticators_max = AUTHENTICATORS_MAX;
            let at = Path::of(&["authenticators"]);
            context.fail_key(&at, Fault::TooManyAuthenticators { authenticators_max });
            return all;
        }
        for (name, written) in written {
            let next = u16::try_from(all.compiled.len()).unwrap_or(u16::MAX);
            let compiled = authenticator(context, name, written);
            let id = compiled.is_some().then_some(AuthenticatorId(next));
            all.compiled.extend(compiled);
            all.names.push((name.clone(), id));
        }
        all
    }

    /// The one of this name; `None` when there is to be none, or it is refused.
    pub(super) fn find(
        &self,
        context: &mut Context<'_>,
        at: &Path,
        written: Option<&str>,
    ) -> Option<AuthenticatorId> {
        let name = written?;
        context.note_written(at, Json::from(name));
        if NOBODY.contains(&name) {
            return None;
        }
        match self.names.iter().find(|(known, _)| known == name) {
            Some((_, id)) => *id,
            None => {
                let hint = schema::hint(name, self.names.iter().map(|(name, _)| name.as_str()));
                let name = name.to_owned();
                context.fail_value(at, Fault::UnknownAuthenticator { name, hint });
                None
            }
        }
    }

    /// The compiled entry of an id.
    pub(super) fn get(&self, id: AuthenticatorId) -> Option<&Authenticator> {
        self.compiled.get(usize::from(id.0))
    }

    /// All compiled entries, by id.
    pub(super) fn into_plan(self) -> Vec<Authenticator> {
        self.compiled
    }
}

fn authenticator(
    context: &mut Context<'_>,
    name: &str,
    written: &Written,
) -> Option<Authenticator> {
    let at = Path::of(&["authenticators", name]);
    if NOBODY.contains(&name) {
        let fault = match name {
            "" => Fault::EmptyName,
            _ => Fault::ReservedName { name: name.into() },
        };
        context.fail_key(&at, fault);
        return None;
    }
    let provider = at.key("provider");
    let kind = match written.provider.as_deref() {
        Some("basic") => Some(AuthenticatorKind::Basic),
        Some(_) => Some(AuthenticatorKind::ClickHouse),
        None => {
            context.fail_key(&provider, Fault::Required { what: "provider" });
            None
        }
    };
    if let Some(word) = &written.provider {
        context.note_written(&provider, Json::from(word.as_str()));
    }
    let observe_only = context.pick(
        &at.key("observe_only"),
        written.observe_only,
        defaults::OBSERVE_ONLY,
    );
    let proxy_preserve = context.pick(
        &at.key("proxy_preserve"),
        written.proxy_preserve,
        defaults::PROXY_PRESERVE,
    );
    let is_basic = kind == Some(AuthenticatorKind::Basic);
    let users = users(context, &at, written, is_basic, observe_only);
    let realm = realm(context, &at, name, written);
    Some(Authenticator {
        name: name.into(),
        kind: kind?,
        observe_only,
        proxy_preserve,
        realm,
        users,
    })
}

/// What a refusal shows; `None`: it does not ask.
fn realm(context: &mut Context<'_>, at: &Path, name: &str, written: &Written) -> Option<Box<str>> {
    let at = at.key("config");
    let own = written.config.clone().unwrap_or_default();
    let shows = context.pick(
        &at.key("showLoginForm"),
        own.show_login_form,
        defaults::SHOW_LOGIN_FORM,
    );
    let at = at.key("realm");
    if !shows {
        context.warn_no_effect(&at, "showLoginForm is not set");
        return None;
    }
    let realm = own.realm.filter(|realm| !realm.is_empty());
    let realm = context.pick_or_derive(&at, realm, name.to_owned(), "the authenticator's name");
    // It is written between quotes.
    let fits = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\';
    if !realm.chars().all(fits) {
        context.fail_value(&at, Fault::Realm);
    }
    Some(realm.into())
}

/// Users of the file, then those written here, which win.
fn users(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    is_basic: bool,
    observe_only: bool,
) -> Users {
    let mut users = Users::new();
    let mut is_whole = file_users(context, at, written, is_basic, &mut users);
    let here = at.key("users");
    let mut shown = Map::new();
    for (name, text) in written.users.iter().flat_map(|users| &users.0) {
        shown.insert(name.clone(), Json::from(MASK));
        let at = here.key(name);
        if let Err(reason) = user_name(name, is_basic) {
            context.fail_key(&at, Fault::UserName { reason });
            is_whole = false;
        }
        match password::read(text, false) {
            Ok(password) => drop(users.insert(name.as_str().into(), password)),
            Err(reason) => {
                context.fail_value(&at, Fault::Password { reason });
                is_whole = false;
            }
        }
    }
    if written.users.is_some() {
        context.note_written(&here, Json::Object(shown));
    }
    if observe_only {
        let reason = "with observe_only nobody is checked";
        context.warn_no_effect(&here, reason);
        context.warn_no_effect(&at.key("users_file"), reason);
    } else if users.is_empty() && is_whole && !context.was_refused_within(&here) {
        context.fail_key(at, Fault::NoUsers);
    }
    if users.len() > USERS_MAX {
        let users_max = USERS_MAX;
        context.fail_key(at, Fault::TooManyUsers { users_max });
    }
    users
}

/// Adds the users of the file, if there is one; whether all of it could be read.
fn file_users(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    is_basic: bool,
    users: &mut Users,
) -> bool {
    let (file_at, format_at) = (at.key("users_file"), at.key("users_file_format"));
    let format = match written.users_file_format.as_deref() {
        Some("csv") => Some(Format::Csv),
        Some("csvNoHeader") => Some(Format::CsvNoHeader),
        Some(_) => Some(Format::Htpasswd),
        None => None,
    };
    if let Some(word) = &written.users_file_format {
        context.note_written(&format_at, Json::from(word.as_str()));
    }
    let Some(name) = written
        .users_file
        .as_deref()
        .filter(|name| !name.is_empty())
    else {
        context.warn_no_effect(&format_at, "users_file is not set");
        return true;
    };
    context.note_written(&file_at, Json::from(name));
    let Some(format) = format else {
        let what = "users_file_format";
        context.fail_key(&format_at, Fault::Required { what });
        return false;
    };
    // What cannot be read is already reported.
    let Some(content) = context.inputs.files.get(name) else {
        return false;
    };
    match users_file::parse(content, format, is_basic) {
        Ok(found) => {
            users.extend(found);
            true
        }
        Err(faults) => {
            for fault in faults {
                context.fail_value(&file_at, fault);
            }
            false
        }
    }
}

/// Whether a request could carry this name.
fn user_name(name: &str, is_basic: bool) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.chars().any(char::is_control) {
        return Err("it has control characters");
    }
    if is_basic && name.contains(':') {
        return Err("it has a colon, which ends the name in `Authorization: Basic`");
    }
    Ok(())
}
