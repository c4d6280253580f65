//! When certificate authorities and certificates are made, renewed and replaced.
