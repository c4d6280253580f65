//! Moving replicas on request and when nodes come and go.
