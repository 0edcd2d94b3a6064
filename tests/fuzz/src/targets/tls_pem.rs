//! Certificates and keys in PEM: no panic, and no key in what an error says.

use ringway_io::net::tls::{
    ALPN_HTTP11, CertKeyPem, CertPem, ClientTls, ClientTlsOptions, ServerTls, SystemRoots,
};

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "tls-pem",
    about: "certificates and keys in PEM",
    count: 15_000,
    seeds: &[
        PAIR_P256.as_bytes(),
        PAIR_ED25519.as_bytes(),
        CERTIFICATE_P256.as_bytes(),
        KEY_P256_SEC1.as_bytes(),
        TWO_CERTIFICATES.as_bytes(),
    ],
    words: &[
        b"-----BEGIN CERTIFICATE-----\n",
        b"-----END CERTIFICATE-----\n",
        b"-----BEGIN ",
        b"-----END ",
        b"-----",
        b"PRIVATE KEY",
        b"RSA PRIVATE KEY",
        b"EC PRIVATE KEY",
        b"ENCRYPTED PRIVATE KEY",
        b"CERTIFICATE REQUEST",
        b"AAAA",
        b"MII",
        b"====",
        b"\r\n",
        b"# a comment\n",
        b"Proc-Type: 4,ENCRYPTED\n",
    ],
    run,
};

/// Seconds since 1970 of some day in 2026.
const NOW: i64 = 1_780_000_000;

fn run(input: &[u8], _random: &mut Random) {
    let pair = CertKeyPem {
        label: "input.pem".to_owned(),
        chain_pem: input.to_vec(),
        key_pem: input.to_vec(),
    };
    match ServerTls::build(std::slice::from_ref(&pair), ALPN_HTTP11) {
        Ok(server) => drop((server.warnings(NOW), format!("{server:?}"))),
        Err(error) => check_text(&format!("{error} {error:?}"), input),
    }
    let options = ClientTlsOptions {
        insecure_skip_verify: false,
        extra_ca: vec![CertPem {
            label: "input.pem".to_owned(),
            pem: input.to_vec(),
        }],
        client: Some(pair),
    };
    if let Err(error) = ClientTls::build(&options, &SystemRoots::none(), ALPN_HTTP11) {
        check_text(&format!("{error} {error:?}"), input);
    }
}

/// No line of the input's body is quoted.
fn check_text(text: &str, input: &[u8]) {
    assert!(text.len() < 600, "a message of {} bytes", text.len());
    assert!(text.contains("input.pem"), "which file? {text}");
    for line in input
        .split(|&byte| byte == b'\n')
        .filter(|line| line.len() >= 32)
    {
        if let Ok(line) = std::str::from_utf8(line)
            && !line.contains("---")
        {
            assert!(!text.contains(line), "quotes its input: {text}");
        }
    }
}

// Made for this file and used nowhere else.

/// Vouches for itself; three alternative names.
const CERTIFICATE_P256: &str = concat!(
    "-----BEGIN CERTI",
    "FICATE-----\n",
    "MIIBnTCCAUSgAwIBAgIUFcfnIHfHaAhnbZMgkNmY2ViEJeYwCgYIKoZIzj0EAwIw\n",
    "DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMzAwNjM1MDdaGA8yMTI2MTEwNjA2MzUw\n",
    "N1owDzENMAsGA1UEAwwEZnV6ejBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFBW\n",
    "rdQSkzrvIFZVik3+50NDR11Fg2el78wYB0Wv2bSs6zyx/LPn8KxryEydhDEY1lRy\n",
    "YoadJ7go5SFpNNz3TLOjfDB6MB0GA1UdDgQWBBS1ZZqAwEKHjAdEjWTwiEfZGJAU\n",
    "VDAfBgNVHSMEGDAWgBS1ZZqAwEKHjAdEjWTwiEfZGJAUVDAPBgNVHRMBAf8EBTAD\n",
    "AQH/MCcGA1UdEQQgMB6CCWEuZXhhbXBsZYILKi5iLmV4YW1wbGWHBH8AAAEwCgYI\n",
    "KoZIzj0EAwIDRwAwRAIgUBwr3qGxM8PzA7m06a9AIRu8ct2+KfVdsZW4iKaN+b4C\n",
    "IAceTQF7Ar/JPic5NW3+3Mz8fZZLl+mLI6QKa+hZrXfK\n",
    "-----END CERTI",
    "FICATE-----\n",
);

/// The same key in the older form.
const KEY_P256_SEC1: &str = concat!(
    "-----BEGIN EC PRIVATE",
    " KEY-----\n",
    "MHcCAQEEIB2h57xFmauCIhK1LqmhNE0iosy4pa9QlY0asDWRFjZfoAoGCCqGSM49\n",
    "AwEHoUQDQgAEUFat1BKTOu8gVlWKTf7nQ0NHXUWDZ6XvzBgHRa/ZtKzrPLH8s+fw\n",
    "rGvITJ2EMRjWVHJihp0nuCjlIWk03PdMsw==\n",
    "-----END EC PRIVATE",
    " KEY-----\n",
);

/// Certificate and key.
const PAIR_P256: &str = concat!(
    "-----BEGIN CERTI",
    "FICATE-----\n",
    "MIIBnTCCAUSgAwIBAgIUFcfnIHfHaAhnbZMgkNmY2ViEJeYwCgYIKoZIzj0EAwIw\n",
    "DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMzAwNjM1MDdaGA8yMTI2MTEwNjA2MzUw\n",
    "N1owDzENMAsGA1UEAwwEZnV6ejBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFBW\n",
    "rdQSkzrvIFZVik3+50NDR11Fg2el78wYB0Wv2bSs6zyx/LPn8KxryEydhDEY1lRy\n",
    "YoadJ7go5SFpNNz3TLOjfDB6MB0GA1UdDgQWBBS1ZZqAwEKHjAdEjWTwiEfZGJAU\n",
    "VDAfBgNVHSMEGDAWgBS1ZZqAwEKHjAdEjWTwiEfZGJAUVDAPBgNVHRMBAf8EBTAD\n",
    "AQH/MCcGA1UdEQQgMB6CCWEuZXhhbXBsZYILKi5iLmV4YW1wbGWHBH8AAAEwCgYI\n",
    "KoZIzj0EAwIDRwAwRAIgUBwr3qGxM8PzA7m06a9AIRu8ct2+KfVdsZW4iKaN+b4C\n",
    "IAceTQF7Ar/JPic5NW3+3Mz8fZZLl+mLI6QKa+hZrXfK\n",
    "-----END CERTI",
    "FICATE-----\n",
    "-----BEGIN PRIVATE",
    " KEY-----\n",
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgHaHnvEWZq4IiErUu\n",
    "qaE0TSKizLilr1CVjRqwNZEWNl+hRANCAARQVq3UEpM67yBWVYpN/udDQ0ddRYNn\n",
    "pe/MGAdFr9m0rOs8sfyz5/Csa8hMnYQxGNZUcmKGnSe4KOUhaTTc90yz\n",
    "-----END PRIVATE",
    " KEY-----\n",
);

/// Key, then certificate.
const PAIR_ED25519: &str = concat!(
    "-----BEGIN PRIVATE",
    " KEY-----\n",
    "MC4CAQAwBQYDK2VwBCIEIGjTJPxsOZOzA1f0ZxW1zgAMgprXiU7+5UOqVA1Ad7Qa\n",
    "-----END PRIVATE",
    " KEY-----\n",
    "-----BEGIN CERTI",
    "FICATE-----\n",
    "MIIBMDCB46ADAgECAhQ1ZhLX6c7r3/nQoin5eA/0nANwRDAFBgMrZXAwDTELMAkG\n",
    "A1UEAwwCZWQwIBcNMjYxMTMwMDYzNTA3WhgPMjEyNjExMDYwNjM1MDdaMA0xCzAJ\n",
    "BgNVBAMMAmVkMCowBQYDK2VwAyEA0q3nl8hbi4ArU9/bXWyOleZuQzeLAo711i+i\n",
    "4+E7Zx+jUzBRMB0GA1UdDgQWBBQ8Vq7MzTFjPxioVTRtxk82UvaZDTAfBgNVHSME\n",
    "GDAWgBQ8Vq7MzTFjPxioVTRtxk82UvaZDTAPBgNVHRMBAf8EBTADAQH/MAUGAytl\n",
    "cANBAP+i457USFuuzaVwppeeJSTZ7cUAyJeqeMLPUroxBKXG12RffyPIA5rNDziz\n",
    "OmNqDQsoyMX0I1y7cuRDk4puCQE=\n",
    "-----END CERTI",
    "FICATE-----\n",
);

/// A list of authorities.
const TWO_CERTIFICATES: &str = concat!(
    "-----BEGIN CERTI",
    "FICATE-----\n",
    "MIIBMDCB46ADAgECAhQ1ZhLX6c7r3/nQoin5eA/0nANwRDAFBgMrZXAwDTELMAkG\n",
    "A1UEAwwCZWQwIBcNMjYxMTMwMDYzNTA3WhgPMjEyNjExMDYwNjM1MDdaMA0xCzAJ\n",
    "BgNVBAMMAmVkMCowBQYDK2VwAyEA0q3nl8hbi4ArU9/bXWyOleZuQzeLAo711i+i\n",
    "4+E7Zx+jUzBRMB0GA1UdDgQWBBQ8Vq7MzTFjPxioVTRtxk82UvaZDTAfBgNVHSME\n",
    "GDAWgBQ8Vq7MzTFjPxioVTRtxk82UvaZDTAPBgNVHRMBAf8EBTADAQH/MAUGAytl\n",
    "cANBAP+i457USFuuzaVwppeeJSTZ7cUAyJeqeMLPUroxBKXG12RffyPIA5rNDziz\n",
    "OmNqDQsoyMX0I1y7cuRDk4puCQE=\n",
    "-----END CERTI",
    "FICATE-----\n",
    "-----BEGIN CERTI",
    "FICATE-----\n",
    "MIIBnTCCAUSgAwIBAgIUFcfnIHfHaAhnbZMgkNmY2ViEJeYwCgYIKoZIzj0EAwIw\n",
    "DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMzAwNjM1MDdaGA8yMTI2MTEwNjA2MzUw\n",
    "N1owDzENMAsGA1UEAwwEZnV6ejBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFBW\n",
    "rdQSkzrvIFZVik3+50NDR11Fg2el78wYB0Wv2bSs6zyx/LPn8KxryEydhDEY1lRy\n",
    "YoadJ7go5SFpNNz3TLOjfDB6MB0GA1UdDgQWBBS1ZZqAwEKHjAdEjWTwiEfZGJAU\n",
    "VDAfBgNVHSMEGDAWgBS1ZZqAwEKHjAdEjWTwiEfZGJAUVDAPBgNVHRMBAf8EBTAD\n",
    "AQH/MCcGA1UdEQQgMB6CCWEuZXhhbXBsZYILKi5iLmV4YW1wbGWHBH8AAAEwCgYI\n",
    "KoZIzj0EAwIDRwAwRAIgUBwr3qGxM8PzA7m06a9AIRu8ct2+KfVdsZW4iKaN+b4C\n",
    "IAceTQF7Ar/JPic5NW3+3Mz8fZZLl+mLI6QKa+hZrXfK\n",
    "-----END CERTI",
    "FICATE-----\n",
);
