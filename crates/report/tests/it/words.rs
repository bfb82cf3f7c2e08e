//! The texts of drawings, and texts of artifacts that must not change them.

use stormlog_analysis::LoadedSession;
use stormlog_analysis::detect::Severity;
use stormlog_format::Counters;
use stormlog_report::{
    Canvas, DrawError, Mark, MarkKind, PictureKind, Story, draw, to_png, to_svg,
};

use crate::sessions::{GIB, SECOND, START, host_of, rank};

fn svg_of(story: &Story, kind: PictureKind) -> String {
    to_svg(&draw(story, kind, Canvas::default()).unwrap())
}

/// The texts of a drawing, in order.
fn texts(svg: &str) -> String {
    let mut lines = Vec::new();
    for part in svg.split("<text ").skip(1) {
        let (_, rest) = part.split_once('>').unwrap();
        lines.push(rest.split("</text>").next().unwrap());
    }
    lines.join("\n")
}

fn oom_session() -> LoadedSession {
    let mut samples = rank(0);
    for place in 0..60 {
        let allocated = GIB + place * GIB;
        samples = samples.sample(
            place * SECOND / 10,
            allocated,
            allocated + GIB,
            allocated + 2 * GIB,
        );
    }
    samples = samples.event(
        2 * SECOND,
        "warning",
        Some("High fragmentation: 41.2%"),
        Counters::default(),
    );
    samples = samples.event(
        3 * SECOND,
        "warning",
        Some("High fragmentation: 47.0%"),
        Counters::default(),
    );
    samples
        .event(
            59 * SECOND / 10,
            "error",
            Some("CUDA out of memory"),
            Counters::default(),
        )
        .metadata("oom_reason", "torch")
        .session()
}

#[test]
fn a_timeline_reads_like_this() {
    let session = oom_session();
    let story = Story::of_sessions(&[&session]);
    insta::assert_snapshot!(texts(&svg_of(&story, PictureKind::Timeline)));
}

#[test]
fn a_dashboard_reads_like_this() {
    let session = oom_session();
    let mut story = Story::of_sessions(&[&session]);
    story.add_marks([Mark {
        time_ns: START + SECOND,
        end_ns: Some(START + 4 * SECOND),
        rank: Some(0),
        severity: Severity::Critical,
        label: "leak, 10 GiB/s".into(),
        detail: Some("allocated memory grows by 10 GiB/s and does not come back".into()),
        kind: MarkKind::Finding,
        on_host: false,
    }]);
    insta::assert_snapshot!(texts(&svg_of(&story, PictureKind::Dashboard)));
}

#[test]
fn hostile_strings_stay_text() {
    let hostile = "</text></svg><script>alert(1)</script>&amp;\u{1b}[2J\u{0}\u{202e}\u{ffff}\"'";
    let session = rank(0)
        .steady(20, GIB, 2 * GIB, 3 * GIB)
        .event(SECOND, "error", Some(hostile), Counters::default())
        .session();
    let mut story = Story::of_sessions(&[&session]);
    story.title = Some(hostile.to_owned());
    for kind in PictureKind::ALL {
        let scene = draw(&story, kind, Canvas::default()).unwrap();
        let svg = to_svg(&scene);
        assert!(!svg.contains("<script"), "{kind:?}");
        assert!(!svg.chars().any(|c| c.is_control() && c != '\n'));
        // The rasterizer reads it, so it is well-formed.
        to_png(&scene, 1.0).unwrap();
    }
}

#[test]
fn four_thousand_ranks_make_a_drawing_of_reasonable_size() {
    let sessions: Vec<LoadedSession> = (0..4096)
        .map(|place| {
            rank(place)
                .steady(4, GIB, 2 * GIB, (3 + place % 3) * GIB)
                .session()
        })
        .collect();
    let sessions: Vec<&LoadedSession> = sessions.iter().collect();
    let story = Story::of_sessions(&sessions);
    for kind in [PictureKind::Ranks, PictureKind::Heatmap, PictureKind::Gap] {
        let svg = svg_of(&story, kind);
        assert!(svg.len() < 1_500_000, "{kind:?}: {}", svg.len());
    }
    let ranks = svg_of(&story, PictureKind::Ranks);
    assert!(texts(&ranks).contains("median of 4,096 ranks"));
}

#[test]
fn the_clock_correction_is_said() {
    let sessions = [
        rank(0).steady(20, GIB, GIB, GIB).session(),
        rank(1)
            .clock_ahead_by(90 * SECOND)
            .steady(20, GIB, GIB, GIB)
            .session(),
    ];
    let sessions: Vec<&LoadedSession> = sessions.iter().collect();
    let svg = svg_of(&Story::of_sessions(&sessions), PictureKind::Ranks);
    let note = "clocks of the ranks corrected by up to 1 min 30 s";
    assert!(texts(&svg).contains(note));
}

#[test]
fn a_part_of_the_time_can_be_drawn() {
    let session = rank(0).steady(100, GIB, 2 * GIB, 3 * GIB).session();
    let mut story = Story::of_sessions(&[&session]);
    story
        .between(Some(START + 2 * SECOND), Some(START + 3 * SECOND))
        .unwrap();
    assert!(texts(&svg_of(&story, PictureKind::Timeline)).contains("1.0 s"));
    let error = story.between(Some(START + 60 * SECOND), None).unwrap_err();
    assert!(matches!(error, DrawError::NothingInSpan { .. }));
}

#[test]
fn nothing_to_draw_is_an_error() {
    let error = draw(&Story::default(), PictureKind::Timeline, Canvas::default()).unwrap_err();
    assert_eq!(error.to_string(), "no samples to draw");
}

#[test]
fn times_and_values_at_the_ends_of_their_range_are_drawn() {
    let mut samples = rank(0);
    for (place, value) in [0, i64::MAX, 5, i64::MAX - 1].into_iter().enumerate() {
        let at = i64::try_from(place).unwrap() * SECOND;
        samples = samples.sample(at, value, 0, value / 2);
    }
    let session = samples.session();
    let story = Story::of_sessions(&[&session]);
    for kind in PictureKind::ALL {
        to_png(&draw(&story, kind, Canvas::default()).unwrap(), 1.0).unwrap();
    }
}

#[test]
fn memory_of_other_processes_is_not_hidden_memory() {
    let mut samples = rank(0);
    for place in 0..60 {
        samples = samples
            .sample(place * SECOND / 10, GIB, 2 * GIB, 40 * GIB)
            .metadata("process_device_used_bytes", 5 * GIB);
    }
    let session = samples.session();
    let svg = svg_of(&Story::of_sessions(&[&session]), PictureKind::Timeline);
    let texts = texts(&svg);
    assert!(texts.contains("hidden: this process outside the allocator (peak 3.00 GiB)"));
    assert!(texts.contains("other processes and driver (peak 35.0 GiB, not drawn)"));
    assert!(texts.contains("cached (peak 1.00 GiB)"));
}

#[test]
fn host_memory_has_a_lane_below_the_device() {
    let device = rank(0).steady(60, GIB, 2 * GIB, 3 * GIB).session();
    let host = host_of(0).steady(70, 7 * GIB, 7 * GIB, 7 * GIB).session();
    let mut story = Story::of_sessions(&[&host, &device]);
    story.add_marks([Mark {
        time_ns: START + SECOND,
        end_ns: None,
        rank: Some(0),
        severity: Severity::Warning,
        label: "host memory leak".into(),
        detail: None,
        kind: MarkKind::Finding,
        on_host: true,
    }]);
    let svg = svg_of(&story, PictureKind::Timeline);
    let texts = texts(&svg);
    let lane = texts.find("\nhost memory\n").unwrap();
    assert!(texts.contains("peak 7.00 GiB"));
    // The mark belongs to the lane; the axis covers both recordings and is below both.
    assert!(texts.find("host memory leak").unwrap() > texts.find("capacity 80.0 GiB").unwrap());
    assert!(lane > texts.find("allocated (peak 1.00 GiB)").unwrap());
    assert_eq!(texts.matches("seconds since").count(), 1);
    assert!(texts.contains("6.9 s"));
}

#[test]
fn a_run_without_a_device_has_no_hidden_memory() {
    let session = host_of(0).steady(60, GIB, 2 * GIB, 3 * GIB).session();
    let svg = svg_of(&Story::of_sessions(&[&session]), PictureKind::Timeline);
    let texts = texts(&svg);
    assert!(
        !texts.contains("hidden") && !texts.contains("cached"),
        "{texts}"
    );
}

#[test]
fn the_verdict_is_on_the_picture() {
    let session = rank(0).steady(60, GIB, 2 * GIB, 3 * GIB).session();
    let mut story = Story::of_sessions(&[&session]);
    let sentence = "GPU 0 leaks 775 MiB/s since 11.0 s";
    story.verdict = Some((
        Severity::Warning,
        format!("{sentence}. {sentence}. {sentence}. {sentence}"),
    ));
    let svg = svg_of(&story, PictureKind::Timeline);
    assert!(texts(&svg).replace('\n', " ").matches(sentence).count() == 4);
}

#[test]
fn a_failed_request_is_drawn_with_its_size() {
    let mut request = stormlog_format::Map::new();
    request.insert("requested_bytes", 9 * GIB);
    let counters = Counters {
        allocator_allocated_bytes: Some(60 * GIB),
        ..Counters::default()
    };
    let session = rank(0)
        .steady(60, 60 * GIB, 62 * GIB, 64 * GIB)
        .event(6 * SECOND, "error", Some("CUDA out of memory"), counters)
        .metadata("oom_reason", "torch")
        .metadata("oom", stormlog_format::Value::Map(request))
        .session();
    let svg = svg_of(&Story::of_sessions(&[&session]), PictureKind::Timeline);
    assert!(texts(&svg).contains("tried to allocate 9.00 GiB"));
}

#[test]
fn steps_are_drawn_by_their_numbers() {
    let recordings =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    let path = recordings.join("losses_to_oom");
    let loaded = stormlog_analysis::gather(&[path], &stormlog_analysis::LoadOptions::default());
    let sessions: Vec<LoadedSession> = loaded.expect("it loads").loaded.remove(0).sessions;
    let story = Story::of_sessions(&sessions.iter().collect::<Vec<_>>());
    let svg = texts(&svg_of(&story, PictureKind::Steps));
    assert!(
        svg.contains("in use at the end of a step (highest "),
        "{svg}"
    );
    let page = stormlog_report::html_page(
        &story,
        PictureKind::Timeline,
        stormlog_report::Theme::System,
    );
    assert!(page.expect("a page").contains("<section id=\"steps\">"));
    let without = rank(0).steady(20, GIB, GIB, GIB).session();
    let svg = texts(&svg_of(
        &Story::of_sessions(&[&without]),
        PictureKind::Steps,
    ));
    assert!(svg.contains("no steps were recorded"), "{svg}");
}
