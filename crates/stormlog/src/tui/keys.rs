//! Key bindings: one table that defines what each key does and that the help screen lists.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::Tab;

/// What the interface does when a key is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Help,
    NextTab,
    PreviousTab,
    GoTo(Tab),
    Open,
    Reload,
    Up,
    Down,
    PageUp,
    PageDown,
    Choose,
    Filter,
    Sort,
    NextRun,
    NextPane,
    RankUp,
    RankDown,
    Compare,
    ZoomIn,
    ZoomOut,
    ZoomReset,
    PanLeft,
    PanRight,
    CursorLeft,
    CursorRight,
    NextMark,
    NextRank,
    AllMemory,
    SavePng,
    SavePage,
    Resolve,
    Ignore,
    Reopen,
    WatchGpus,
    WatchHost,
    WatchProcess,
    WatchSink,
    StopWatching,
    Limits,
    ExportJson,
    ExportCsv,
}

/// A key of the interface, its action, and the text about it on the help screen.
pub(crate) struct Binding {
    /// The name of the key for people. If the name is a single character, this character is the
    /// key.
    pub(crate) label: &'static str,
    /// The keys with this action that `label` does not define: further keys if the label is a
    /// single character, all keys if the label is a name such as `Tab`.
    others: &'static [KeyCode],
    action: Action,
    pub(crate) help: &'static str,
}

const fn key(
    label: &'static str,
    others: &'static [KeyCode],
    action: Action,
    help: &'static str,
) -> Binding {
    Binding {
        label,
        others,
        action,
        help,
    }
}

impl Binding {
    fn codes(&self) -> impl Iterator<Item = KeyCode> {
        let mut characters = self.label.chars();
        let only = characters.next().filter(|_| characters.next().is_none());
        only.map(Char)
            .into_iter()
            .chain(self.others.iter().copied())
    }
}

use KeyCode::{
    BackTab, Char, Down, End, Enter, Home, Left, PageDown, PageUp, Right, Tab as TabKey, Up,
};

/// The keys that work on every tab.
pub(crate) const EVERYWHERE: &[Binding] = &[
    key("q", &[], Action::Quit, "quit (also Ctrl+C)"),
    key("?", &[], Action::Help, "this help"),
    key("Tab", &[TabKey], Action::NextTab, "next tab"),
    key("Shift+Tab", &[BackTab], Action::PreviousTab, "previous tab"),
    key("1", &[], Action::GoTo(Tab::Overview), "Overview"),
    key("2", &[], Action::GoTo(Tab::Monitoring), "Monitoring"),
    key(
        "3",
        &[],
        Action::GoTo(Tab::Visualizations),
        "Visualizations",
    ),
    key("4", &[], Action::GoTo(Tab::Diagnostics), "Diagnostics"),
    key("5", &[], Action::GoTo(Tab::Issues), "Issues"),
    key("6", &[], Action::GoTo(Tab::Sessions), "Sessions"),
    key("o", &[], Action::Open, "open artifacts"),
    key("F5", &[KeyCode::F(5)], Action::Reload, "reload"),
    key("↑ k", &[Up, Char('k')], Action::Up, "up"),
    key("↓ j", &[Down, Char('j')], Action::Down, "down"),
    key("PgUp", &[PageUp], Action::PageUp, "page up"),
    key("PgDn", &[PageDown], Action::PageDown, "page down"),
];

const OVERVIEW: &[Binding] = &[key(
    "Enter",
    &[Enter],
    Action::Choose,
    "open the selected run",
)];

const MONITORING: &[Binding] = &[
    key("g", &[], Action::WatchGpus, "watch the GPUs"),
    key("h", &[], Action::WatchHost, "watch this machine's memory"),
    key("p", &[], Action::WatchProcess, "watch a process"),
    key("s", &[], Action::WatchSink, "follow the opened recording"),
    key("x", &[], Action::StopWatching, "stop watching"),
    key("l", &[], Action::Limits, "alert thresholds"),
    key("e", &[], Action::ExportJson, "export as JSON to ./exports"),
    key("c", &[], Action::ExportCsv, "export as CSV to ./exports"),
];

const VISUALIZATIONS: &[Binding] = &[
    key("+", &[Char('=')], Action::ZoomIn, "zoom in"),
    key("-", &[], Action::ZoomOut, "zoom out"),
    key("0", &[Home], Action::ZoomReset, "everything"),
    key("←", &[Left], Action::CursorLeft, "cursor left"),
    key("→", &[Right], Action::CursorRight, "cursor right"),
    key("<", &[Char(',')], Action::PanLeft, "pan left"),
    key(">", &[Char('.')], Action::PanRight, "pan right"),
    key("n", &[], Action::NextMark, "next event"),
    key("r", &[], Action::NextRank, "next rank"),
    key("a", &[], Action::AllMemory, "the finding or all memory"),
    key("f", &[], Action::Filter, "select ranks"),
    key("p", &[], Action::SavePng, "PNG to ./visualizations"),
    key("w", &[], Action::SavePage, "HTML to ./visualizations"),
];

const DIAGNOSTICS: &[Binding] = &[
    key(
        "f",
        &[Char('/')],
        Action::Filter,
        "select ranks: all, 0,2,4-7",
    ),
    key("n", &[], Action::NextRun, "next run"),
    key("c", &[], Action::Compare, "compare with another artifact"),
    key("v", &[], Action::NextPane, "findings, phases, comparison"),
    key("[", &[], Action::RankUp, "rank above"),
    key("]", &[], Action::RankDown, "rank below"),
    key(
        "Enter",
        &[Enter],
        Action::Choose,
        "show selection on timeline",
    ),
];

const ISSUES: &[Binding] = &[
    key("r", &[], Action::Resolve, "resolve"),
    key("i", &[], Action::Ignore, "ignore"),
    key("e", &[], Action::Reopen, "reopen"),
];

const SESSIONS: &[Binding] = &[
    key("Enter", &[Enter], Action::Choose, "show this session's run"),
    key("/", &[Char('f')], Action::Filter, "filter by typing"),
    key("s", &[End], Action::Sort, "sort by the next column"),
];

/// The keys that work on one tab only.
pub(crate) fn keys_of(tab: Tab) -> &'static [Binding] {
    match tab {
        Tab::Overview => OVERVIEW,
        Tab::Monitoring => MONITORING,
        Tab::Visualizations => VISUALIZATIONS,
        Tab::Diagnostics => DIAGNOSTICS,
        Tab::Issues => ISSUES,
        Tab::Sessions => SESSIONS,
    }
}

/// The end of the footer: keys that are always shown because they work on every tab.
const LAST: &str = "? help  q quit";

/// The footer: the keys of a tab in one line. Keys that do not fit into the footer are listed only
/// on the help screen. The key that opens a line of a list is left out when the list is empty.
pub(crate) fn footer(tab: Tab, width: usize, has_lines: bool) -> String {
    let mut text = String::new();
    for binding in keys_of(tab).iter().chain(EVERYWHERE) {
        if binding.action == Action::Choose && !has_lines {
            continue;
        }
        let Some((label, name)) = binding.action.short() else {
            continue;
        };
        let name = match (tab, binding.action) {
            (Tab::Overview, Action::Choose) => "open run",
            _ => name,
        };
        let label = label.unwrap_or(binding.label);
        let key = format!("{label} {name}  ");
        let wanted = text.chars().count() + key.chars().count() + LAST.len();
        if wanted <= width {
            text += &key;
        }
    }
    text + LAST
}

impl Action {
    /// The entry of the action in the footer: the label of its keys and its name. The label is
    /// given only if the entry covers two keys, as in `+ -`; otherwise the footer shows the label
    /// of the key binding. Returns `None` for actions that the footer does not list.
    fn short(self) -> Option<(Option<&'static str>, &'static str)> {
        let name = match self {
            Self::Open => "open",
            Self::Reload => "reload",
            Self::NextTab => "tab",
            Self::Choose => "show",
            Self::Filter => "filter",
            Self::Sort => "sort",
            Self::NextRun => "run",
            Self::NextPane => "pane",
            Self::Compare => "compare",
            Self::ZoomIn => return Some((Some("+ -"), "zoom")),
            Self::ZoomReset => "all",
            Self::CursorLeft => return Some((Some("← →"), "cursor")),
            Self::PanLeft => return Some((Some("< >"), "pan")),
            Self::NextMark => "event",
            Self::NextRank => "rank",
            Self::AllMemory => "memory",
            Self::RankUp => return Some((Some("[ ]"), "rank")),
            Self::SavePng => "PNG",
            Self::SavePage => "HTML",
            Self::Resolve => "resolve",
            Self::Ignore => "ignore",
            Self::Reopen => "reopen",
            Self::WatchGpus => "GPUs",
            Self::WatchHost => "host",
            Self::WatchProcess => "process",
            Self::WatchSink => "sink",
            Self::StopWatching => "stop",
            Self::Limits => "limits",
            Self::ExportJson => "JSON",
            Self::ExportCsv => "CSV",
            _ => return None,
        };
        Some((None, name))
    }
}

/// The action of a key on a given tab; `None` if the key does nothing there.
pub(crate) fn action(key: KeyEvent, tab: Tab) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == Char('c')).then_some(Action::Quit);
    }
    // Key bindings of the shown tab take precedence over those that work on every tab.
    let mut bindings = keys_of(tab).iter().chain(EVERYWHERE);
    let binding = bindings.find(|binding| binding.codes().any(|code| code == key.code));
    binding.map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_place() {
        for tab in Tab::ALL {
            let bindings: Vec<&Binding> = keys_of(tab).iter().chain(EVERYWHERE).collect();
            for (index, one) in bindings.iter().enumerate() {
                for other in &bindings[index + 1..] {
                    let is_shared = one.codes().any(|code| other.codes().any(|its| its == code));
                    assert!(!is_shared, "{} and {}", one.label, other.label);
                }
            }
        }
    }

    #[test]
    fn the_footer_has_the_keys_of_the_tab_that_there_is_room_for() {
        for tab in Tab::ALL {
            for width in [40, 80, 120] {
                let text = footer(tab, width, true);
                assert!(text.chars().count() <= width, "{text}");
                assert!(text.ends_with("? help  q quit"), "{text}");
            }
        }
        assert!(footer(Tab::Issues, 80, true).starts_with("r resolve  i ignore  e reopen"));
        assert!(footer(Tab::Monitoring, 80, true).starts_with("g GPUs  h host  p process"));
        assert!(footer(Tab::Visualizations, 80, false).starts_with("+ - zoom  0 all  ← → cursor"));
        assert!(footer(Tab::Overview, 80, true).contains("Enter"));
        assert!(!footer(Tab::Overview, 80, false).contains("Enter"));
    }

    #[test]
    fn control_c_leaves_everywhere() {
        let key = KeyEvent::new(Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(key, Tab::Diagnostics), Some(Action::Quit));
        let key = KeyEvent::from(Char('c'));
        assert_eq!(action(key, Tab::Diagnostics), Some(Action::Compare));
        assert_eq!(action(key, Tab::Overview), None);
    }
}
