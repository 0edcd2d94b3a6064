//! Member lists of `file` and `http_sd`: no panic, and what is accepted can be dialled.

use ringway::discovery::members::{host_port, parse};
use ringway::discovery::settings::ListFormat;

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "member-list",
    about: "member lists of discovery, in both formats",
    count: 200_000,
    seeds: &[
        b"- name: a\n  address: 192.0.2.1:9090\n- address: '[2001:db8::1]:80'\n  scheme: https\n",
        b"- {address: a:1, path_prefix: /b, weight: 3, replica_group: s0}\n",
        b"[{\"address\":\"a:1\",\"name\":\"\\ud83d\\ude00\",\"weight\":2},{\"address\":\"b:2\"}]",
        b"[{\"targets\":[\"a:1\",\"[::1]:2\"],\"labels\":{\"__scheme__\":\"https\",\"x\":\"y\"}}]",
        b"[{\"targets\":[\"a:1\"]},{\"targets\":[],\"labels\":null}]",
        b"[]",
    ],
    words: &[
        b"address",
        b"targets",
        b"labels",
        b"weight",
        b"scheme",
        b"path_prefix",
        b"name",
        b": ",
        b"- ",
        b"\n",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\"",
        b",",
        b":",
        b"::1",
        b"65536",
        b"0",
        b"null",
        b"~",
        b"&a ",
        b"*a",
        b"<<: ",
        b"\\u0000",
        b"\xef\xbb\xbf",
        b"https",
        b"__scheme__",
    ],
    run,
};

fn run(input: &[u8], _: &mut Random) {
    for format in [ListFormat::Trickster, ListFormat::Prometheus] {
        // The scheme is passed through; the default one will do.
        match parse(
            format,
            input,
            ringway::discovery::settings::Query::default().scheme(),
        ) {
            Ok(members) => {
                for member in members {
                    assert!(member.port > 0 && !member.host.is_empty());
                    assert!(!member.name.is_empty(), "a member has a name");
                    let again = host_port(&member.address());
                    assert_eq!(
                        again,
                        Ok((member.host, member.port)),
                        "addresses are read back"
                    );
                }
            }
            Err(said) => assert!(!said.contains('\n'), "a refusal is one line: {said}"),
        }
    }
}
