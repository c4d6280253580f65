//! SCRAM credentials and access control lists.

use anyhow::ensure;
use kafka_admin::{
    Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource, AlterScramError, Secret,
};
use testkit::Cluster;

use crate::common::{brokers, controllers, eventually, so};

pub(crate) async fn scram_credentials(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    admin.set_scram_password("bob", &Secret::new("first")).await?;
    controllers(cluster).set_scram_password("bob", &Secret::new("second")).await?;
    eventually("bob is listed", async || {
        let users = admin.describe_scram_users().await?;
        let bob = users.iter().find(|user| user.name == "bob");
        so(bob.is_some_and(|bob| bob.sha_512_iterations == Some(8192)), format!("{users:?}"))
    })
    .await?;
    admin.delete_scram_credential("bob").await?;
    let again = admin.delete_scram_credential("bob").await;
    ensure!(matches!(again, Err(AlterScramError::NotFound { .. })), "{again:?}");
    eventually("bob is gone", async || {
        let users = admin.describe_scram_users().await?;
        so(users.is_empty(), format!("{users:?}"))
    })
    .await
}

pub(crate) async fn access_control_lists(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let read = Acl {
        resource: AclResource::Topic,
        name: "orders-".to_owned(),
        pattern: AclPattern::Prefixed,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: AclOperation::Read,
        permission: AclPermission::Allow,
    };
    let deny =
        Acl { permission: AclPermission::Deny, host: "127.0.0.9".to_owned(), ..read.clone() };
    let results = admin.create_acls(&[read.clone(), deny.clone()]).await?;
    assert_eq!(results, [Ok(()), Ok(())]);
    let of_alice = AclFilter { principal: Some("User:alice".to_owned()), ..AclFilter::default() };
    eventually("both rules are there", async || {
        let acls = admin.describe_acls(&of_alice).await?;
        so(acls.len() == 2 && acls.contains(&read) && acls.contains(&deny), acls)
    })
    .await?;
    assert_eq!(admin.delete_acls(&deny.clone().into()).await?, [deny]);
    eventually("one rule is left", async || {
        let acls = admin.describe_acls(&of_alice).await?;
        so(acls == [read.clone()], acls)
    })
    .await?;
    assert_eq!(admin.delete_acls(&of_alice).await?, [read]);
    Ok(())
}
