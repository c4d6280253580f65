//! One module per command.

mod agent;
mod balance;
mod cluster;
mod crds;
mod down;
mod fetch;
mod fleet;
mod hosts;
mod install;
mod kafka;
mod kubeconfig;
mod kubelet;
mod node;
mod operator;
mod reach;
mod shim;
mod state;
mod topic;
mod up;
mod user;

use clap::Subcommand;

/// What `gregor` can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a Kubernetes on this machine, without containers, and look after it
    #[command(after_help = up::EXAMPLES)]
    Up(up::Up),
    /// End what `gregor up` has started, in order
    Down(down::Down),
    /// Print the path of the kubeconfig of what `gregor up` has started
    Kubeconfig(kubeconfig::Kubeconfig),
    /// Get the programs that Gregor runs (Apache Kafka, Kubernetes), into the cache
    Fetch(fetch::Fetch),
    /// Look at a Kafka cluster and change what can be changed by hand
    Kafka(Box<kafka::Kafka>),
    /// What an edit of a Kafka cluster would do, before it is applied
    #[command(after_help = cluster::PLAN_HELP)]
    Plan(Box<cluster::Plan>),
    /// How a Kafka cluster is: its nodes, its quorum, what is being done
    #[command(after_help = cluster::STATUS_EXAMPLES)]
    Status(Box<cluster::Status>),
    /// What a Kafka cluster waits for, and by which rule
    #[command(after_help = cluster::WHY_EXAMPLES)]
    Why(Box<cluster::Why>),
    /// Restart nodes of a Kafka cluster, one after another, when it is safe
    #[command(after_help = cluster::ROLL_EXAMPLES)]
    Roll(Box<cluster::Roll>),
    /// Manage topics of a Kafka cluster as resources
    Topic(Box<topic::Topic>),
    /// Those who may log in to a Kafka cluster: make them, list them, take them away
    User(Box<user::User>),
    /// Be the first process of a Kafka node: format its disks, run Kafka, tell how it is
    #[command(after_long_help = ::node::exit::HELP)]
    Node(Box<node::Node>),
    /// Plan where the replicas of a cluster should be, with few bytes moved
    #[command(after_help = balance::HELP)]
    Balance(Box<balance::Balance>),
    /// Print the definitions of the custom resources
    #[command(after_help = crds::EXAMPLES)]
    Crds(crds::Crds),
    /// Print everything that has to be in a Kubernetes cluster for the operator to work there
    #[command(after_help = install::EXAMPLES)]
    Install(install::Install),
    /// Look after the Kafka clusters of a Kubernetes cluster
    #[command(after_help = operator::HELP)]
    Operator(Box<operator::Operator>),
    /// Run a node: pods as processes of this machine, for any Kubernetes control plane
    #[command(after_help = kubelet::EXAMPLES)]
    Kubelet(Box<kubelet::Kubelet>),
    /// Run a fleet of data planes that grow and shrink with demand
    Fleet(fleet::Fleet),
    /// Be the agent of a data plane: make the Kafkas that the fleet manager asks for, tell what is left
    #[command(after_help = agent::EXAMPLES)]
    Agent(agent::Command),
    /// The parent of a container; started by `gregor kubelet`
    #[command(hide = true)]
    Shim(shim::Shim),
}

impl Command {
    /// Runs the command to its end.
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
            Command::Roll(roll) => roll.run(),
            Command::Topic(topic) => topic.run(),
            Command::User(user) => user.run(),
            Command::Node(node) => node.run(),
            Command::Balance(balance) => balance.run(),
            Command::Crds(crds) => crds.run(),
            Command::Install(install) => install.run(),
            Command::Operator(operator) => operator.run(),
            Command::Kubelet(kubelet) => kubelet.run(),
            Command::Fleet(fleet) => fleet.run(),
            Command::Agent(agent) => agent.run(),
            Command::Shim(shim) => shim.run(),
        }
    }
}
