//! Tests mouse clicks on the drawn screens of the terminal UI.

use super::{SECOND, START, loaded, press, screen};
use crate::tui::effect::Effect;
use crate::tui::folder::Entry;
use crate::tui::message::Message;
use crate::tui::model::{Model, Tab};
use crate::tui::update::update;

#[test]
fn clicks_choose_tabs() {
    let mut model = loaded();
    update(&mut model, Message::Click(15, 0));
    assert_eq!(model.tab, Tab::Monitoring);
    update(&mut model, Message::Click(15, 5));
    assert_eq!(model.tab, Tab::Monitoring);
    update(&mut model, Message::Click(200, 0));
    assert_eq!(model.tab, Tab::Monitoring);
}

/// The column and row of a text on the drawn screen.
fn position_of(model: &Model, text: &str) -> (u16, u16) {
    let shown = screen(model, model.size.0, model.size.1);
    let found = shown.lines().enumerate().find_map(|(row, line)| {
        let before = line.split_once(text)?.0;
        // One column is subtracted, because each line of the screen text begins with a quotation
        // mark that is not on the screen.
        Some((before.chars().count() - 1, row))
    });
    let (column, row) = found.unwrap_or_else(|| panic!("no {text} in\n{shown}"));
    (column.try_into().unwrap(), row.try_into().unwrap())
}

fn click(model: &mut Model, text: &str) -> Vec<Effect> {
    let (column, row) = position_of(model, text);
    update(model, Message::Click(column, row))
}

#[test]
fn clicks_hit_what_is_drawn() {
    for size in [(80, 24), (120, 40)] {
        let mut model = loaded();
        update(&mut model, Message::Resized(size.0, size.1));
        press(&mut model, "4");
        // The only finding is selected, so a click opens its plot.
        click(&mut model, "r1 allocator_leak");
        assert_eq!(model.tab, Tab::Visualizations);
        press(&mut model, "4");
        // The table of ranks lists the rank with a finding first, so rank 0 is its second line.
        click(&mut model, "0     400");
        assert_eq!(model.rank_cursor, 1);
        press(&mut model, "v");
        click(&mut model, "train");
        assert_eq!(model.cursor(), 1);
        press(&mut model, "6");
        click(&mut model, "5e55-rank-1");
        assert_eq!(model.cursor(), 1);
        let effects = click(&mut model, "5e55-rank-1");
        assert!(matches!(&effects[..], [Effect::OpenSession(id)] if id == "5e55-rank-1"));
        press(&mut model, "5");
        click(&mut model, "open       problem");
        assert_eq!(model.cursor(), 0);
    }
}

#[test]
fn the_mouse_moves_through_the_plot() {
    let mut model = loaded();
    press(&mut model, "3");
    update(&mut model, Message::Click(11, 8));
    let cursor = model.plot.cursor_ns.unwrap();
    assert!((START..START + SECOND).contains(&cursor));
    update(&mut model, Message::Drag(77, 8));
    assert!(model.plot.cursor_ns.unwrap() > START + 38 * SECOND);
    update(&mut model, Message::Wheel(true, 44, 8));
    let (from, to) = model.plot.part.unwrap();
    assert!(to - from < 33 * SECOND);
    update(&mut model, Message::Wheel(false, 44, 8));
    update(&mut model, Message::Wheel(false, 44, 8));
    assert_eq!(model.plot.part, None);
}

#[test]
fn the_plot_below_the_help_screen_stays_as_it_is() {
    let mut model = loaded();
    press(&mut model, "3");
    press(&mut model, "?");
    assert!(model.help);
    update(&mut model, Message::Wheel(true, 44, 8));
    update(&mut model, Message::Drag(44, 8));
    assert_eq!(model.plot.part, None);
    assert_eq!(model.plot.cursor_ns, None);
    assert!(model.help);
}

#[test]
fn entries_of_a_folder_are_clicked() {
    let mut model = loaded();
    press(&mut model, "o");
    let entry = |name: &str, is_folder| Entry {
        name: name.into(),
        is_folder,
    };
    let entries = vec![entry("runs", true), entry("events.json", false)];
    update(&mut model, Message::Listed(String::new(), entries));
    let effects = click(&mut model, "runs/");
    assert!(matches!(&effects[..], [Effect::List(text)] if text == "runs/"));
    assert_eq!(model.dialog.as_ref().unwrap().text, "runs/");
    // A click on a tab has no effect while a dialog is open.
    update(&mut model, Message::Click(15, 0));
    assert_eq!(model.tab, Tab::Overview);
}
