//! Specs that tests begin with.

use std::collections::BTreeMap;

use super::spec::{
    Authentication, Authority, Claim, ClusterSpec, Disk, JvmSettings, Listener, ListenerKind,
    Logging, PoolSpec, Services, Size, Storage, Volume,
};
use crate::node::Roles;

/// Three brokers and three controllers, with a listener in the clear and one with TLS.
pub(crate) fn cluster() -> ClusterSpec {
    let mut tls = listener("tls", 9093);
    tls.tls = true;
    ClusterSpec {
        name: "my".to_owned(),
        namespace: "here".to_owned(),
        kafka_version: Some("4.3.1".to_owned()),
        metadata_version: Some("4.3-IV0".to_owned()),
        image: None,
        listeners: vec![listener("plain", 9092), tls],
        config: BTreeMap::new(),
        authorization: None,
        rack: None,
        metrics: None,
        logging: Logging::Default,
        exporter: None,
        topics_namespace: None,
        users_namespace: None,
        cluster_ca: Authority::default(),
        clients_ca: Authority::default(),
        max_unavailable: 1,
        pools: vec![pool("broker", Roles::Broker, 3), pool("controller", Roles::Controller, 3)],
        template_keys: Vec::new(),
        pod_templates: Vec::new(),
    }
}

pub(crate) fn listener(name: &str, port: u16) -> Listener {
    Listener {
        name: name.to_owned(),
        port,
        kind: ListenerKind::Internal,
        tls: false,
        authentication: Authentication::None,
        certificate: None,
        connections_max: None,
        connection_creation_rate_max: None,
        with_dns_domain: false,
        node_address: None,
        advertised_host: None,
        advertised_port: None,
        alternative_names: Vec::new(),
        brokers: BTreeMap::new(),
        services: Services::default(),
    }
}

pub(crate) fn pool(name: &str, roles: Roles, replicas: u32) -> PoolSpec {
    PoolSpec {
        name: name.to_owned(),
        roles,
        replicas,
        storage: Storage::Jbod(vec![claim(0, "100Gi")]),
        jvm: JvmSettings::default(),
        memory_bytes: None,
    }
}

pub(crate) fn claim(id: u32, size: &str) -> Volume {
    let claim = Claim {
        size: Size::parse(size).unwrap(),
        class: None,
        attributes_class: None,
        selector: BTreeMap::new(),
        delete: false,
    };
    Volume { id, kraft_metadata: false, disk: Disk::Claim(claim) }
}

pub(crate) fn ephemeral(id: u32) -> Volume {
    Volume { id, kraft_metadata: false, disk: Disk::Ephemeral { size_limit: None } }
}
