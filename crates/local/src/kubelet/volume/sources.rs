//! Sources of volumes: watched objects, tokens, claims.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::mpsc::UnboundedSender;

use super::Volumes;
use super::payload::{SourceKey, TokenKey};
use crate::kubelet::pod::Mail;

/// A token, and when to renew it.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) renew_at: Timestamp,
}

impl Volumes {
    /// Watches an object, and notifies the actor on each change.
    pub(super) fn follow(&mut self, key: SourceKey, bell: &UnboundedSender<Mail>) {
        if self.entries.contains_key(&key) {
            return;
        }
        let entry = self.shared.objects.watch(&self.namespace, &key);
        let (mut known, bell) = (entry.known(), bell.clone());
        self.bells.spawn(async move {
            while known.changed().await.is_ok() {
                if bell.send(Mail::Look).is_err() {
                    return;
                }
            }
        });
        self.entries.insert(key, Arc::clone(&entry));
    }

    /// Requests a token unless there is a recent one.
    pub(super) async fn renew(&mut self, pod: &Pod, key: TokenKey) -> Result<(), String> {
        let now = Timestamp::now();
        if self.tokens.get(&key).is_some_and(|token| token.renew_at > now) {
            return Ok(());
        }
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        let account = account.unwrap_or_else(|| "default".to_owned());
        let api = Api::<ServiceAccount>::namespaced(self.shared.client.clone(), &self.namespace);
        let request = token_request(pod, &key);
        match api.create_token_request(&account, &Default::default(), &request).await {
            Ok(answer) => {
                let status = answer.status.ok_or("the token response has no status")?;
                let renew_at = renewal(now, status.expiration_timestamp.0);
                self.tokens.insert(key, Token { text: status.token, renew_at });
                Ok(())
            }
            // The old one is valid for another fifth of its lifetime.
            Err(_) if self.tokens.contains_key(&key) => {
                let soon = now.checked_add(Duration::from_secs(10)).unwrap_or(now);
                self.tokens.entry(key).and_modify(|token| token.renew_at = soon);
                Ok(())
            }
            Err(error) => Err(format!("failed to fetch token: {error}")),
        }
    }
}

fn token_request(pod: &Pod, key: &TokenKey) -> TokenRequest {
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    };
    let spec = TokenRequestSpec {
        audiences: key.audience.iter().cloned().collect(),
        bound_object_ref: Some(bound),
        expiration_seconds: Some(key.seconds),
    };
    TokenRequest { spec, ..TokenRequest::default() }
}

/// After four fifths of a token's lifetime, and after a day at the latest.
fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let life = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    now.checked_add((life * 4 / 5).min(DAY)).unwrap_or(now)
}

/// The path of a claim on this machine; the error says what is missing.
pub(super) async fn claim_path(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<PathBuf, String> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let claim = claims.get_opt(name).await.map_err(|error| error.to_string())?;
    let claim = claim.ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
    let bound = claim.status.and_then(|status| status.phase).as_deref() == Some("Bound");
    let volume = claim.spec.and_then(|spec| spec.volume_name).filter(|_| bound);
    let volume = volume.ok_or_else(|| format!("persistentvolumeclaim \"{name}\" is not bound"))?;
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let object = volumes.get(&volume).await.map_err(|error| error.to_string())?;
    let spec = object.spec.unwrap_or_default();
    let local = spec.local.map(|local| local.path);
    let path = local.or_else(|| spec.host_path.map(|host| host.path)).map(PathBuf::from);
    let path =
        path.ok_or_else(|| format!("persistentvolume \"{volume}\" is not a local volume"))?;
    let there = path.is_dir();
    there.then_some(path).ok_or_else(|| format!("persistentvolume \"{volume}\" has no directory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_after_four_fifths_of_its_life() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(renewal(at(0), at(1000)), at(800));
        assert_eq!(renewal(at(0), at(10_000_000)), at(86_400));
        assert_eq!(renewal(at(1000), at(0)), at(1000));
    }
}
