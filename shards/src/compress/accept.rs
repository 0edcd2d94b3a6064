//! What a client accepts: `Accept-Encoding`. Contract: RFC 9110, 12.5.3.

use ringway_io::net::http1::{KnownHeader, RequestHead};

/// A content coding that ringway can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Zstd,
    Brotli,
}

impl Coding {
    /// As headers name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
        }
    }
}

/// Weights in thousandths; `None`: not named.
#[derive(Default)]
struct Weights {
    gzip: Option<u16>,
    zstd: Option<u16>,
    brotli: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

/// The coding that the client of this request likes best; `None`: none, or nothing better than no coding.
pub(super) fn choose(head: &RequestHead, bytes: &[u8]) -> Option<Coding> {
    let accepted = head
        .headers(bytes)
        .filter(|header| header.known == KnownHeader::AcceptEncoding);
    choose_of(accepted.map(|header| header.value))
}

fn choose_of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Coding> {
    let mut weights = Weights::default();
    for item in values.flat_map(|value| value.split(|&byte| byte == b',')) {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        // What cannot be read is not accepted.
        let weight = parts.next().map_or(Some(1000), thousandths).unwrap_or(0);
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"gzip") || is(b"x-gzip") {
            weights.gzip = Some(weight);
        } else if is(b"zstd") {
            weights.zstd = Some(weight);
        } else if is(b"br") {
            weights.brotli = Some(weight);
        } else if is(b"identity") {
            weights.identity = Some(weight);
        } else if is(b"*") {
            weights.any = Some(weight);
        }
    }
    // Of equals the one that costs least time for what it saves. What "any" may mean is the one that everybody
    // knows.
    let offers = [
        (Coding::Zstd, weights.zstd),
        (Coding::Brotli, weights.brotli),
        (Coding::Gzip, weights.gzip.or(weights.any)),
    ];
    let mut best: Option<(Coding, u16)> = None;
    for (coding, weight) in offers {
        let weight = weight.unwrap_or(0);
        if weight > best.map_or(0, |(_, best)| best) {
            best = Some((coding, weight));
        }
    }
    let (coding, weight) = best?;
    (weight >= weights.identity.unwrap_or(0)).then_some(coding)
}

/// `q=0.5`
fn thousandths(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, fraction) = match value {
        [whole] => (*whole, &b""[..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut weight = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, unit) in fraction.iter().zip([100, 10, 1]) {
        weight += u16::from(digit - b'0') * unit;
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_coding_wins_and_the_cheapest_of_equals() {
        use Coding::{Brotli, Gzip, Zstd};
        let cases = [
            ("", None),
            ("gzip", Some(Gzip)),
            ("X-GZip", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Brotli)),
            ("gzip;q=1.0, br;q=0.9", Some(Gzip)),
            ("gzip; q=0.5 , br;Q=0.501", Some(Brotli)),
            ("gzip;q=0", None),
            ("gzip;q=0, *", None),
            ("*", Some(Gzip)),
            ("*;q=0", None),
            ("identity", None),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("deflate, compress", None),
            ("gzip;q=2", None),
            ("gzip;q=0.5555", None),
            ("gzip;q=1.5", None),
            ("gzip;level=5", None),
            ("gzip;q=x, zstd", Some(Zstd)),
        ];
        for (value, expected) in cases {
            let chosen = choose_of(std::iter::once(value.as_bytes()));
            assert_eq!(chosen, expected, "{value}");
        }
        let two = [&b"gzip"[..], &b"br"[..]];
        assert_eq!(choose_of(two.into_iter()), Some(Brotli));
    }
}
