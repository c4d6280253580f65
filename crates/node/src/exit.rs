//! The exit codes of a node. A code that is not listed is that of Kafka's JVM: 1 if it could not start,
//! 3 if it ran out of memory, 128 and the number of the signal that killed it.

/// It was asked to stop, and Kafka stopped.
pub const STOPPED: u8 = 0;
/// The program itself failed: an address is taken, Java or Kafka is not there.
pub const FAILED: u8 = 1;
/// The disks are not this node's, or cannot be read: a person has to look.
pub const DISKS: u8 = 65;
/// Kafka's storage tool failed.
pub const STORAGE_TOOL: u8 = 70;
/// An empty disk has to wait until the operator knows more: start the node again later.
pub const WAIT: u8 = control::quorum::format::WAIT_EXIT_CODE;
/// The configuration directory is incomplete or makes no sense, or the machine lacks what it refers to.
pub const CONFIG: u8 = 78;

/// The list for people.
pub const HELP: &str = "\
Exit codes:
  0   it was asked to stop, and Kafka stopped
  1   the node itself failed: an address is taken, Java or Kafka is not there
  2   the command line makes no sense
  65  the disks are another cluster's or node's, or cannot be read
  70  Kafka's storage tool failed
  75  an empty disk waits for what the operator does not know yet: start again later
  78  the configuration directory is incomplete or makes no sense; with --describe-machine, the
      machine has no such label
  other codes are those of Kafka; 128 and the number of the signal if it was killed";
