//! The loop around every source: one task per query, whoever asks it.
//!
//! Asks again when the source says so, never twice at once, a little earlier or later by chance. After a failure it
//! waits the interval, or as long as the source asks to be left alone; a source that counts requests is left alone for
//! longer and longer. A panic in a provider fails that reading and no more. Dropping the [`Watch`] ends what is in
//! flight, and nothing is reported after. Contract: autodiscovery page, 6.1.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::snapshot::Snapshot;
use super::{Again, Exclusion, Failure, Member, Reading, Source};

/// Longest wait before the first reading.
const FIRST_DELAY_MAX: Duration = Duration::from_secs(1);
/// A wait is at most this part longer or shorter than told.
const CHANCE_PART: u32 = 10;
/// Longest wait after failures of a source that counts requests, in intervals.
const BACKOFF_INTERVALS_MAX: u32 = 8;
/// Longest that a source is left alone because it asks for it, where that is more than so many intervals.
const LEFT_ALONE_MAX: Duration = Duration::from_secs(60);

/// When a query is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Wait after a failure.
    pub interval: Duration,
    /// Whether further failures in a row make the wait longer: for APIs that throttle by account.
    pub backs_off: bool,
    /// Whether the first reading comes at once and not after a short wait by chance.
    pub begins_at_once: bool,
}

/// What became of one reading.
#[derive(Debug)]
pub struct News {
    /// The watch it is of.
    pub watch: u64,
    /// All members, `None` for the same as before; or why there is no reading.
    pub result: Result<Option<Snapshot>, Failure>,
    /// What the source names and cannot be a member.
    pub excluded: Vec<Exclusion>,
    /// How long the reading took. Of sources that wait for news that is mostly waiting.
    pub took: Duration,
}

/// A running watch; dropping it ends it.
#[derive(Debug)]
pub struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts reading a source.
pub fn spawn(watch: u64, source: Box<dyn Source>, pace: Pace, news: mpsc::Sender<News>) -> Watch {
    Watch(tokio::spawn(run(watch, source, pace, news)).abort_handle())
}

async fn run(watch: u64, mut source: Box<dyn Source>, pace: Pace, news: mpsc::Sender<News>) {
    if !pace.begins_at_once {
        tokio::time::sleep(by_chance(FIRST_DELAY_MAX)).await;
    }
    let mut failures = 0;
    let mut last = Snapshot::default();
    loop {
        let began = Instant::now();
        let mut result = read(&mut *source).await;
        let wait = match &mut result {
            Ok(reading) => {
                failures = 0;
                match reading.again {
                    Again::Now => Duration::ZERO,
                    // Never before the time that was told: records are good until then.
                    Again::After(wait) => wait + by_chance(wait / CHANCE_PART),
                }
            }
            Err(failure) => {
                failures += 1;
                let wait = failed_wait(pace, failures, failure);
                if failure
                    .retry_after
                    .is_some_and(|asked| asked > pace.interval)
                {
                    failure.reason.push_str(&format!(
                        "; it asks to be left alone, so it is asked again in {} s",
                        wait.as_secs()
                    ));
                }
                wait
            }
        };
        let (result, excluded) = match result {
            Ok(mut reading) => {
                exclude_everywhere(&mut reading);
                let snapshot = reading
                    .members
                    .map(|members| Snapshot::after(&last, members));
                if let Some(snapshot) = &snapshot {
                    last = snapshot.clone();
                }
                (Ok(snapshot), reading.excluded)
            }
            Err(failure) => (Err(failure), Vec::new()),
        };
        let told = News {
            watch,
            result,
            excluded,
            took: began.elapsed(),
        };
        if news.send(told).await.is_err() {
            return;
        }
        tokio::time::sleep(wait).await;
    }
}

/// Leaves out members at `0.0.0.0` and `::`, as which some sources write "all my addresses": a connection there ends at
/// this machine.
fn exclude_everywhere(reading: &mut Reading) {
    let Some(members) = &mut reading.members else {
        return;
    };
    let is_everywhere = |member: &mut Member| {
        let address: Result<IpAddr, _> = member.host.parse();
        address.is_ok_and(|address| address.is_unspecified())
    };
    let excluded = members.extract_if(.., is_everywhere);
    reading.excluded.extend(excluded.map(|member| Exclusion {
        reason: format!("{} is no address that can be asked", member.host),
        name: member.name,
    }));
}

fn failed_wait(pace: Pace, failures: u32, failure: &Failure) -> Duration {
    let times = match pace.backs_off {
        true => {
            1 << failures
                .saturating_sub(1)
                .min(BACKOFF_INTERVALS_MAX.ilog2())
        }
        false => 1,
    };
    let wait = varied(pace.interval * times);
    match failure.retry_after {
        Some(Duration::ZERO) => Duration::ZERO,
        Some(asked) => wait.max(asked.min(left_alone_max(pace))),
        None => wait,
    }
}

/// Longest that a source is left alone because it asks for it: one odd answer must not end discovery.
fn left_alone_max(pace: Pace) -> Duration {
    (pace.interval * BACKOFF_INTERVALS_MAX).max(LEFT_ALONE_MAX)
}

/// One reading. What panics in a provider is a failure; the source stays usable as far as it made no promise.
async fn read(source: &mut dyn Source) -> Result<Reading, Failure> {
    let mut next = source.next();
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| next.as_mut().poll(context)));
        polled.unwrap_or_else(|_| {
            let reason = "the provider panicked: this is a bug of ringway";
            Poll::Ready(Err(Failure::new(reason)))
        })
    })
    .await
}

/// A little more or less.
fn varied(wait: Duration) -> Duration {
    let part = wait / CHANCE_PART;
    wait - part + by_chance(part * 2)
}

/// Anything up to `most`.
fn by_chance(most: Duration) -> Duration {
    // Each has other keys: good enough to spread waits.
    let chance = RandomState::new().hash_one(0u8) >> 32;
    most.mul_f64(chance as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Member, Next};
    use ringway_shards::plan::Scheme;
    use std::collections::VecDeque;

    struct Script(VecDeque<Result<Reading, Failure>>);

    impl Source for Script {
        fn next(&mut self) -> Next<'_> {
            let next = self.0.pop_front();
            Box::pin(async move {
                match next {
                    Some(Err(failure)) if failure.reason == "panic" => panic!("as told"),
                    Some(next) => next,
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn reading(hosts: &[&str], again: Again) -> Result<Reading, Failure> {
        let members = hosts.iter().map(|host| Member::at(Scheme::Http, host, 80));
        Ok(Reading {
            members: Some(members.collect()),
            excluded: Vec::new(),
            again,
        })
    }

    const PACE: Pace = Pace {
        interval: Duration::from_secs(30),
        backs_off: false,
        begins_at_once: true,
    };

    #[tokio::test(start_paused = true)]
    async fn readings_and_failures_are_told_in_order_and_a_panic_is_one_of_them() {
        let script = Script(VecDeque::from([
            reading(&["a"], Again::After(Duration::from_secs(60))),
            Err(Failure::new("panic")),
            Err(Failure::new("down")),
            reading(&[], Again::Now),
        ]));
        let (tell, mut told) = mpsc::channel(1);
        let began = tokio::time::Instant::now();
        let watch = spawn(7, Box::new(script), PACE, tell);
        let first = told.recv().await.unwrap();
        assert_eq!(first.watch, 7);
        assert_eq!(first.result.unwrap().unwrap().entries().len(), 1);
        let second = told.recv().await.unwrap().result.unwrap_err();
        assert!(second.reason.contains("panicked"), "{second}");
        assert_eq!(
            told.recv().await.unwrap().result.unwrap_err().reason,
            "down"
        );
        let last = told.recv().await.unwrap().result.unwrap().unwrap();
        assert!(last.entries().is_empty());
        // 60 s, a tenth more at most, and twice 30 s, a tenth more or less.
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(108), "{took:?}");
        assert!(took <= Duration::from_secs(132), "{took:?}");
        drop(watch);
        assert!(told.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_everywhere() {
        let again = Again::After(Duration::from_secs(60));
        let script = Script(VecDeque::from([reading(&["0.0.0.0", "a", "::"], again)]));
        let (tell, mut told) = mpsc::channel(1);
        let _watch = spawn(7, Box::new(script), PACE, tell);
        let news = told.recv().await.unwrap();
        let snapshot = news.result.unwrap().unwrap();
        let hosts: Vec<&str> = snapshot.entries().iter().map(|e| &*e.member.host).collect();
        assert_eq!(hosts, ["a"]);
        let excluded: Vec<&str> = news.excluded.iter().map(|e| e.reason.as_str()).collect();
        assert_eq!(
            excluded,
            [
                "0.0.0.0 is no address that can be asked",
                ":: is no address that can be asked"
            ]
        );
    }

    #[test]
    fn who_counts_requests_is_left_alone_longer_and_who_says_how_long_as_long() {
        let pace = Pace {
            backs_off: true,
            ..PACE
        };
        let down = Failure::new("down");
        for (failures, intervals) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (100, 8)] {
            let wait = failed_wait(pace, failures, &down).as_secs_f64();
            let told = f64::from(30 * intervals);
            assert!(
                (told * 0.9..=told * 1.1).contains(&wait),
                "{failures}: {wait}"
            );
        }
        let asked = Failure {
            retry_after: Some(Duration::from_secs(600)),
            ..down
        };
        // Of what it asks, at most 8 intervals or a minute.
        assert_eq!(failed_wait(PACE, 1, &asked), Duration::from_secs(240));
        let quick = Pace {
            interval: Duration::from_secs(1),
            ..PACE
        };
        assert_eq!(failed_wait(quick, 1, &asked), Duration::from_secs(60));
    }
}
