//! Wrong behaviour that is put into the operator's shell on purpose: a simulator that does not find it proves nothing.

/// What the shell does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// Nothing.
    #[default]
    None,
    /// It reports every replica as in sync.
    ReplicasInSync,
    /// It reports every voter as caught up.
    VotersCaughtUp,
    /// It reports brokers that leave as empty.
    NothingAssigned,
    /// It unregisters a broker that it was asked to restart.
    Unregisters,
    /// It does not see voters that are to leave.
    VotersReleased,
    /// It acts although its Lease has expired.
    NoFence,
    /// It writes objects and the record whatever their version is.
    NoVersions,
    /// It acts before it has saved the record.
    ActsFirst,
    /// It forgets which controllers were seen.
    ForgetsSeen,
    /// It begins anew if the record is lost.
    BeginsAnew,
    /// It creates both `KafkaRebalance` resources where it was asked for one.
    CreatesBoth,
    /// It reports acts as done that it does not send.
    SendsNothing,
    /// It deletes the claim of a node that it was asked to restart.
    DeletesClaims,
    /// It saves the record in every pass, whether it has changed or not.
    SavesAlways,
}
