//! What kernels print: kept until they end. A driver shows it soon after that, asked or not.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Mutex;

use crate::ptx::{self, Channel};
use crate::sim::lock;

/// The bytes that are kept, as many as an H200 keeps unless it is told otherwise; what is older is
/// lost.
const ROOM: usize = 8_650_752;

/// The texts that are yet to be shown.
#[derive(Debug, Default)]
pub(crate) struct Console {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    texts: VecDeque<(Channel, Vec<u8>)>,
    bytes: usize,
}

impl ptx::Console for Console {
    fn print(&self, channel: Channel, text: &[u8]) {
        let mut kept = lock(&self.kept);
        kept.bytes += text.len();
        kept.texts.push_back((channel, text.to_vec()));
        while kept.bytes > ROOM
            && let Some((_, lost)) = kept.texts.pop_front()
        {
            kept.bytes -= lost.len();
        }
    }
}

impl Console {
    /// Writes what is kept to the program's standard output and error.
    pub(crate) fn flush(&self) {
        let texts = std::mem::take(&mut *lock(&self.kept)).texts;
        for (channel, text) in texts {
            // A closed output loses the text; the driver would not fail for that either.
            let _ = match channel {
                Channel::Output => std::io::stdout().write_all(&text),
                Channel::Error => std::io::stderr().write_all(&text),
            };
        }
        let _ = std::io::stdout().flush();
    }
}
