//! HTTP probes. Certificates are not verified, as in the kubelet.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Limit of the response.
const ANSWER_BYTES_MAX: usize = 10 * 1024;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Get {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Get {
    /// The URL, for messages.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}{}", self.host, self.port, self.path)
    }

    fn request(&self) -> String {
        let given = |name: &str| self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let defaults = [
            ("Host", format!("{}:{}", self.host, self.port)),
            ("User-Agent", "kube-probe/1.33".to_owned()),
            ("Accept", "*/*".to_owned()),
            ("Connection", "close".to_owned()),
        ];
        let defaults = defaults.into_iter().filter(|(name, _)| !given(name));
        let defaults = defaults.map(|(name, value)| (name.to_owned(), value));
        let headers = defaults.chain(self.headers.iter().cloned());
        let headers: String = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let slash = if self.path.starts_with('/') { "" } else { "/" };
        format!("GET {slash}{} HTTP/1.1\r\n{headers}\r\n", self.path)
    }

    /// Sends the request; the error says why the response counts as a failure.
    pub(crate) async fn ask(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("Get \"{}\": {error}", self.url());
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(failed)?;
        let answer = if self.tls {
            let name = ServerName::try_from(self.host.clone())
                .map_err(|_| format!("Get \"{}\": not a host name", self.url()))?;
            let connector = tokio_rustls::TlsConnector::from(Arc::new(trusting()?));
            let stream = connector.connect(name, stream).await.map_err(failed)?;
            exchange(stream, &self.request()).await.map_err(failed)?
        } else {
            exchange(stream, &self.request()).await.map_err(failed)?
        };
        verdict(&answer).map_err(|problem| format!("Get \"{}\": {problem}", self.url()))?
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    request: &str,
) -> std::io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while answer.len() < ANSWER_BYTES_MAX && !has_status_line(&answer) {
        match stream.read(&mut buffer).await? {
            0 => break,
            length => answer.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(answer)
}

fn has_status_line(answer: &[u8]) -> bool {
    answer.contains(&b'\n')
}

/// Evaluates a response; the outer error means that it is not HTTP.
fn verdict(answer: &[u8]) -> Result<Result<(), String>, String> {
    let text = String::from_utf8_lossy(answer);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    let http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let code: u16 = words
        .next()
        .filter(|_| http)
        .and_then(|word| word.parse().ok())
        .ok_or("malformed HTTP response")?;
    let good = (200..400).contains(&code);
    Ok(if good { Ok(()) } else { Err(format!("HTTP probe failed with statuscode: {code}")) })
}

fn trusting() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let anyone = Arc::new(Anyone(provider));
    Ok(config.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth())
}

/// Accepts any certificate: a probe checks whether a program responds, not its identity.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_from_200_to_399_are_good() {
        let failed = |code| Ok(Err(format!("HTTP probe failed with statuscode: {code}")));
        let malformed = || Err("malformed HTTP response".to_owned());
        #[rustfmt::skip]
        let table = [
            ("HTTP/1.1 200 OK\r\n", Ok(Ok(()))), ("HTTP/1.0 302 Found\r\n", Ok(Ok(()))), ("HTTP/1.1 204\r\n", Ok(Ok(()))),
            ("HTTP/1.1 404 Not Found\r\n", failed(404)), ("HTTP/1.1 503\r\n", failed(503)),
            ("", malformed()), ("SSH-2.0 200\r\n", malformed()), ("HTTP/1.1 abc\r\n", malformed()),
        ];
        for (answer, expected) in table {
            assert_eq!(verdict(answer.as_bytes()), expected, "{answer}");
        }
    }

    #[test]
    fn headers_that_are_given_replace_the_usual_ones() {
        let get = Get {
            tls: false,
            host: "127.0.0.1".into(),
            port: 80,
            path: "x".into(),
            headers: vec![("host".into(), "example.org".into())],
        };
        let request = get.request();
        assert!(request.starts_with("GET /x HTTP/1.1\r\n"), "{request}");
        assert!(
            request.contains("host: example.org\r\n") && !request.contains("Host:"),
            "{request}"
        );
        assert!(request.ends_with("\r\n\r\n"));
    }

    /// A server with an untrusted certificate.
    async fn tls_server(answer: &'static str) -> u16 {
        let made = rcgen::generate_simple_self_signed(vec!["nobody.example".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        port
    }

    #[tokio::test]
    async fn a_certificate_is_not_asked_who_it_is() {
        let get = |port| Get {
            tls: true,
            host: "127.0.0.1".into(),
            port,
            path: "/".into(),
            headers: Vec::new(),
        };
        let good = tls_server("HTTP/1.1 200 OK\r\n\r\n").await;
        assert_eq!(get(good).ask().await, Ok(()));
        let bad = tls_server("HTTP/1.1 500 No\r\n\r\n").await;
        let problem = get(bad).ask().await.unwrap_err();
        assert_eq!(problem, "HTTP probe failed with statuscode: 500");
    }
}
