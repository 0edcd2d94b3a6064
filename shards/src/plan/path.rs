//! What a backend does with the requests of its paths.

use super::AuthenticatorId;

/// One entry of a backend's path table. Contract: config page, 4.
///
/// A backend's table is in the order of matching: exact paths first, then prefixes, the longest first. Two
/// entries of one path differ in their methods.
#[derive(Debug)]
pub struct PathRule {
    /// The configured path, also the value of the `path` metric label.
    pub path: Box<str>,
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
    /// Every method, known or not.
    pub const ALL: Methods = Methods(u16::MAX);

    /// Whether the method is in the set; GET serves HEAD too.
    pub fn contain(self, method: ringway_io::net::http1::Method) -> bool {
        use ringway_io::net::http1::Method;
        let has = |method: Method| self.0 & Methods::bit(method) != 0;
        has(method) || (method == Method::Head && has(Method::Get))
    }

    /// The set with this method too.
    #[must_use]
    pub fn with(self, method: ringway_io::net::http1::Method) -> Methods {
        Methods(self.0 | Methods::bit(method))
    }

    fn bit(method: ringway_io::net::http1::Method) -> u16 {
        1 << (method as u16)
    }
}

impl PathRule {
    /// What a backend does that configures no path: everything, unchanged.
    pub fn all() -> PathRule {
        PathRule {
            path: "/".into(),
            matching: Matching::Prefix,
            methods: Methods::ALL,
            handler: Handler::Forward,
            authenticator: None,
            edits: None,
            cors: Cors::Legacy,
            counted: true,
        }
    }
}
