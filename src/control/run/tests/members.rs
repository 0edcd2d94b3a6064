//! Discovered members, from a source to the shards.

use super::*;

const DISCOVERY: &str = "discovery:
  d: {provider: file, file: {poll_interval: 1s}}
";

/// `more` goes into `alb.discovery`.
fn discovering(file: &std::path::Path, more: &str) -> String {
    let yaml = yaml(PLAIN).replace("      pool: [a]\n", "");
    format!(
        "{DISCOVERY}{yaml}      discovery: {{discoverer_name: d, template_backend: t, query: {{path: '{}'}}{more}}}\n  \
         t: {{provider: reverseproxy, is_template: true}}\n",
        file.display()
    )
}

fn hosts(table: &PoolTable) -> Vec<String> {
    let live = table.pools[0].live.iter();
    let addresses = live.flat_map(|m| table.backends[m.backend.id.index()].addresses.iter());
    addresses.map(ToString::to_string).collect()
}

fn write(file: &std::path::Path, members: &[&str]) {
    let list: String = members
        .iter()
        .map(|at| format!("- address: {at}\n"))
        .collect();
    let beside = file.with_extension("new");
    std::fs::write(&beside, if list.is_empty() { "[]\n" } else { &list }).unwrap();
    std::fs::rename(&beside, file).unwrap();
}

#[tokio::test]
async fn members_of_a_file_are_in_the_first_table_and_changes_reach_every_shard() {
    local(async {
        let folder = own_folder("members");
        let file = folder.join("m.yaml");
        write(&file, &["192.0.2.1:80"]);
        let roles = [Role::Willing, Role::Willing];
        let mut rig = Rig::start(&discovering(&file, ""), &roles);
        let serving = rig.serving().await;
        for shard in 0..2 {
            assert!(matches!(rig.next(shard).await, Seen::Prepared(1)));
            let Seen::Committed(table) = rig.next(shard).await else {
                panic!("no commit");
            };
            assert_eq!(hosts(&table), ["192.0.2.1:80"]);
        }
        for members in [
            &["192.0.2.1:80", "192.0.2.2:81"][..],
            &["192.0.2.2:81"],
            &[],
        ] {
            write(&file, members);
            for shard in 0..2 {
                let Seen::Members(table) = rig.next(shard).await else {
                    panic!("no members");
                };
                assert_eq!(hosts(&table), members);
            }
        }
        let (_, text) = get(admin(&serving, "metrics"), "/metrics").await;
        assert!(
            text.contains("\nringway_discovery_spread_seconds_count 3\n"),
            "{text}"
        );
        assert!(
            !text.contains("192-0-2"),
            "members that left leave no series: {text}"
        );
        rig.signals.send(Signal::Stop).await.unwrap();
        rig.ended().await;
        std::fs::remove_dir_all(folder).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_start_that_depends_on_a_source_ends_without_it() {
    local(async {
        let folder = own_folder("start");
        let file = folder.join("missing.yaml");
        let rig = Rig::start(
            &discovering(&file, ", startup_policy: fail"),
            &[Role::Willing],
        );
        let Ended::Refused(refusal) = rig.ended().await else {
            panic!("it serves");
        };
        let said = refusal.to_string();
        assert!(
            said.contains("discovery.d") && said.contains("startup_policy"),
            "{said}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    })
    .await;
}

#[tokio::test]
async fn members_stay_over_a_reload_and_when_their_source_fails() {
    local(async {
        let folder = own_folder("reload");
        let file = folder.join("m.yaml");
        write(&file, &["192.0.2.1:80"]);
        let mut rig = Rig::start(&discovering(&file, ""), &[Role::Willing]);
        rig.serving().await;
        rig.next(0).await;
        rig.next(0).await;
        std::fs::remove_file(&file).unwrap();
        rig.config.write(&discovering(&file, ", min_members: 1"));
        rig.signals.send(Signal::Reload).await.unwrap();
        assert!(matches!(rig.next(0).await, Seen::Prepared(2)));
        let Seen::Committed(table) = rig.next(0).await else {
            panic!("no commit");
        };
        assert_eq!(hosts(&table), ["192.0.2.1:80"]);
        rig.signals.send(Signal::Stop).await.unwrap();
        rig.ended().await;
        std::fs::remove_dir_all(folder).unwrap();
    })
    .await;
}

/// A folder of this test alone.
fn own_folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("ringway-run-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
