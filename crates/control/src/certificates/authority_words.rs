//! What authorities do and wait for, in words.

use std::fmt;

use super::authority::{Act, Cause, Note, Reason};

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep | Self::Hold(_) => f.write_str("keep the Secrets"),
            Self::Create => f.write_str("create the key and the certificate"),
            Self::Finish => f.write_str("create the certificate"),
            Self::Renew(cause) => write!(f, "renew the certificate ({cause})"),
            Self::Stage(cause) => write!(f, "create the next key ({cause})"),
            Self::Publish => f.write_str("create the certificate of the next key"),
            Self::Promote => f.write_str("promote the next key"),
            Self::FinishPromotion => f.write_str("promote the certificate of the next key"),
            Self::Abandon => f.write_str("remove the certificate of a lost next key"),
            Self::DropOld(_) => f.write_str("remove former certificates"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expiring => "it expires soon",
            Self::Forced => "a user asked for it",
            Self::KeyLost => "its key is lost",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSupplied => {
                "generateCertificateAuthority is false, and the Secrets with its key (ca.key) and its \
                 certificate (ca.crt) are not there: create them"
            }
            Self::Lost => {
                "both Secrets of the authority are gone while pods that trust it are running: \
                 restore them from a backup"
            }
            Self::UseUnknown => {
                "the Secrets of the authority do not exist, and the pods cannot be read"
            }
            Self::KeyUnreadable => {
                "the entry for the key of the authority is not a private key in PEM: restore it"
            }
            Self::KeyLost => {
                "the key of the authority is gone, so that nothing can be signed: put it back, or annotate \
                 the Secret of the certificate with strimzi.io/force-renew=true to have the key replaced"
            }
            Self::CertificateUnreadable => {
                "the entry for the certificate of the authority is not a certificate in PEM: restore it"
            }
            Self::Mismatch => {
                "the key and the certificate of the authority do not belong together: put back the one \
                 that was changed"
            }
            Self::NotTrustedYet => {
                "the key of the authority was replaced; nothing is signed with it before all pods have \
                 restarted with its certificate in their trust bundle"
            }
            Self::NotAnnounced => {
                "the key of the authority was replaced: raise strimzi.io/ca-key-generation on its Secret \
                 and strimzi.io/ca-cert-generation on that of its certificate, and keep the former \
                 certificate there as ca-old.crt until all pods have restarted"
            }
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SuppliedExpires { .. } => {
                "the certificate of the authority expires soon, and only its supplier can renew it"
            }
            Self::WaitsForWindow { .. } => {
                "the certificate of the authority is renewed in the next maintenance window"
            }
            Self::RenewalCapped => {
                "renewalDays is more than half of the validity of the certificate; the \
                 certificate is renewed at half of its validity"
            }
            Self::NotOurs => {
                "the authority is supplied by the user, so that force-renew and force-replace are ignored"
            }
            Self::CertificateRestored => {
                "the certificate of the authority could not be read and was made again for its key"
            }
        })
    }
}
