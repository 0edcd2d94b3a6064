//! What a DNS reply says of a name: pure, over its bytes. Contract: autodiscovery page, 8.

use std::net::IpAddr;
use std::time::Duration;

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use ringway_shards::plan::Scheme;

use super::super::Member;
use crate::config::origin_url::check_host_name;

/// Longest that a time to live keeps ringway from asking; caching resolvers bound them likewise. A mistyped one
/// would otherwise hold a pool for years.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Why there is no answer where the server knows that the name does not exist.
pub const NO_SUCH_NAME: &str = "there is no such name (NXDOMAIN)";

/// Why there is no answer where the reply is to something else.
pub const OTHER_QUESTION: &str = "it answers another question";

/// The records that answer a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Their data.
    pub data: Vec<RData>,
    /// The shortest time to live of them and of the aliases that led to them; without records there is none.
    pub ttl: Option<Duration>,
}

/// Why a reply with this code, which is not NOERROR, is no answer.
pub fn code_text(code: ResponseCode) -> String {
    match code {
        ResponseCode::NXDomain => NO_SUCH_NAME.to_owned(),
        ResponseCode::ServFail => "the server failed (SERVFAIL)".to_owned(),
        ResponseCode::Refused => "the server refused (REFUSED)".to_owned(),
        code => format!("the server says: {code} (code {})", u16::from(code)),
    }
}

/// The records of a type that a reply has for a name, or for the last of its aliases.
///
/// # Errors
/// When it is no reply, answers another question, is cut, or says that something went wrong.
pub fn read(bytes: &[u8], name: &Name, kind: RecordType) -> Result<Found, String> {
    let message =
        Message::from_vec(bytes).map_err(|error| format!("not a DNS message: {error}"))?;
    if message.message_type != MessageType::Response {
        return Err("it is no reply".into());
    }
    let asked = message.queries.first();
    if !asked.is_some_and(|query| query.name() == name && query.query_type() == kind) {
        return Err(OTHER_QUESTION.into());
    }
    if message.response_code != ResponseCode::NoError {
        return Err(code_text(message.response_code));
    }
    if message.truncation {
        return Err("the answer is cut".into());
    }
    let mut owner = name;
    let mut used: Vec<&Record> = Vec::new();
    // Each alias costs a record, so a circle of them ends.
    for _ in 0..=message.answers.len() {
        let has = |record: &&Record| record.name == *owner && record.record_type() == kind;
        let records: Vec<&Record> = message.answers.iter().filter(has).collect();
        if !records.is_empty() {
            used.extend(&records);
            return Ok(Found {
                data: records.iter().map(|record| record.data.clone()).collect(),
                ttl: used.iter().map(|record| ttl(record)).min(),
            });
        }
        let alias = message
            .answers
            .iter()
            .find_map(|record| match &record.data {
                RData::CNAME(target) if record.name == *owner => Some((record, &target.0)),
                _ => None,
            });
        let Some((record, target)) = alias else {
            return Ok(Found::default());
        };
        used.push(record);
        owner = target;
    }
    Err("its aliases lead in a circle".into())
}

fn ttl(record: &Record) -> Duration {
    match i32::try_from(record.ttl) {
        Ok(_) => Duration::from_secs(record.ttl.into()).min(TTL_MAX),
        // The top bit is not to be set; where it is, the value counts as zero (RFC 2181).
        Err(_) => Duration::ZERO,
    }
}

/// The addresses among the records.
pub fn addresses(found: &Found) -> Vec<IpAddr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    found.data.iter().filter_map(address).collect()
}

/// The members that SRV records name: those with the lowest value of `priority`.
///
/// # Errors
/// When one of these has no port or no host name.
pub fn services(found: &Found, scheme: Scheme) -> Result<Vec<Member>, String> {
    let services = found.data.iter().filter_map(|data| match data {
        // A target that is the root says that the service is not offered.
        RData::SRV(service) if !service.target.is_root() => Some(service),
        _ => None,
    });
    let services: Vec<_> = services.collect();
    let Some(best) = services.iter().map(|service| service.priority).min() else {
        return Ok(Vec::new());
    };
    let mut members = Vec::new();
    for service in services.iter().filter(|service| service.priority == best) {
        // Some servers answer in another case each time; the same host must read the same.
        let target = service.target.to_lowercase().to_ascii();
        let host = target.trim_end_matches('.');
        check_host_name(host).map_err(|reason| format!("target {host:?}: {reason}"))?;
        if service.port == 0 {
            return Err(format!("target {host:?} has port 0"));
        }
        let mut member = Member::at(scheme, host, service.port);
        member.name = host.into();
        member.weight = service.weight.into();
        member.label("priority", &service.priority.to_string());
        members.push(member);
    }
    Ok(members)
}

#[cfg(test)]
mod tests;
