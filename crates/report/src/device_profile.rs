//! Draws a device memory profile of JAX as a page: which functions hold the memory.

use askama::Template;
use stormlog_analysis::device_profile::{Allocation, by_function};

use crate::bytes::human;
use crate::error::{DrawError, rendered};
use crate::html::policy;

/// The largest number of functions listed on a page, starting with those that hold the most memory.
const MOST_FUNCTIONS: usize = 50;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;\
padding:0 1rem;color:#1c1e21;background:#fff}table{border-collapse:collapse;width:100%}\
th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #d8dade}\
th:first-child,td:first-child{text-align:left;font-family:ui-monospace,monospace;\
overflow-wrap:anywhere}@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#16181c}\
th,td{border-color:#363a40}}";

#[derive(Template)]
#[template(path = "device_profile.html")]
struct Page {
    title: &'static str,
    policy: String,
    style: &'static str,
    total: String,
    places: usize,
    rows: Vec<Row>,
    left_out: usize,
}

struct Row {
    name: String,
    own: String,
    total: String,
    share: String,
}

/// Renders a self-contained HTML page with a table of the functions whose allocations are still in
/// use, those with the most bytes first.
pub fn device_profile_page(allocations: &[Allocation]) -> Result<String, DrawError> {
    let total: i64 = allocations
        .iter()
        .map(Allocation::bytes)
        .fold(0, i64::saturating_add);
    let shares = by_function(allocations);
    let share = |part: i64| {
        let share = if total > 0 {
            part as f64 / total as f64
        } else {
            0.0
        };
        format!("{:.1} %", share * 100.0)
    };
    let rows = shares.iter().take(MOST_FUNCTIONS).map(|one| Row {
        name: crate::clean(&one.name),
        own: human(one.own_bytes),
        total: human(one.total_bytes),
        share: share(one.total_bytes),
    });
    rendered(&Page {
        title: "Device memory holders",
        policy: policy(None, STYLE),
        style: STYLE,
        total: human(total),
        places: allocations.len(),
        rows: rows.collect(),
        left_out: shares.len().saturating_sub(MOST_FUNCTIONS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_first_and_names_are_text() {
        let allocation = |names: &[&str], bytes| Allocation {
            stack: names.iter().map(|name| (*name).into()).collect(),
            values: vec![1, bytes],
        };
        let allocations = [
            allocation(&["main", "<script>alert(1)</script>"], 100),
            allocation(&["main", "load"], 3 << 20),
        ];
        let page = device_profile_page(&allocations).unwrap();
        assert!(!page.contains("<script>"));
        let offset = |text: &str| {
            page.find(text)
                .unwrap_or_else(|| panic!("{text} in {page}"))
        };
        assert!(offset("<td>main") < offset("<td>load"));
        assert!(offset("<td>load") < offset("script&#"));
        assert!(
            page.contains("100.0 %") && page.contains("3.00 MiB"),
            "{page}"
        );
    }
}
