//! Settings: what is compared, what is hashed, what is changed how.
