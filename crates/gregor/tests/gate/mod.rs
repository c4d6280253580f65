//! A TCP proxy on a loopback address of its own, whose connections can be cut and restored.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

type Target = Box<dyn Fn() -> Option<SocketAddr> + Send>;

#[derive(Default)]
struct State {
    is_cut: bool,
    is_dropped: bool,
    target: Option<Target>,
    streams: Vec<TcpStream>,
}

/// The proxy. It stops when it is dropped.
pub(crate) struct Gate {
    address: IpAddr,
    state: Arc<Mutex<State>>,
}

impl Gate {
    /// Listens on this port of a loopback address on which nothing else does.
    pub(crate) fn open(port: u16) -> Self {
        let addresses = (1..=254).map(|last| Ipv4Addr::new(127, 99, 0, last));
        let listener = addresses
            .filter_map(|address| TcpListener::bind((address, port)).ok())
            .next()
            .expect("a free loopback address");
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().ip();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &shared));
        Self { address, state }
    }

    /// The address on which it listens.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Connects to what `target` returns; nothing for as long as that is unknown.
    pub(crate) fn leads_to(&self, target: impl Fn() -> Option<SocketAddr> + Send + 'static) {
        self.state.lock().unwrap().target = Some(Box::new(target));
    }

    /// Closes all connections, and every later one at once.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections through again.
    pub(crate) fn restore(&self) {
        self.state.lock().unwrap().is_cut = false;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.cut();
        self.state.lock().unwrap().is_dropped = true;
    }
}

fn accept(listener: &TcpListener, state: &Mutex<State>) {
    while !state.lock().unwrap().is_dropped {
        match listener.accept() {
            Ok((client, _)) => {
                let mut state = state.lock().unwrap();
                // Dropping the stream closes the connection.
                if !state.is_cut {
                    let _ = connect(client, &mut state);
                }
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn connect(client: TcpStream, state: &mut State) -> io::Result<()> {
    let target = state.target.as_ref().and_then(|target| target());
    let target = target.ok_or(io::ErrorKind::NotConnected)?;
    let server = TcpStream::connect_timeout(&target, Duration::from_secs(1))?;
    client.set_nonblocking(false)?;
    copy(client.try_clone()?, server.try_clone()?);
    copy(server.try_clone()?, client.try_clone()?);
    state.streams.extend([client, server]);
    Ok(())
}

/// Copies one direction until an end closes, and then closes the other one too.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
