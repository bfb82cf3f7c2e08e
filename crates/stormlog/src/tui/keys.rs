//! Key bindings: one table that defines what each key does and that the help screen lists.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::Tab;

/// What a key does.
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

/// A key, the tab on which it works, and its action.
pub(crate) struct Binding {
    /// The name of the key in the help.
    pub(crate) label: &'static str,
    codes: &'static [KeyCode],
    /// The tab on which the key works; `None` means all tabs.
    pub(crate) tab: Option<Tab>,
    action: Action,
    pub(crate) help: &'static str,
}

const fn everywhere(
    label: &'static str,
    codes: &'static [KeyCode],
    action: Action,
    help: &'static str,
) -> Binding {
    Binding {
        label,
        codes,
        tab: None,
        action,
        help,
    }
}

const fn on(
    tab: Tab,
    label: &'static str,
    codes: &'static [KeyCode],
    action: Action,
    help: &'static str,
) -> Binding {
    Binding {
        label,
        codes,
        tab: Some(tab),
        action,
        help,
    }
}

use KeyCode::{
    BackTab, Char, Down, End, Enter, Home, Left, PageDown, PageUp, Right, Tab as TabKey, Up,
};

/// All key bindings.
pub(crate) const BINDINGS: &[Binding] = &[
    everywhere("q", &[Char('q')], Action::Quit, "quit (also Ctrl+C)"),
    everywhere("?", &[Char('?')], Action::Help, "this help"),
    everywhere("Tab", &[TabKey], Action::NextTab, "next tab"),
    everywhere("Shift+Tab", &[BackTab], Action::PreviousTab, "previous tab"),
    everywhere("1", &[Char('1')], Action::GoTo(Tab::Overview), "Overview"),
    everywhere(
        "2",
        &[Char('2')],
        Action::GoTo(Tab::Monitoring),
        "Monitoring",
    ),
    everywhere(
        "3",
        &[Char('3')],
        Action::GoTo(Tab::Visualizations),
        "Visualizations",
    ),
    everywhere(
        "4",
        &[Char('4')],
        Action::GoTo(Tab::Diagnostics),
        "Diagnostics",
    ),
    everywhere("5", &[Char('5')], Action::GoTo(Tab::Issues), "Issues"),
    everywhere("6", &[Char('6')], Action::GoTo(Tab::Sessions), "Sessions"),
    on(
        Tab::Overview,
        "Enter",
        &[Enter],
        Action::Choose,
        "open the selected run",
    ),
    everywhere("o", &[Char('o')], Action::Open, "open artifacts"),
    everywhere("F5", &[KeyCode::F(5)], Action::Reload, "reload"),
    everywhere("↑ k", &[Up, Char('k')], Action::Up, "up"),
    everywhere("↓ j", &[Down, Char('j')], Action::Down, "down"),
    everywhere("PgUp", &[PageUp], Action::PageUp, "page up"),
    everywhere("PgDn", &[PageDown], Action::PageDown, "page down"),
    on(
        Tab::Monitoring,
        "g",
        &[Char('g')],
        Action::WatchGpus,
        "watch the GPUs",
    ),
    on(
        Tab::Monitoring,
        "h",
        &[Char('h')],
        Action::WatchHost,
        "watch this machine's memory",
    ),
    on(
        Tab::Monitoring,
        "p",
        &[Char('p')],
        Action::WatchProcess,
        "watch a process",
    ),
    on(
        Tab::Monitoring,
        "s",
        &[Char('s')],
        Action::WatchSink,
        "follow the opened sink",
    ),
    on(
        Tab::Monitoring,
        "x",
        &[Char('x')],
        Action::StopWatching,
        "stop watching",
    ),
    on(
        Tab::Monitoring,
        "l",
        &[Char('l')],
        Action::Limits,
        "alert thresholds",
    ),
    on(
        Tab::Monitoring,
        "e",
        &[Char('e')],
        Action::ExportJson,
        "export as JSON to ./exports",
    ),
    on(
        Tab::Monitoring,
        "c",
        &[Char('c')],
        Action::ExportCsv,
        "export as CSV to ./exports",
    ),
    on(
        Tab::Visualizations,
        "+",
        &[Char('+'), Char('=')],
        Action::ZoomIn,
        "zoom in",
    ),
    on(
        Tab::Visualizations,
        "-",
        &[Char('-')],
        Action::ZoomOut,
        "zoom out",
    ),
    on(
        Tab::Visualizations,
        "0",
        &[Char('0'), Home],
        Action::ZoomReset,
        "everything",
    ),
    on(
        Tab::Visualizations,
        "←",
        &[Left],
        Action::CursorLeft,
        "cursor left",
    ),
    on(
        Tab::Visualizations,
        "→",
        &[Right],
        Action::CursorRight,
        "cursor right",
    ),
    on(
        Tab::Visualizations,
        "<",
        &[Char('<'), Char(',')],
        Action::PanLeft,
        "pan left",
    ),
    on(
        Tab::Visualizations,
        ">",
        &[Char('>'), Char('.')],
        Action::PanRight,
        "pan right",
    ),
    on(
        Tab::Visualizations,
        "n",
        &[Char('n')],
        Action::NextMark,
        "next event",
    ),
    on(
        Tab::Visualizations,
        "r",
        &[Char('r')],
        Action::NextRank,
        "next rank",
    ),
    on(
        Tab::Visualizations,
        "f",
        &[Char('f')],
        Action::Filter,
        "select ranks",
    ),
    on(
        Tab::Visualizations,
        "p",
        &[Char('p')],
        Action::SavePng,
        "PNG to ./visualizations",
    ),
    on(
        Tab::Visualizations,
        "w",
        &[Char('w')],
        Action::SavePage,
        "HTML to ./visualizations",
    ),
    on(
        Tab::Diagnostics,
        "f",
        &[Char('f'), Char('/')],
        Action::Filter,
        "select ranks: all, 0,2,4-7",
    ),
    on(
        Tab::Diagnostics,
        "n",
        &[Char('n')],
        Action::NextRun,
        "next run",
    ),
    on(
        Tab::Diagnostics,
        "c",
        &[Char('c')],
        Action::Compare,
        "compare with another artifact",
    ),
    on(
        Tab::Diagnostics,
        "v",
        &[Char('v')],
        Action::NextPane,
        "findings, phases, comparison",
    ),
    on(
        Tab::Diagnostics,
        "[",
        &[Char('[')],
        Action::RankUp,
        "rank above",
    ),
    on(
        Tab::Diagnostics,
        "]",
        &[Char(']')],
        Action::RankDown,
        "rank below",
    ),
    on(
        Tab::Diagnostics,
        "Enter",
        &[Enter],
        Action::Choose,
        "show it on the timeline",
    ),
    on(Tab::Issues, "r", &[Char('r')], Action::Resolve, "resolve"),
    on(Tab::Issues, "i", &[Char('i')], Action::Ignore, "ignore"),
    on(Tab::Issues, "e", &[Char('e')], Action::Reopen, "reopen"),
    on(
        Tab::Sessions,
        "Enter",
        &[Enter],
        Action::Choose,
        "show this session's run",
    ),
    on(
        Tab::Sessions,
        "/",
        &[Char('/'), Char('f')],
        Action::Filter,
        "filter by typing",
    ),
    on(
        Tab::Sessions,
        "s",
        &[Char('s'), End],
        Action::Sort,
        "sort by the next column",
    ),
];

/// The end of the footer: keys that are always shown because they work on every tab.
const LAST: &str = "? help  q quit";

/// The footer: the keys of a tab in one line. Keys that do not fit are only on the help screen. The
/// key that opens a line is left out when there are no lines.
pub(crate) fn footer(tab: Tab, width: usize, has_lines: bool) -> String {
    let here = BINDINGS.iter().filter(|binding| binding.tab == Some(tab));
    let more = BINDINGS.iter().filter(|binding| binding.tab.is_none());
    let mut text = String::new();
    for binding in here.chain(more) {
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
    /// The name of the action in the footer, with the labels of both keys when one entry stands for
    /// two keys. `None` for actions that the footer does not list.
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

/// The action of a key on a given tab.
pub(crate) fn action(key: KeyEvent, tab: Tab) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == Char('c')).then_some(Action::Quit);
    }
    let fits = |binding: &&Binding| binding.codes.contains(&key.code);
    let here = BINDINGS.iter().filter(fits);
    let here = here.filter(|binding| binding.tab.is_none_or(|of| of == tab));
    // A binding for this tab takes precedence over one that works on all tabs.
    here.max_by_key(|binding| binding.tab.is_some())
        .map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_place() {
        for (index, one) in BINDINGS.iter().enumerate() {
            for other in &BINDINGS[index + 1..] {
                let same_place = one.tab == other.tab || one.tab.is_none() || other.tab.is_none();
                let same_key = one.codes.iter().any(|code| other.codes.contains(code));
                assert!(
                    !(same_place && same_key),
                    "{} and {}",
                    one.label,
                    other.label
                );
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
