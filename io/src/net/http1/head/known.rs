//! The header names ringway treats by name, told apart once per header.

/// A header name ringway acts on; everything else is [`KnownHeader::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the header of that name")]
pub enum KnownHeader {
    AcceptEncoding,
    Authorization,
    CacheControl,
    Connection,
    ContentEncoding,
    ContentLength,
    ContentType,
    Cookie,
    Date,
    Expect,
    Forwarded,
    Host,
    KeepAlive,
    LastModified,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Server,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    Via,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
    Other,
}

impl KnownHeader {
    /// Classifies a field name, in any case. Looks at the length first, so that an unknown name
    /// costs at most a few comparisons.
    pub fn classify(name: &[u8]) -> KnownHeader {
        let candidates: &[(&[u8], KnownHeader)] = match name.len() {
            2 => &[(b"te", Self::Te)],
            3 => &[(b"via", Self::Via)],
            4 => &[(b"host", Self::Host), (b"date", Self::Date)],
            6 => &[
                (b"cookie", Self::Cookie),
                (b"server", Self::Server),
                (b"expect", Self::Expect),
            ],
            7 => &[(b"upgrade", Self::Upgrade), (b"trailer", Self::Trailer)],
            9 => &[(b"forwarded", Self::Forwarded)],
            10 => &[
                (b"connection", Self::Connection),
                (b"keep-alive", Self::KeepAlive),
            ],
            12 => &[(b"content-type", Self::ContentType)],
            13 => &[
                (b"cache-control", Self::CacheControl),
                (b"authorization", Self::Authorization),
                (b"last-modified", Self::LastModified),
            ],
            14 => &[(b"content-length", Self::ContentLength)],
            15 => &[
                (b"accept-encoding", Self::AcceptEncoding),
                (b"x-forwarded-for", Self::XForwardedFor),
            ],
            16 => &[
                (b"x-forwarded-host", Self::XForwardedHost),
                (b"content-encoding", Self::ContentEncoding),
                (b"proxy-connection", Self::ProxyConnection),
            ],
            17 => &[
                (b"transfer-encoding", Self::TransferEncoding),
                (b"x-forwarded-proto", Self::XForwardedProto),
            ],
            18 => &[(b"proxy-authenticate", Self::ProxyAuthenticate)],
            19 => &[(b"proxy-authorization", Self::ProxyAuthorization)],
            _ => return Self::Other,
        };
        for (candidate, known) in candidates {
            if name.eq_ignore_ascii_case(candidate) {
                return *known;
            }
        }
        Self::Other
    }

    /// Whether the header speaks about one connection only and is never passed on as it came.
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::KeepAlive
                | Self::ProxyAuthenticate
                | Self::ProxyAuthorization
                | Self::ProxyConnection
                | Self::Te
                | Self::Trailer
                | Self::TransferEncoding
                | Self::Upgrade
        )
    }

    /// Whether a trailer of this name would change how the message is framed, routed or
    /// authorised after it was already acted on. Contract: RFC 9110 section 6.5.1.
    pub fn is_forbidden_in_trailers(self) -> bool {
        self.is_hop_by_hop()
            || matches!(
                self,
                Self::Authorization
                    | Self::CacheControl
                    | Self::ContentEncoding
                    | Self::ContentLength
                    | Self::ContentType
                    | Self::Cookie
                    | Self::Expect
                    | Self::Forwarded
                    | Self::Host
                    | Self::XForwardedFor
                    | Self::XForwardedHost
                    | Self::XForwardedProto
            )
    }
}
