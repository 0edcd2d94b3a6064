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
    /// Classifies a valid field name, in any case. Looks at the length first, so that an unknown
    /// name costs at most three comparisons.
    pub fn classify(name: &[u8]) -> KnownHeader {
        match name.len() {
            2 => pick(name, [(b"te", Self::Te)]),
            3 => pick(name, [(b"via", Self::Via)]),
            4 => pick(name, [(b"host", Self::Host), (b"date", Self::Date)]),
            6 => pick(
                name,
                [
                    (b"server", Self::Server),
                    (b"cookie", Self::Cookie),
                    (b"expect", Self::Expect),
                ],
            ),
            7 => pick(
                name,
                [(b"upgrade", Self::Upgrade), (b"trailer", Self::Trailer)],
            ),
            9 => pick(name, [(b"forwarded", Self::Forwarded)]),
            10 => pick(
                name,
                [
                    (b"connection", Self::Connection),
                    (b"keep-alive", Self::KeepAlive),
                ],
            ),
            12 => pick(name, [(b"content-type", Self::ContentType)]),
            13 => pick(
                name,
                [
                    (b"cache-control", Self::CacheControl),
                    (b"last-modified", Self::LastModified),
                    (b"authorization", Self::Authorization),
                ],
            ),
            14 => pick(name, [(b"content-length", Self::ContentLength)]),
            15 => pick(
                name,
                [
                    (b"accept-encoding", Self::AcceptEncoding),
                    (b"x-forwarded-for", Self::XForwardedFor),
                ],
            ),
            16 => pick(
                name,
                [
                    (b"content-encoding", Self::ContentEncoding),
                    (b"x-forwarded-host", Self::XForwardedHost),
                    (b"proxy-connection", Self::ProxyConnection),
                ],
            ),
            17 => pick(
                name,
                [
                    (b"transfer-encoding", Self::TransferEncoding),
                    (b"x-forwarded-proto", Self::XForwardedProto),
                ],
            ),
            18 => pick(name, [(b"proxy-authenticate", Self::ProxyAuthenticate)]),
            19 => pick(name, [(b"proxy-authorization", Self::ProxyAuthorization)]),
            _ => Self::Other,
        }
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

/// The candidate that `name` is, in any case. Setting bit 5 makes letters small and leaves `-` as
/// it is; of all token bytes only letters become letters by it. With the length known to the
/// compiler, each comparison is a few word operations.
#[inline]
fn pick<const N: usize, const COUNT: usize>(
    name: &[u8],
    candidates: [(&[u8; N], KnownHeader); COUNT],
) -> KnownHeader {
    let Ok(name) = <&[u8; N]>::try_from(name) else {
        return KnownHeader::Other;
    };
    for (candidate, known) in candidates {
        let mut difference = 0;
        for index in 0..N {
            difference |= (name[index] | 0x20) ^ candidate[index];
        }
        if difference == 0 {
            return known;
        }
    }
    KnownHeader::Other
}
