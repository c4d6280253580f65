//! What is honoured of each field of Strimzi 1.2.0.
