//! Answers of registries and clouds to discovery: no panic, refusals are one line, members can be dialled.

use ringway::discovery::docker::containers::Place;
use ringway::discovery::settings::{Port, Query};
use ringway::discovery::{Failure, Member, aws, blocking, consul, docker, gcp, nomad};

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "discovery-answers",
    about: "answers of Consul, Nomad, Docker, EC2, ECS and Compute Engine",
    count: 100_000,
    seeds: &[
        br#"[{"Node":{"Node":"n","Address":"192.0.2.1","Datacenter":"dc1"},"Service":{"ID":"w-1","Service":"w","Tags":["a"],"Address":"","Port":80,"Meta":null,"Weights":{"Passing":3,"Warning":1}},"Checks":[{"CheckID":"c","Status":"passing"}]}]"#,
        br#"[{"ID":"_nomad-task-1","ServiceName":"w","Namespace":"default","Tags":null,"Address":"192.0.2.2","Port":23456,"CreateIndex":1}]"#,
        b"<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><name>running</name></instanceState><privateIpAddress>192.0.2.3</privateIpAddress><tagSet><item><key>port</key><value>80</value></item></tagSet></item></instancesSet></item></reservationSet><nextToken>n</nextToken></DescribeInstancesResponse>",
        br#"{"taskArns":["arn:aws:ecs:r:1:task/c/1"],"nextToken":"n"}"#,
        br#"{"tasks":[{"taskArn":"arn:aws:ecs:r:1:task/c/1","lastStatus":"RUNNING","attachments":[{"type":"ElasticNetworkInterface","details":[{"name":"privateIPv4Address","value":"192.0.2.4"}]}],"tags":[{"key":"port","value":"80"}]}],"failures":[]}"#,
        br#"{"kind":"compute#instanceAggregatedList","items":{"zones/z":{"instances":[{"id":"4","name":"a","status":"RUNNING","networkInterfaces":[{"networkIP":"192.0.2.5"}],"labels":{"s":"0"}}]}},"nextPageToken":"n","unreachables":["zones/y"]}"#,
        br#"{"type":"service_account","project_id":"p","private_key":"-----BEGIN PRIVATE KEY-----\n","client_email":"a@b","token_uri":"https://c/d"}"#,
        br#"[{"Id":"0123456789abcdef","Names":["/a"],"Image":"i","State":"running","Status":"Up 3 minutes (healthy)","Labels":{"port":"80"},"Ports":[{"PrivatePort":80,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":81,"PublicPort":82,"Type":"tcp"}],"NetworkSettings":{"Networks":{"bridge":{"IPAddress":"172.17.0.2","GlobalIPv6Address":""}}}}]"#,
        b"18446744073709551615",
    ],
    words: &[
        b"null",
        b"[]",
        b"{}",
        b"\"Port\":",
        b"65536",
        b"-1",
        b"\"Address\":\"",
        b"critical",
        b"_service_maintenance:",
        b"\"Tags\":",
        b"<item>",
        b"</item>",
        b"<!DOCTYPE a [<!ENTITY b \"c\">]>",
        b"&b;",
        b"<![CDATA[",
        b"nextToken",
        b"::1",
        b"\\u0000",
        b"\r\n",
        b"1e999",
    ],
    run,
};

fn run(input: &[u8], _: &mut Random) {
    let query = Query {
        port: Some(Port::Number(9090)),
        ..Query::default()
    };
    blocking::index(Some(input));
    // Twice: what an entry came to is kept for the next answer.
    let mut unchanged = blocking::Unchanged::default();
    let first = consul::members(input, &query, true, &mut unchanged);
    let again = consul::members(input, &query, true, &mut unchanged);
    assert_eq!(first, again, "the same answer, twice");
    check(first);
    check(nomad::members(input, &query, &mut blocking::Unchanged::default()));
    is_plain(
        docker::containers::parse(input, &query, &Place::Here)
            .err()
            .map(Failure::new),
    );
    is_plain(aws::ec2::parse_page(input).err());
    is_plain(aws::ecs::parse_list(input).err());
    is_plain(aws::ecs::parse_described(input).err());
    is_plain(gcp::gce::parse_page(input).err());
    is_plain(gcp::credentials::parse_file(input).err());
    is_plain(gcp::credentials::parse_service_key(input).err());
}

fn check(read: Result<Vec<Member>, String>) {
    match read {
        Ok(members) => {
            for member in members {
                assert!(member.port > 0 && !member.host.is_empty());
            }
        }
        Err(said) => is_plain(Some(Failure::new(said))),
    }
}

/// What is said of an answer goes into the log.
fn is_plain(failure: Option<Failure>) {
    if let Some(Failure { reason, .. }) = failure {
        assert!(
            !reason.contains(['\n', '\r']),
            "a refusal is one line: {reason}"
        );
    }
}
