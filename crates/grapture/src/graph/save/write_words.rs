//! The operations of a batch as what a file holds.

use crate::error::CudaResult;
use crate::graph::MemoryOperation;
use crate::graph::save::format::{SavedValue, SavedWait, SavedWord};
use crate::graph::save::write::Writer;

pub(super) fn saved(writer: &Writer<'_>, operation: &MemoryOperation) -> CudaResult<SavedWord> {
    let unknown = || writer.refused("it waits for something that has no form in a file");
    Ok(match *operation {
        MemoryOperation::Write32 { address, value } => {
            SavedWord::Write32(SavedValue { to: writer.place(address)?, value })
        }
        MemoryOperation::Write64 { address, value } => {
            SavedWord::Write64(SavedValue { to: writer.place(address)?, value })
        }
        MemoryOperation::Wait32 { address, until } => SavedWord::Wait32(SavedWait {
            word: writer.place(address)?,
            until: until.ok_or_else(unknown)?.into(),
        }),
        MemoryOperation::Wait64 { address, until } => SavedWord::Wait64(SavedWait {
            word: writer.place(address)?,
            until: until.ok_or_else(unknown)?.into(),
        }),
        MemoryOperation::Barrier => SavedWord::Barrier,
        MemoryOperation::Other(number) => {
            let problem = format!("its operation of type {number} has no form in a file");
            return Err(writer.refused(&problem));
        }
    })
}
