//! Draws the help screen, which lists the key bindings that work on every tab and those of the
//! current tab.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::tui::keys::{Binding, EVERYWHERE, keys_of};
use crate::tui::model::Model;

const MOUSE: [&str; 3] = [
    "click: select tabs, lines, entries,",
    "or move the cursor of the plot;",
    "wheel: scroll, zoom the plot",
];

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, body: Rect) {
    frame.render_widget(Clear, body);
    let title = format!(" {} shortcuts (any key closes) ", model.tab.as_str());
    let block = Block::bordered().title(title);
    let inner = block.inner(body);
    frame.render_widget(block, body);
    let line = |binding: &Binding| {
        Line::from(vec![
            Span::styled(format!("{:>10}  ", binding.label), model.palette.heading()),
            Span::raw(binding.help),
        ])
    };
    let columns = [Constraint::Percentage(50), Constraint::Percentage(50)];
    let [left, right] = Layout::horizontal(columns).areas(inner);
    frame.render_widget(
        Paragraph::new(EVERYWHERE.iter().map(line).collect::<Vec<_>>()),
        left,
    );
    let mut lines: Vec<Line<'_>> = keys_of(model.tab).iter().map(line).collect();
    lines.push(Line::default());
    lines.extend(MOUSE.map(|text| Line::styled(text, model.palette.muted())));
    frame.render_widget(Paragraph::new(lines), right);
}
