//! Pages as text; `python/tests/test_pages_in_browser.py` opens them in a browser.

use stormlog_analysis::LoadedSession;
use stormlog_format::Counters;
use stormlog_report::{PictureKind, Story, Theme, html_page};

use crate::sessions::{GIB, SECOND, rank};

fn page(kind: PictureKind, context: &str) -> String {
    let sessions: Vec<LoadedSession> = (0..2)
        .map(|place| {
            rank(place)
                .steady(50, GIB, 2 * GIB, 3 * GIB)
                .event(2 * SECOND, "error", Some(context), Counters::default())
                .session()
        })
        .collect();
    let sessions: Vec<&LoadedSession> = sessions.iter().collect();
    html_page(&Story::of_sessions(&sessions), kind, Theme::Light).unwrap()
}

#[test]
fn a_page_allows_nothing_from_outside() {
    for kind in PictureKind::ALL {
        let page = page(kind, "boom");
        let (_, policy) = page
            .split_once("Content-Security-Policy\" content=\"")
            .unwrap();
        assert!(policy.starts_with("default-src &#39;none&#39;; script-src &#39;sha256-"));
        assert!(!policy.split('"').next().unwrap().contains("unsafe"));
        for outside in [
            "src=",
            "href=",
            "@import",
            "url(",
            "fetch(",
            "XMLHttpRequest",
        ] {
            assert!(!page.contains(outside), "{kind:?} has {outside}");
        }
        let links = page.matches("http").count();
        // The policy's own name and the name space of SVG, nothing to go to.
        assert_eq!(
            links,
            1 + page.matches("http://www.w3.org/2000/svg").count()
        );
    }
}

#[test]
fn a_hostile_artifact_adds_no_markup() {
    let tags = |page: &str| page.matches('<').count();
    for kind in PictureKind::ALL {
        let plain = page(kind, "boom");
        let hostile = page(
            kind,
            "</script><script>document.title='owned'</script><img onerror=x>",
        );
        assert_eq!(tags(&plain), tags(&hostile), "{kind:?}");
    }
}

#[test]
fn a_small_story_makes_a_small_page() {
    assert!(page(PictureKind::Dashboard, "boom").len() < 300_000);
}
