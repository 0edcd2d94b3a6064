//! What a backend does with the requests of its paths.

use std::sync::Arc;

use ringway_io::net::http1::Method;

use super::AuthenticatorId;
use super::rewriter::Rewriter;

/// One entry of a backend's path table. Contract: config page, 4.
///
/// A backend's table is in the order of matching: exact paths first, then prefixes, the longest first. Two
/// entries of one path differ in their methods.
#[derive(Debug)]
pub struct PathRule {
    /// The path as it is compared: [`super::spelling::plain`] of the configured one.
    pub path: Box<str>,
    /// The path as it was configured: the value of the `path` metric label.
    pub label: Box<str>,
    /// How it is compared.
    pub matching: Matching,
    /// Methods it serves; a path that matches with another method is a 405.
    pub methods: Methods,
    /// Who answers.
    pub handler: Handler,
    /// Who must prove to be somebody, or is only asked for a name; `None`: nobody.
    pub authenticator: Option<AuthenticatorId>,
    /// Changes to what passes; `None` when there are none, which is the common case.
    pub edits: Option<Box<Edits>>,
    /// Rewriters that requests meet on entry, the backend's in front of the path's; `None` when there are none, which
    /// is the common case.
    pub rewriters: Option<Box<[Arc<Rewriter>]>>,
    /// Cross-origin headers.
    pub cors: Cors,
    /// Its requests are counted.
    pub counted: bool,
}

/// How a configured path is compared with that of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// Equal.
    Exact,
    /// The request's path starts with it, as text.
    Prefix,
}

/// A set of methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Methods(pub u16);

/// Who answers the requests of a path.
#[derive(Debug)]
pub enum Handler {
    /// What the backend is for: the origin, or the pool.
    Forward,
    /// ringway itself.
    Local(LocalAnswer),
}

/// An answer that needs no origin.
#[derive(Debug)]
pub struct LocalAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Box<[u8]>,
}

/// Changes to a request on its way in and to its answer on its way out.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// Headers of the request; `Host` sets that of the request to the origin.
    pub request_headers: Vec<Edit>,
    /// Query parameters of the request, and of its form.
    pub request_params: Vec<Edit>,
    /// Headers of the answer.
    pub response_headers: Vec<Edit>,
    /// Replaces the answer's status.
    pub response_code: Option<u16>,
    /// Replaces the answer's body.
    pub response_body: Option<Box<[u8]>>,
}

/// A change to the values of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Name, as it is written out; compared without case where it is that of a header.
    pub name: Box<str>,
    /// What happens to it.
    pub action: EditAction,
}

impl Edit {
    /// This value alone.
    pub fn set(name: &str, value: &str) -> Edit {
        Edit::new(name, EditAction::Set(value.into()))
    }

    /// This value too.
    pub fn append(name: &str, value: &str) -> Edit {
        Edit::new(name, EditAction::Append(value.into()))
    }

    /// No value.
    pub fn remove(name: &str) -> Edit {
        Edit::new(name, EditAction::Remove)
    }

    fn new(name: &str, action: EditAction) -> Edit {
        Edit {
            name: name.into(),
            action,
        }
    }
}

/// What happens to the values of a name.
#[derive(Clone, PartialEq, Eq)]
pub enum EditAction {
    /// This value alone.
    Set(Box<str>),
    /// This value too.
    Append(Box<str>),
    /// No value.
    Remove,
}

// Values may be credentials.
impl std::fmt::Debug for EditAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EditAction::Set(_) => "Set(***)",
            EditAction::Append(_) => "Append(***)",
            EditAction::Remove => "Remove",
        })
    }
}

/// Cross-origin headers of answers; those of the backend the client speaks to count. Contract: config
/// page, 3.6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cors {
    /// No block: `Access-Control-Allow-Origin: *`, the rest as the origin says.
    Legacy,
    /// As the origin says.
    Preserve,
    /// As the origin says, then these changes.
    Merge(Vec<Edit>),
    /// Nothing of the origin's, only these.
    Replace(Vec<Edit>),
    /// None at all.
    Disable,
}

impl Methods {
    /// Every method, known or not, but TRACE: it shows a client what it sent, cookies and credentials that
    /// others added included, so that only a path that lists it serves it.
    pub const ALL: Methods = Methods(!Methods::bit(Method::Trace));

    /// Whether the method is in the set; GET serves HEAD too.
    pub fn contain(self, method: Method) -> bool {
        let has = |method: Method| self.0 & Methods::bit(method) != 0;
        has(method) || (method == Method::Head && has(Method::Get))
    }

    /// The set with this method too.
    #[must_use]
    pub fn with(self, method: Method) -> Methods {
        Methods(self.0 | Methods::bit(method))
    }

    /// The methods of both.
    #[must_use]
    pub fn union(self, other: Methods) -> Methods {
        Methods(self.0 | other.0)
    }

    /// The names of its methods as `Allow` lists them. CONNECT is left out: nothing serves it.
    pub fn allow(self) -> String {
        const NAMES: [(Method, &str); 9] = [
            (Method::Get, "GET"),
            (Method::Head, "HEAD"),
            (Method::Post, "POST"),
            (Method::Put, "PUT"),
            (Method::Delete, "DELETE"),
            (Method::Options, "OPTIONS"),
            (Method::Trace, "TRACE"),
            (Method::Patch, "PATCH"),
            (Method::Purge, "PURGE"),
        ];
        let names = NAMES.iter().filter(|(method, _)| self.contain(*method));
        let names: Vec<&str> = names.map(|(_, name)| *name).collect();
        names.join(", ")
    }

    const fn bit(method: Method) -> u16 {
        1 << (method as u16)
    }
}

impl PathRule {
    /// Whether it is about this path, which is never empty.
    pub fn matches(&self, path: &[u8]) -> bool {
        match self.matching {
            Matching::Exact => path == self.path.as_bytes(),
            Matching::Prefix => path.starts_with(self.path.as_bytes()),
        }
    }
}

impl PathRule {
    /// What a backend does that configures no path: everything, unchanged.
    pub fn all() -> PathRule {
        PathRule {
            path: "/".into(),
            label: "/".into(),
            matching: Matching::Prefix,
            methods: Methods::ALL,
            handler: Handler::Forward,
            authenticator: None,
            edits: None,
            rewriters: None,
            cors: Cors::Legacy,
            counted: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_methods_are_all_but_trace() {
        assert!(Methods::ALL.contain(Method::Get));
        assert!(Methods::ALL.contain(Method::Purge));
        assert!(Methods::ALL.contain(Method::Other));
        assert!(!Methods::ALL.contain(Method::Trace));
        assert!(Methods::ALL.with(Method::Trace).contain(Method::Trace));
        assert_eq!(
            Methods::ALL.allow(),
            "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH, PURGE"
        );
    }

    #[test]
    fn get_serves_head_and_nothing_else() {
        let methods = Methods::default().with(Method::Get);
        assert!(methods.contain(Method::Head));
        assert!(!methods.contain(Method::Post));
        assert_eq!(methods.allow(), "GET, HEAD");
        assert!(!Methods::default().with(Method::Head).contain(Method::Get));
    }
}
