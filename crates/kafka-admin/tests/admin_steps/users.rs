//! SCRAM credentials and access control lists.

use anyhow::ensure;
use kafka_admin::{
    Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource, AlterScramError, Code,
    ScramChange, Secret,
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

pub(crate) async fn many_credentials_rules_and_quotas_in_one_request(
    cluster: &Cluster,
) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let set = |user: &str| ScramChange::Set {
        user: user.to_owned(),
        password: Secret::new("open sesame"),
    };
    let delete = |user: &str| ScramChange::Delete { user: user.to_owned() };
    let results = admin.alter_scram_credentials(vec![set("ann"), set("ben"), delete("nobody")]);
    let results = results.await?;
    ensure!(results["ann"].is_ok() && results["ben"].is_ok(), "{results:?}");
    let missing = results["nobody"].as_ref().map_err(|refusal| refusal.code);
    ensure!(missing == Err(Code::RESOURCE_NOT_FOUND), "{results:?}");

    let rule = |principal: &str| Acl {
        resource: AclResource::Topic,
        name: "orders".to_owned(),
        pattern: AclPattern::Literal,
        principal: principal.to_owned(),
        host: "*".to_owned(),
        operation: AclOperation::Read,
        permission: AclPermission::Allow,
    };
    let rules = [rule("User:ann"), rule("User:ben")];
    admin.create_acls(&rules).await?;
    eventually("both rules are there", async || {
        let acls = admin.describe_acls(&AclFilter::default()).await?;
        so(acls == rules, acls)
    })
    .await?;
    let filters = [rules[1].clone(), rule("User:nobody"), rules[0].clone()].map(AclFilter::from);
    let deleted = admin.delete_acls_of(&filters).await?;
    let expected = [Ok(vec![rules[1].clone()]), Ok(vec![]), Ok(vec![rules[0].clone()])];
    ensure!(deleted == expected, "{deleted:?}");

    let quota = |value: Option<f64>| [("producer_byte_rate".to_owned(), value)].into();
    let rows =
        [("ann", Some(1024.0)), ("ben", Some(0.0)), ("cleo", Some(1024.5)), ("nobody", None)];
    let changes = rows.map(|(user, value)| (user.to_owned(), quota(value))).into();
    let results = admin.alter_user_quotas(&changes).await?;
    ensure!(results["ann"].is_ok() && results["nobody"].is_ok(), "{results:?}");
    ensure!(results["ben"].is_err(), "KRaft accepts no quota of zero: {results:?}");
    ensure!(results["cleo"].is_err(), "KRaft accepts no fraction of a byte: {results:?}");
    eventually("one user has a quota", async || {
        let quotas = admin.describe_user_quotas().await?;
        let of_ann = [("producer_byte_rate".to_owned(), 1024.0)].into();
        so(quotas == [("ann".to_owned(), of_ann)].into(), quotas)
    })
    .await?;
    let removal = [("ann".to_owned(), quota(None))].into();
    ensure!(admin.alter_user_quotas(&removal).await?["ann"].is_ok());
    let left = admin.alter_scram_credentials(vec![delete("ann"), delete("ben")]).await?;
    ensure!(left.values().all(Result::is_ok), "{left:?}");
    eventually("nothing is left", async || {
        let (users, quotas) =
            (admin.describe_scram_users().await?, admin.describe_user_quotas().await?);
        so(users.is_empty() && quotas.is_empty(), (users, quotas))
    })
    .await
}
