//! A byte stream to an endpoint.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::error::ConnectError;
use super::resolve::Resolve;
use super::tls::Tls;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects, trying the addresses of the host in turn.
pub(super) async fn connect(
    endpoint: &Endpoint,
    names: &dyn Resolve,
    tls: Option<&Tls>,
) -> Result<Box<dyn Stream>, ConnectError> {
    let tcp = connect_tcp(endpoint, names).await?;
    let Some(tls) = tls else { return Ok(Box::new(tcp)) };
    let name = tls.expected_name(&endpoint.host);
    let name = name.map_err(|error| ConnectError::TlsSetup(Box::new(error)))?;
    let connector = TlsConnector::from(tls.config());
    let stream = connector.connect(name, tcp).await.map_err(ConnectError::Tls)?;
    Ok(Box::new(stream))
}

async fn connect_tcp(endpoint: &Endpoint, names: &dyn Resolve) -> Result<TcpStream, ConnectError> {
    let addresses = names.resolve(&endpoint.host, endpoint.port).await;
    let mut failure = ConnectError::NoAddress;
    for address in addresses.map_err(ConnectError::Resolve)? {
        match TcpStream::connect(address).await {
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
