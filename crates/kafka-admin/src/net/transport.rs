//! A byte stream to an endpoint.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::error::ConnectError;
use super::resolve::Resolve;
use super::tls::Tls;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects, trying the addresses of the host in turn until `deadline`.
pub(super) async fn connect(
    endpoint: &Endpoint,
    names: &dyn Resolve,
    tls: Option<&Tls>,
    deadline: Instant,
) -> Result<Box<dyn Stream>, ConnectError> {
    let tcp = connect_tcp(endpoint, names, deadline).await?;
    let Some(tls) = tls else { return Ok(Box::new(tcp)) };
    let name = tls.expected_name(&endpoint.host);
    let name = name.map_err(|error| ConnectError::TlsSetup(Box::new(error)))?;
    let connector = TlsConnector::from(tls.config());
    let stream = connector.connect(name, tcp).await.map_err(ConnectError::Tls)?;
    Ok(Box::new(stream))
}

async fn connect_tcp(
    endpoint: &Endpoint,
    names: &dyn Resolve,
    deadline: Instant,
) -> Result<TcpStream, ConnectError> {
    let addresses = names.resolve(&endpoint.host, endpoint.port).await;
    let addresses = addresses.map_err(ConnectError::Resolve)?;
    let mut failure = ConnectError::NoAddress;
    let mut untried = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        // A share of the time for each: an address that is no longer in use does not even refuse.
        let share = deadline.saturating_duration_since(Instant::now()) / untried;
        untried -= 1;
        let connected = timeout(share, TcpStream::connect(address)).await;
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(tcp) => {
                no_delay(&tcp).map_err(|source| ConnectError::Tcp { address, source })?;
                return Ok(tcp);
            }
            Err(source) => failure = ConnectError::Tcp { address, source },
        }
    }
    Err(failure)
}

/// Requests are small and awaited: they must not wait for a packet to fill.
fn no_delay(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)
}
