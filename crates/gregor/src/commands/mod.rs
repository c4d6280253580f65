//! One module per command.

mod agent;
mod backup;
mod balance;
mod cluster;
mod crds;
mod down;
mod dynamic;
mod fetch;
mod fleet;
mod hosts;
mod install;
mod installed;
mod kafka;
mod kubeconfig;
mod kubelet;
mod node;
mod operator;
mod reach;
mod shim;
mod state;
mod topic;
mod uninstall;
mod up;
mod user;
mod version;

use clap::Subcommand;

/// Commands of `gregor`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a Kubernetes on this machine, without containers
    #[command(after_help = up::EXAMPLES)]
    Up(up::Up),
    /// Stop the local environment started by `gregor up`
    Down(down::Down),
    /// Print the kubeconfig path of the local environment started by `gregor up`
    Kubeconfig(kubeconfig::Kubeconfig),
    /// Download Apache Kafka or build Kubernetes into the local cache
    Fetch(fetch::Fetch),
    /// Inspect and administer a Kafka cluster through the Kafka protocol
    Kafka(Box<kafka::Kafka>),
    /// Show what an edit of a Kafka cluster would do, without applying it
    #[command(after_help = cluster::PLAN_HELP)]
    Plan(Box<cluster::Plan>),
    /// Show the status of a Kafka cluster: nodes, quorum, operations in progress
    #[command(after_help = cluster::STATUS_EXAMPLES)]
    Status(Box<cluster::Status>),
    /// Explain what a Kafka cluster is waiting for and which rule blocks it
    #[command(after_help = cluster::WHY_EXAMPLES)]
    Why(Box<cluster::Why>),
    /// Show Kafka clusters in the browser: nodes, quorum, rolls and what they are waiting for, live
    #[command(after_help = cluster::CONSOLE_EXAMPLES)]
    Console(Box<cluster::Console>),
    /// Restart nodes of a Kafka cluster safely, keeping the quorum and min-ISR
    #[command(after_help = cluster::ROLL_EXAMPLES)]
    Roll(Box<cluster::Roll>),
    /// Collect everything about a Kafka cluster for a bug report, without secrets
    #[command(after_help = cluster::REPORT_HELP)]
    Report(Box<cluster::Report>),
    /// Write an encrypted backup of everything of a Kafka cluster but its data
    #[command(after_help = backup::BACKUP_HELP)]
    Backup(Box<backup::Backup>),
    /// Restore a Kafka cluster from a backup
    #[command(after_help = backup::RESTORE_HELP)]
    Restore(Box<backup::Restore>),
    /// Manage topics of a Kafka cluster as resources
    Topic(Box<topic::Topic>),
    /// Manage users of a Kafka cluster
    User(Box<user::User>),
    /// Run a Kafka node: format storage, supervise the JVM, serve health checks
    #[command(after_long_help = ::node::exit::HELP)]
    Node(Box<node::Node>),
    /// Optimize the replica placement of a Kafka cluster
    #[command(after_help = balance::HELP)]
    Balance(Box<balance::Balance>),
    /// Print the CustomResourceDefinitions
    #[command(after_help = crds::EXAMPLES)]
    Crds(crds::Crds),
    /// Print the manifests of the operator
    #[command(after_help = install::EXAMPLES)]
    Install(install::Install),
    /// Remove the operator and its finalizers, and list what stays
    #[command(after_help = uninstall::HELP)]
    Uninstall(uninstall::Uninstall),
    /// Show the versions of the client, of operators and of records
    #[command(after_help = version::HELP)]
    Version(version::Version),
    /// Run the operator
    #[command(after_help = operator::HELP)]
    Operator(Box<operator::Operator>),
    /// Run a Kubernetes node whose pods are processes of this machine
    #[command(after_help = kubelet::EXAMPLES)]
    Kubelet(Box<kubelet::Kubelet>),
    /// Run, simulate or demonstrate a fleet of data planes
    Fleet(fleet::Fleet),
    /// Run the agent of the fleet manager on a data plane
    #[command(after_help = agent::EXAMPLES)]
    Agent(agent::Command),
    /// Run a container; started by `gregor kubelet`
    #[command(hide = true)]
    Shim(shim::Shim),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Up(up) => up.run(),
            Command::Down(down) => down.run(),
            Command::Kubeconfig(kubeconfig) => kubeconfig.run(),
            Command::Fetch(fetch) => fetch.run(),
            Command::Kafka(kafka) => kafka.run(),
            Command::Plan(plan) => plan.run(),
            Command::Status(status) => status.run(),
            Command::Why(why) => why.run(),
            Command::Console(console) => console.run(),
            Command::Roll(roll) => roll.run(),
            Command::Report(report) => report.run(),
            Command::Backup(backup) => backup.run(),
            Command::Restore(restore) => restore.run(),
            Command::Topic(topic) => topic.run(),
            Command::User(user) => user.run(),
            Command::Node(node) => node.run(),
            Command::Balance(balance) => balance.run(),
            Command::Crds(crds) => crds.run(),
            Command::Install(install) => install.run(),
            Command::Uninstall(uninstall) => uninstall.run(),
            Command::Version(version) => version.run(),
            Command::Operator(operator) => operator.run(),
            Command::Kubelet(kubelet) => kubelet.run(),
            Command::Fleet(fleet) => fleet.run(),
            Command::Agent(agent) => agent.run(),
            Command::Shim(shim) => shim.run(),
        }
    }
}
