//! A failed `assert`: a call of `__assertfail`.

use super::print::{Channel, Thread};
use super::{Env, lanes};
use crate::ptx::exec::memory::LaneFault;
use crate::ptx::fault::FaultKind;

/// `__assertfail`: where its arguments lie in the frame of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assert {
    /// The address of the text of the condition.
    pub condition: u32,
    /// The address of the name of the source.
    pub file: u32,
    /// The line.
    pub line: u32,
    /// The address of the name of the function.
    pub function: u32,
}

impl Assert {
    pub(super) fn run(self, env: &mut Env<'_, '_>, mask: u32) -> Result<(), LaneFault> {
        for lane in lanes(mask) {
            let [bx, by, bz] = env.place.ctaid;
            let [x, y, z] = [0, 1, 2].map(|axis| env.place.thread(axis)[lane]);
            let mut thread = Thread { env: &mut *env, lane };
            let mut text = |at| -> Result<String, FaultKind> {
                let address = thread.frame_word(at, 8)?;
                Ok(String::from_utf8_lossy(&thread.string(address)?).into_owned())
            };
            let fault = |kind| (kind, lane as u32);
            let condition = text(self.condition).map_err(fault)?;
            let file = text(self.file).map_err(fault)?;
            let function = text(self.function).map_err(fault)?;
            let line = thread.frame_word(self.line, 4).map_err(fault)?;
            let message = format!(
                "{file}:{line}: {function}: block: [{bx},{by},{bz}], thread: [{x},{y},{z}] \
                 Assertion `{condition}` failed.\n"
            );
            thread.print(Channel::Error, message.as_bytes());
        }
        Err((FaultKind::Assert, mask.trailing_zeros()))
    }
}
