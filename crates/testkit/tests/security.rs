//! Nodes with certificates, passwords and an authorizer, tested with Kafka's own tools.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;

use testkit::{Authority, Cluster, Identity, PLAIN_USERS, SASL_PORT, Security, TLS_SUPER_USER};

/// Lists the topics with a client of these properties.
async fn list_topics(cluster: &Cluster, port: u16, properties: &str) -> anyhow::Result<String> {
    let file = cluster.dir().join("client.properties");
    // A rejected client would retry for a minute.
    let impatient = "default.api.timeout.ms=8000\nrequest.timeout.ms=4000\n";
    fs::write(&file, format!("{impatient}{properties}"))?;
    let address = format!("{}:{port}", cluster.nodes()[0].host());
    let file = file.display().to_string();
    let arguments = ["--bootstrap-server", &address, "--command-config", &file, "--list"];
    cluster.run_tool("org.apache.kafka.tools.TopicCommand", &arguments).await
}

fn tls_properties(cluster: &Cluster, identity: &Identity) -> String {
    let (store, trust) = (cluster.dir().join("client.pem"), cluster.dir().join("trust.pem"));
    fs::write(&store, format!("{}{}", identity.key_pem, identity.certificate_pem)).unwrap();
    fs::write(&trust, cluster.tls().unwrap().ca_pem()).unwrap();
    format!(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={}\n\
         ssl.truststore.type=PEM\nssl.truststore.location={}\n",
        store.display(),
        trust.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn only_certificates_of_the_clusters_authority_that_are_valid_come_in() {
    let builder = Cluster::builder().combined(2).security(Security::Tls).authorizer(true);
    let cluster = builder.start().await.unwrap();
    let authority = cluster.tls().unwrap();
    let check = async |identity: Identity| {
        list_topics(&cluster, 9092, &tls_properties(&cluster, &identity)).await
    };
    check(authority.client_certificate(TLS_SUPER_USER).unwrap()).await.unwrap();
    let foreign = Authority::new("foreign").unwrap().client_certificate(TLS_SUPER_USER).unwrap();
    for refused in [authority.expired_client_certificate().unwrap(), foreign] {
        let error = check(refused).await.unwrap_err().to_string();
        assert!(error.contains("SSL handshake failed") || error.contains("Ssl"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sasl_listener_knows_its_users_and_the_authorizer_what_they_may() {
    let builder = Cluster::builder().combined(1).sasl_listeners(true).authorizer(true);
    let cluster = builder.start().await.unwrap();
    let check = async |name: &str, password: &str| {
        let properties = format!(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\
             sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
             username=\"{name}\" password=\"{password}\";\n"
        );
        list_topics(&cluster, SASL_PORT, &properties).await
    };
    for (name, password) in PLAIN_USERS {
        check(name, password).await.unwrap();
    }
    let error = check("alice", "wrong").await.unwrap_err().to_string();
    assert!(error.contains("SaslAuthenticationException"), "{error}");
    assert_eq!(cluster.bootstrap_sasl(), [(cluster.node(200).host().to_owned(), SASL_PORT)]);

    // Anonymous is a super user; alice is not, so an existing topic is invisible to her.
    let address = format!("{}:9092", cluster.node(200).host());
    let create = ["--bootstrap-server", &address, "--create", "--topic", "secrets"];
    cluster.run_tool("org.apache.kafka.tools.TopicCommand", &create).await.unwrap();
    assert!(check("admin", "admin-secret").await.unwrap().contains("secrets"));
    assert!(!check("alice", "alice-secret").await.unwrap().contains("secrets"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_was_given_scram_credentials_logs_in() {
    let cluster = Cluster::builder().combined(1).sasl_listeners(true).start().await.unwrap();
    let address = format!("{}:9092", cluster.node(200).host());
    let user = ["--entity-type", "users", "--entity-name", "bob"];
    let alter = ["--alter", "--add-config", "SCRAM-SHA-512=[password=bob-secret]"];
    let arguments = [["--bootstrap-server", &address].as_slice(), &alter, &user].concat();
    cluster.run_tool("kafka.admin.ConfigCommand", &arguments).await.unwrap();
    let properties = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n\
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
        username=\"bob\" password=\"bob-secret\";\n";
    list_topics(&cluster, SASL_PORT, properties).await.unwrap();
}
