//! Rows for texts of the user's that become part of larger values.

use super::{R, Row, key, set};
use crate::cluster::spec::{Authorization, Rack};

pub(super) const VALUES: &[Row] = &[
    (
        |s| set(s, "log.retention.ms", "${gregordir:/opt/kafka/certs/node:my-broker-0.key}"),
        &[(
            R::ReservedConfigProvider,
            "log.retention.ms refers to the config provider gregordir of the operator: use a provider of \
             your own",
        )],
    ),
    // Providers of the user's own, and of Strimzi, are the user's to refer to.
    (|s| set(s, "log.retention.ms", "${file:/mnt/x:y} ${strimzienv:A} ${"), &[]),
    (
        |s| s.listeners[0].advertised_host = Some("a:1,PLAIN-9092://b".to_owned()),
        &[(
            R::InvalidValue,
            "listener plain: the advertised host \"a:1,PLAIN-9092://b\" is neither a name nor an address",
        )],
    ),
    (
        |s| s.listeners[0].advertised_host = Some("${gregordir:/x:y}".to_owned()),
        &[(
            R::InvalidValue,
            "listener plain: the advertised host \"${gregordir:/x:y}\" is neither a name nor an address",
        )],
    ),
    (|s| s.listeners[0].advertised_host = Some("b-{nodeId}.{nodePodName}.x_y".to_owned()), &[]),
    (|s| s.listeners[0].advertised_host = Some("[fe80::1]".to_owned()), &[]),
    (
        |s| s.authorization = super_users(&["CN=a,O=b c", "x;User:evil", "${env:A}", "a\nb", " "]),
        &[
            (
                R::InvalidValue,
                "superUsers has \"x;User:evil\": a super user cannot contain ;, ${ or control characters",
            ),
            (
                R::InvalidValue,
                "superUsers has \"${env:A}\": a super user cannot contain ;, ${ or control characters",
            ),
            (
                R::InvalidValue,
                "superUsers has \"a\\nb\": a super user cannot contain ;, ${ or control characters",
            ),
            (
                R::InvalidValue,
                "superUsers has \" \": a super user cannot contain ;, ${ or control characters",
            ),
        ],
    ),
    (
        |s| s.rack = Some(Rack::Environment("A}${gregordir:/x:y".to_owned())),
        &[(
            R::InvalidValue,
            "rack.envVarName is \"A}${gregordir:/x:y\": use letters, digits, _, - and .",
        )],
    ),
    (
        |s| s.pools[0].jvm.heap_max = Some("1g\n-javaagent:x".to_owned()),
        &[(
            R::InvalidValue,
            "jvmOptions of pool broker: \"-Xmx\" is not a single option: remove white space, line breaks and \
             = from its name and control characters from its value",
        )],
    ),
    (
        |s| s.template_keys = vec![key("y", "gregor.io/settings")],
        &[(
            R::ReservedLabel,
            "y has gregor.io/settings: the prefix gregor.io/ is reserved, remove it",
        )],
    ),
];

fn super_users(names: &[&str]) -> Option<Authorization> {
    Some(Authorization { super_users: names.iter().map(|&name| name.to_owned()).collect() })
}
