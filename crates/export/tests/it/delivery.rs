//! Deliveries never block and count every body.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use stormlog_export::{Address, Delivered, Delivery, Policy, WhenFull};

use crate::receiver::{Receiver, respond};

const QUICK: Policy = Policy {
    first_wait: Duration::from_millis(10),
    ..Policy::ALERTS
};
const PATIENCE: Duration = Duration::from_secs(30);

fn delivery(url: &str, policy: Policy) -> Delivery {
    let address = Address::parse(url).unwrap();
    Delivery::start(address, "application/json", Vec::new(), policy).unwrap()
}

fn counts(delivered: &Delivered) -> (u64, u64) {
    (delivered.sent, delivered.dropped)
}

#[test]
fn bodies_arrive_in_their_order() {
    let receiver = Receiver::answering("204 No Content");
    let delivery = delivery(&format!("{}/hook?key=1", receiver.url), QUICK);
    delivery.offer(b"one".to_vec());
    delivery.offer(b"two".to_vec());
    let first = receiver.next();
    assert!(
        first.head.starts_with("POST /hook?key=1 HTTP/1.1\r\n"),
        "{}",
        first.head
    );
    assert!(first.head.contains("content-type: application/json\r\n"));
    assert_eq!(
        (first.body, receiver.next().body),
        (b"one".to_vec(), b"two".to_vec())
    );
    let delivered = delivery.finish(PATIENCE);
    assert_eq!((counts(&delivered), delivered.problem), ((2, 0), None));
}

#[test]
fn what_fails_is_tried_again_and_what_is_refused_is_not() {
    let receiver = Receiver::start(|number, stream| match number {
        0 => Ok(()), // closed without an answer
        1 => respond(stream, "503 Busy", "retry-after: 0\r\n"),
        2 => respond(stream, "429 Slow down", ""),
        3 => respond(stream, "200 OK", ""),
        _ => respond(stream, "404 Not Found", ""),
    });
    let delivery = delivery(&receiver.url, QUICK);
    delivery.offer(b"one".to_vec());
    delivery.offer(b"two".to_vec());
    let bodies: Vec<Vec<u8>> = (0..5).map(|_| receiver.next().body).collect();
    assert_eq!(bodies.concat(), b"oneoneoneonetwo");
    let delivered = delivery.finish(PATIENCE);
    assert_eq!(counts(&delivered), (1, 1));
    assert_eq!(delivered.problem.unwrap(), "the receiver answered 404");
    assert!(receiver.is_quiet());
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::answering("200 OK");
    let location = format!("location: {}/secret\r\n", elsewhere.url);
    let receiver = Receiver::start(move |_, stream| respond(stream, "307 Go", &location));
    let delivery = delivery(&receiver.url, QUICK);
    delivery.offer(b"one".to_vec());
    let delivered = delivery.finish(PATIENCE);
    assert_eq!(counts(&delivered), (0, 1));
    assert!(elsewhere.is_quiet());
}

#[test]
fn offering_never_waits_and_a_dead_receiver_is_counted() {
    // The port was free a moment ago and nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/SECRET", port.local_addr().unwrap());
    drop(port);
    let delivery = delivery(&url, Policy::ALERTS);
    let start = Instant::now();
    for _ in 0..1000 {
        delivery.offer(vec![0; 1024]);
    }
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    let delivered = delivery.finish(PATIENCE);
    assert_eq!(counts(&delivered), (0, 1000));
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    let problem = delivered.problem.unwrap();
    assert_eq!(problem, "connection refused");
}

#[test]
fn a_slow_receiver_is_left_after_the_given_time() {
    let receiver = Receiver::start(|_, stream| {
        // The response comes one byte at a time and never ends.
        loop {
            stream.write_all(b"H")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let delivery = delivery(&receiver.url, QUICK);
    delivery.offer(b"one".to_vec());
    delivery.offer(b"two".to_vec());
    receiver.next();
    let start = Instant::now();
    let delivered = delivery.finish(Duration::from_millis(300));
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(counts(&delivered), (0, 2));
    assert!(delivered.problem.is_some());
}

#[test]
fn a_hostile_answer_is_no_more_than_a_failure() {
    let receiver = Receiver::start(|number, stream| match number {
        0 => stream.write_all(&[0xff; 4096]),
        1 => write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\nx"
        ),
        2 => {
            // The response consists of headers that never end.
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            for _ in 0..10_000 {
                stream.write_all(b"x-header: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")?;
            }
            Ok(())
        }
        _ => respond(stream, "200 OK", ""),
    });
    let delivery = delivery(&receiver.url, QUICK);
    for body in [b"a", b"b", b"c"] {
        delivery.offer(body.to_vec());
    }
    let delivered = delivery.finish(PATIENCE);
    assert_eq!(delivered.sent + delivered.dropped, 3);
    assert!(delivered.sent >= 1);
}

#[test]
fn of_metrics_the_latest_are_kept() {
    let receiver = Receiver::start(|number, stream| {
        if number == 0 {
            std::thread::sleep(Duration::from_millis(500));
        }
        respond(stream, "200 OK", "")
    });
    let policy = Policy {
        capacity: 2,
        when_full: WhenFull::DropOldest,
        ..QUICK
    };
    let delivery = delivery(&receiver.url, policy);
    delivery.offer(b"0".to_vec());
    let first = receiver.next().body;
    for number in 1..=5 {
        delivery.offer(number.to_string().into_bytes());
    }
    let delivered = delivery.finish(PATIENCE);
    assert_eq!(counts(&delivered), (3, 3));
    let last = [receiver.next().body, receiver.next().body];
    assert_eq!((first, last.concat()), (b"0".to_vec(), b"45".to_vec()));
}

#[test]
fn finishing_without_anything_left_takes_no_time() {
    let delivery = delivery("http://127.0.0.1:1/", Policy::ALERTS);
    let start = Instant::now();
    assert_eq!(delivery.finish(PATIENCE), Delivered::default());
    assert!(start.elapsed() < Duration::from_secs(1));
}
