//! Deliveries over TLS: to a receiver whose certificate is trusted, and to no other.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use stormlog_export::{Address, Delivery, Policy};

use crate::receiver::{Request, read, respond};

const URL: &str = "STORMLOG_TEST_URL";
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends one alert. [`sent_to`] runs this test in a process of its own, whose environment names the
/// trusted certificates.
#[test]
fn sender() {
    let Ok(url) = std::env::var(URL) else {
        return;
    };
    let policy = Policy {
        attempts: 2,
        first_wait: Duration::from_millis(10),
        ..Policy::ALERTS
    };
    let address = Address::parse(&url).unwrap();
    let delivery = Delivery::start(address, "application/json", Vec::new(), policy).unwrap();
    delivery.offer(b"{\"finding\": 1}".to_vec());
    println!("\n@{:?}", delivery.finish(PATIENCE));
}

/// Runs the sender and returns what it reports about its delivery.
fn sent_to(url: &str, trusted: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["https::sender", "--exact", "--nocapture"])
        .env(URL, url)
        .env("SSL_CERT_FILE", trusted)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8_lossy(&all).into_owned();
    assert!(!all.contains("SECRET"), "{all}");
    let report = all.lines().find_map(|line| line.strip_prefix('@'));
    report.unwrap_or_else(|| panic!("{all}")).to_owned()
}

/// Makes certificates with `openssl`.
struct Certificates(tempfile::TempDir);

impl Certificates {
    /// `None` where `openssl` is not installed.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let version = Command::new("openssl").arg("version").output();
        version.is_ok().then_some(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &[&str]) {
        let done = Command::new("openssl")
            .args(arguments)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{arguments:?}: {error}");
    }

    /// Creates an authority, as `NAME.pem` and `NAME.key`.
    fn authority(&self, name: &str) {
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        let subject = format!("/CN={name}");
        let kind = ["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"];
        let curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"];
        let names = ["-subj", &subject, "-out", &certificate, "-keyout", &key];
        self.openssl(&[&kind[..], &curve, &names].concat());
    }

    /// Creates the certificate of a host, signed by an authority.
    fn host(&self, name: &str, authority: &str, alternative: &str) {
        let [request, key, certificate, extensions] =
            ["csr", "key", "pem", "ext"].map(|ending| format!("{name}.{ending}"));
        let (issuer, issuer_key) = (format!("{authority}.pem"), format!("{authority}.key"));
        let kind = [
            "req", "-new", "-newkey", "ec", "-nodes", "-subj", "/CN=host",
        ];
        let curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"];
        let files = ["-out", &request, "-keyout", &key];
        self.openssl(&[&kind[..], &curve, &files].concat());
        let text = format!("subjectAltName={alternative}\n");
        std::fs::write(self.path(&extensions), text).unwrap();
        let sign = ["x509", "-req", "-days", "2", "-CAcreateserial"];
        let by = ["-CA", &issuer, "-CAkey", &issuer_key];
        let files = ["-in", &request, "-out", &certificate];
        let more = ["-extfile", &extensions];
        self.openssl(&[&sign[..], &by, &files, &more].concat());
    }

    /// Starts a receiver with the certificate of a host. Returns its address, and the requests that
    /// reach it.
    fn receiver(&self, name: &str) -> (String, Channel<Request>) {
        let chain = CertificateDer::from_pem_file(self.path(&format!("{name}.pem"))).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/hook/SECRET", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(session, stream.unwrap());
                if let Some(request) = read(&mut stream) {
                    let _ = sender.send(request);
                    let _ = respond(&mut stream, "200 OK", "");
                }
                stream.conn.send_close_notify();
                let _ = stream.conn.complete_io(&mut stream.sock);
            }
        });
        (url, requests)
    }
}

#[test]
fn only_a_receiver_with_a_trusted_certificate_gets_alerts() {
    let Some(certificates) = Certificates::new() else {
        println!("skipped: openssl is not installed");
        return;
    };
    certificates.authority("ours");
    certificates.authority("other");
    certificates.host("good", "ours", "IP:127.0.0.1");
    certificates.host("elsewhere", "ours", "DNS:elsewhere.example");

    let (url, requests) = certificates.receiver("good");
    let trusted = certificates.path("ours.pem");
    let report = sent_to(&url, &trusted);
    assert!(report.contains("sent: 1, dropped: 0"), "{report}");
    let request = requests.recv_timeout(PATIENCE).unwrap();
    assert!(request.head.starts_with("POST /hook/SECRET "));
    assert_eq!(request.body, b"{\"finding\": 1}");

    // The first certificate is signed by an authority that is not trusted, the second is for another
    // host.
    let (misnamed, at_misnamed) = certificates.receiver("elsewhere");
    let foreign = certificates.path("other.pem");
    for (url, trusted) in [(&url, &foreign), (&misnamed, &trusted)] {
        let report = sent_to(url, trusted);
        assert!(report.contains("sent: 0, dropped: 1"), "{report}");
        assert!(report.contains("certificate"), "{report}");
    }
    assert!(requests.try_recv().is_err() && at_misnamed.try_recv().is_err());
}
