//! Certificate authorities and the certificates that they sign: keys, PEM texts and what is in them.
