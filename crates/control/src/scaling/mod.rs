//! Adding and removing nodes without losing what they hold.
