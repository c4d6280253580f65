//! Exit codes of `gregor node`. Other codes are those of Kafka's JVM: 1 if it failed to start, 3 if it ran
//! out of memory, 128 plus the signal number if it was killed.

/// Stopped on request.
pub const STOPPED: u8 = 0;
/// The node program failed: an address is in use, or Java or Kafka is not installed.
pub const FAILED: u8 = 1;
/// The disks belong to another node or cannot be read: needs a person.
pub const DISKS: u8 = 65;
pub const STORAGE_TOOL: u8 = 70;
/// An empty disk must not be formatted until the operator knows more: start the node again later.
pub const WAIT: u8 = control::quorum::format::WAIT_EXIT_CODE;
/// The configuration directory is incomplete or invalid, or the Node lacks a label that it refers to.
pub const CONFIG: u8 = 78;

/// The exit codes, for `--help`.
pub const HELP: &str = "\
Exit codes:
  0   stopped on request
  1   the node program failed: an address is in use, or Java or Kafka is not installed
  2   invalid command line
  65  the disks belong to another cluster or node, or cannot be read
  70  Kafka's storage tool failed
  75  an empty disk must not be formatted yet, the operator has to confirm first: start again later
  78  the configuration directory is incomplete or invalid; with --describe-machine, the Node
      lacks a label
  other codes are those of Kafka's JVM; 128 plus the signal number if it was killed";
