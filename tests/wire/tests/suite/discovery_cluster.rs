//! A Kubernetes API server for tests of the whole binary: the stand-in that the provider itself is tested with, on a
//! thread of its own.

use std::cell::{Ref, RefCell};
use std::path::Path;
use std::thread;

use ringway_wire::{Port, eventually};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::apisim::{ApiSim, Store};

/// Namespace of all objects.
pub(crate) const NAMESPACE: &str = "shop";
/// The collections of that namespace.
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
pub(crate) const PODS: &str = "/api/v1/namespaces/shop/pods";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/shop/services";

/// The server; it ends when dropped.
pub(crate) struct Cluster {
    sim: RefCell<ApiSim>,
    runtime: Handle,
    _end: oneshot::Sender<()>,
    _port: Port,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime of one thread");
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        thread::spawn(move || {
            // Told or dropped: both are the end.
            let _: Result<(), _> = runtime.block_on(ended);
        });
        let port = Port::claim();
        Cluster {
            sim: RefCell::new(handle.block_on(ApiSim::start_at(port.address()))),
            runtime: handle,
            _end: end,
            _port: port,
        }
    }

    /// The server as it runs.
    pub(crate) fn sim(&self) -> Ref<'_, ApiSim> {
        self.sim.borrow()
    }

    /// Closes its port and all connections.
    pub(crate) fn stop(&self) {
        self.runtime.block_on(self.sim.borrow_mut().stop());
    }

    /// Listens again.
    pub(crate) fn resume(&self) {
        self.runtime.block_on(self.sim.borrow_mut().listen());
    }

    /// Writes a kubeconfig for it, with this user, into a folder; returns a discoverer's keys.
    pub(crate) fn discoverer(&self, folder: &Path, user: &Value) -> String {
        let text = self.sim().kubeconfig(Some(NAMESPACE), user);
        std::fs::write(folder.join("kubeconfig"), text).expect("the folder is ours");
        "provider: kubernetes, kubernetes: {kubeconfig: kubeconfig}".to_owned()
    }

    /// Waits until the server knows something.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Store) -> bool) {
        eventually(what, || self.sim().look(&mut is_so).then_some(()));
    }

    /// Lists and watches of a collection that have come.
    pub(crate) fn asked(&self, collection: &str) -> (usize, usize) {
        self.sim().look(|store| store.asked(collection))
    }

    /// Puts a slice of Service `web` with these endpoints at a port.
    pub(crate) fn put_slice(&self, name: &str, port: u16, endpoints: &[Value]) {
        self.sim().put(SLICES, slice(name, port, endpoints));
    }
}

/// A slice of Service `web`.
pub(crate) fn slice(name: &str, port: u16, endpoints: &[Value]) -> Value {
    json!({
        "metadata": {
            "name": name, "generation": 1,
            "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "tests"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u"}],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "protocol": "TCP", "port": port, "appProtocol": null}],
    })
}

/// An endpoint at 127.0.0.`octet`, of Pod `pod-<octet>`, with these conditions.
pub(crate) fn endpoint(octet: u8, conditions: &Value) -> Value {
    json!({
        "addresses": [format!("127.0.0.{octet}")],
        "conditions": conditions,
        "targetRef": {
            "kind": "Pod", "namespace": NAMESPACE,
            "name": format!("pod-{octet}"), "uid": format!("pod-uid-{octet}"),
        },
        "nodeName": "node-a", "zone": "a", "hostname": null,
    })
}

/// Endpoints that are ready.
pub(crate) fn ready(octets: &[u8]) -> Vec<Value> {
    let conditions = json!({"ready": true, "serving": true, "terminating": false});
    let all = octets.iter();
    all.map(|octet| endpoint(*octet, &conditions)).collect()
}

/// A Pod at 127.0.0.`octet` with container port `port`, labelled as one of `web`.
pub(crate) fn pod(octet: u8, port: u16) -> Value {
    json!({
        "metadata": {
            "name": format!("pod-{octet}"), "uid": format!("pod-uid-{octet}"),
            "labels": {"app": "web", "shard": "s0"}, "annotations": null,
        },
        "spec": {"containers": [
            {"name": "web", "image": "web:1", "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}]},
            {"name": "side", "image": "side:1"},
        ]},
        "status": {
            "phase": "Running", "podIP": format!("127.0.0.{octet}"), "podIPs": [{"ip": format!("127.0.0.{octet}")}],
            "conditions": [
                {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"},
            ],
        },
    })
}
