//! The kinds of objects that areas build.

use api::StrimziPodSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::comparison::Compared;
use crate::found::{ByName, Found};

/// A kind of object that areas build.
pub trait Kind: Sized {
    /// The existing objects of this kind.
    fn all(found: &Found) -> &ByName<Self>;
    /// The same, mutable, to keep an object that was written.
    fn all_mut(found: &mut Found) -> &mut ByName<Self>;
}

/// Declares each kind once: variant of [`Object`], type, and field of [`Found`].
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident($kind:ty): $field:ident,)*) => {
        /// An object that an area builds. The list is closed.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Object {
            $($(#[$doc])* $variant($kind),)*
        }

        impl Object {
            fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$variant(object) => &object.metadata,)*
                }
            }
        }

        /// Compares an object with the existing one of its kind and name.
        ///
        /// # Errors
        /// If one of them cannot be serialized.
        pub fn compare(object: &Object, found: &Found) -> Result<Compared, serde_json::Error> {
            match object {
                $(Object::$variant(desired) => {
                    Compared::new(desired, <$kind>::all(found).get(object.name()))
                })*
            }
        }

        $(
            impl From<$kind> for Object {
                fn from(object: $kind) -> Self {
                    Self::$variant(object)
                }
            }

            impl Kind for $kind {
                fn all(found: &Found) -> &ByName<Self> {
                    &found.$field
                }

                fn all_mut(found: &mut Found) -> &mut ByName<Self> {
                    &mut found.$field
                }
            }
        )*
    };
}

kinds! {
    /// The account of nodes.
    ServiceAccount(ServiceAccount): accounts,
    /// Allowed network peers of nodes.
    NetworkPolicy(NetworkPolicy): policies,
    /// Limit of concurrent evictions.
    PodDisruptionBudget(PodDisruptionBudget): budgets,
    /// Permission to read Node labels.
    ClusterRoleBinding(ClusterRoleBinding): bindings,
    /// Addresses of brokers.
    Service(Service): services,
    /// The claim of a volume.
    PersistentVolumeClaim(PersistentVolumeClaim): claims,
    /// The configuration of a node.
    ConfigMap(ConfigMap): config_maps,
    /// The pods of a pool.
    PodSet(StrimziPodSet): pod_sets,
}

impl Object {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
}
