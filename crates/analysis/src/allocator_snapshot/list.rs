//! Lists in a snapshot, with a limit on the number of items in all lists together, because a small
//! pickle can refer to one long list many times.

use std::borrow::Cow;

use deser::de::{Deserialize, Sink, SinkHandle};
use deser::{Error, ErrorKind, State};

/// Maximum number of list items kept per snapshot, including stack frames. An item takes about 150
/// bytes of memory. A snapshot that PyTorch wrote has about half of this number of items when its
/// file has the largest size that is accepted.
const MOST_KEPT: usize = 1 << 23;

/// Number of list items that parsing a snapshot has kept so far, at most `MOST_KEPT`. The parser
/// passes it from list to list in its [`State`].
#[derive(Debug, Default)]
struct Kept(usize);

/// An item of a list in a snapshot.
pub(super) trait Item: Sized {
    /// The word for a list of such items in error messages.
    const EXPECTED: &'static str = "a list";

    /// Adds the item to the items of a list that are kept.
    fn keep(self, kept: &mut Vec<Self>) {
        kept.push(self);
    }
}

impl<T> Item for List<T> {}

/// A list of a snapshot. While it is parsed, each item that is kept counts towards `MOST_KEPT`, the
/// limit of all lists together.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de> + Item + Send> Deserialize<'de> for List<T> {
    fn deserialize_into<'out>(
        out: &'out mut Option<Self>,
        state: &mut State,
    ) -> SinkHandle<'out, 'de> {
        let sink = ListSink {
            out,
            next: None,
            items: Vec::new(),
        };
        SinkHandle::arena(sink, state)
    }

    fn expecting() -> Cow<'static, str> {
        Cow::Borrowed(T::EXPECTED)
    }
}

struct ListSink<'out, T> {
    out: &'out mut Option<List<T>>,
    next: Option<T>,
    items: Vec<T>,
}

impl<T: Item> ListSink<'_, T> {
    fn take(&mut self, state: &mut State) -> Result<(), Error> {
        let before = self.items.len();
        if let Some(item) = self.next.take() {
            item.keep(&mut self.items);
        }
        if self.items.len() > before {
            let kept = state.get_mut::<Kept>();
            kept.0 += 1;
            if kept.0 > MOST_KEPT {
                return Err(Error::new(ErrorKind::LimitExceeded, "too many items"));
            }
        }
        Ok(())
    }
}

impl<'de, T: Deserialize<'de> + Item + Send> Sink<'de> for ListSink<'_, T> {
    fn expecting(&self) -> Cow<'_, str> {
        List::<T>::expecting()
    }

    fn seq(&mut self, _state: &mut State) -> Result<(), Error> {
        Ok(())
    }

    fn next_value(&mut self, state: &mut State) -> Result<SinkHandle<'_, 'de>, Error> {
        self.take(state)?;
        Ok(T::deserialize_into(&mut self.next, state))
    }

    fn finish(&mut self, state: &mut State) -> Result<(), Error> {
        self.take(state)?;
        *self.out = Some(List(std::mem::take(&mut self.items)));
        Ok(())
    }
}
