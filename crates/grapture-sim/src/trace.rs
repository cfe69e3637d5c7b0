//! The trace: a line for each call, written when the call is over.

use core::ffi::{CStr, c_char, c_void};
use std::any::TypeId;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;

use grapture_sys::*;

use crate::handle::Kind;
use crate::origin::Origin;
use crate::sim::lock;

/// The most of a text that a line shows.
const TEXT: usize = 80;

/// A trace that goes to a file.
pub(crate) struct Trace {
    file: Mutex<File>,
}

impl Trace {
    /// Makes the file anew.
    pub(crate) fn create(path: &Path) -> io::Result<Trace> {
        Ok(Trace { file: Mutex::new(File::create(path)?) })
    }

    /// Writes the line of a call. A file that cannot be written loses the line, not the program.
    pub(crate) fn write(&self, origin: Origin, code: CUresult, arguments: impl Fn(&mut Line)) {
        let mut line = Line::new(origin, code);
        arguments(&mut line);
        let text = line.finish(code);
        // Nobody could be told: the program knows nothing of the trace.
        let _ = lock(&self.file).write_all(text.as_bytes());
    }
}

/// A line that is being written.
pub(crate) struct Line {
    text: String,
    arguments: usize,
    /// Whether the first argument, if it is an address of a handle, has got one.
    makes: bool,
    made: Option<u64>,
}

impl Line {
    fn new(origin: Origin, code: CUresult) -> Line {
        let name = origin.function.info().symbol;
        let text = format!("{} thread {} {name}(", origin.call, origin.thread);
        // What these write is a list, which may have no place at all.
        let lists = name.contains("Enumerate");
        Line { text, arguments: 0, makes: code == CUDA_SUCCESS && !lists, made: None }
    }

    /// Adds an argument.
    pub(crate) fn argument(&mut self, name: &str, value: &impl Traced) {
        if self.arguments == 0 && self.makes {
            self.made = value.made();
        } else if self.arguments > 0 {
            self.text.push_str(", ");
        }
        self.arguments += 1;
        // A string takes everything.
        let _ = write!(self.text, "{name}: ");
        value.show(&mut self.text);
    }

    fn finish(mut self, code: CUresult) -> String {
        let name = error_code(code).map_or("CUDA_SUCCESS", |known| known.name);
        // As above.
        let _ = write!(self.text, ") = {} {name}", code.0);
        if let Some(made) = self.made {
            self.text.push_str(", gives ");
            show_value(made, &mut self.text);
        }
        self.text.push('\n');
        self.text
    }
}

/// A C argument as a line shows it.
pub(crate) trait Traced {
    /// Adds it to a line.
    fn show(&self, line: &mut String);

    /// The handle or device address that the call wrote through it, if it is an address of one.
    /// To be asked of the first argument of a call that succeeded.
    fn made(&self) -> Option<u64> {
        None
    }
}

/// A handle with its kind, null, or a number.
fn show_value(value: u64, line: &mut String) {
    // A string takes everything.
    let _ = match Kind::of(value) {
        Some(kind) => write!(line, "{} {value:#x}", kind.name()),
        None if value == 0 => write!(line, "null"),
        None => write!(line, "{value:#x}"),
    };
}

impl<T: 'static> Traced for *mut T {
    fn show(&self, line: &mut String) {
        show_value(self.addr() as u64, line);
    }

    fn made(&self) -> Option<u64> {
        let handles = [
            TypeId::of::<CUcontext>(),
            TypeId::of::<CUstream>(),
            TypeId::of::<CUevent>(),
            TypeId::of::<CUmodule>(),
            TypeId::of::<CUfunction>(),
            TypeId::of::<CUlibrary>(),
            TypeId::of::<CUkernel>(),
            TypeId::of::<CUmemoryPool>(),
            TypeId::of::<CUgraph>(),
            TypeId::of::<CUgraphNode>(),
            TypeId::of::<CUgraphExec>(),
            TypeId::of::<CUuserObject>(),
            TypeId::of::<*mut c_void>(),
            TypeId::of::<CUdeviceptr>(),
        ];
        if self.is_null() || !handles.contains(&TypeId::of::<T>()) {
            return None;
        }
        const { assert!(size_of::<*mut c_void>() == size_of::<u64>()) };
        // SAFETY: the pointer is the first argument of a call that succeeded and that does not
        // write a list, so by the driver's documentation it is the address of a handle or device
        // address that the function wrote or was free to read; each of the types above has the
        // size and alignment of a `u64`.
        Some(unsafe { self.cast::<u64>().read() })
    }
}

impl<T: 'static> Traced for *const T {
    fn show(&self, line: &mut String) {
        let is = |ty| TypeId::of::<T>() == ty && !self.is_null();
        if is(TypeId::of::<CUuuid>()) {
            // SAFETY: not null, and every `const CUuuid*` that a function of the table takes is
            // the address of one.
            let uuid = unsafe { self.cast::<CUuuid>().read() };
            return uuid.bytes.iter().for_each(|byte| {
                // A string takes everything.
                let _ = write!(line, "{byte:02x}");
            });
        }
        if !is(TypeId::of::<c_char>()) {
            return show_value(self.addr() as u64, line);
        }
        // SAFETY: not null, and every `const char*` that a function of the table takes is text
        // that ends in a NUL and stays as it is during the call.
        let text = unsafe { CStr::from_ptr(self.cast()) }.to_string_lossy();
        let short: String = text.chars().take(TEXT).collect();
        let more = if short.len() < text.len() { "…" } else { "" };
        // A string takes everything.
        let _ = write!(line, "{short:?}{more}");
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Traced for $ty {
            fn show(&self, line: &mut String) {
                // A string takes everything.
                let _ = write!(line, "{self}");
            }
        }
    )*};
}

numbers!(u8, u16, u32, i32, usize);

/// A device address, a flag word or a count of 64 bits: small ones read best as numbers.
impl Traced for u64 {
    fn show(&self, line: &mut String) {
        // A string takes everything.
        let _ = if *self < 1 << 32 { write!(line, "{self}") } else { write!(line, "{self:#x}") };
    }
}

impl Traced for CUmemLocation {
    fn show(&self, line: &mut String) {
        // A string takes everything.
        let _ = write!(line, "{:?}", self.type_);
    }
}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {$(
        impl Traced for $ty {
            fn show(&self, line: &mut String) {
                // A string takes everything.
                let _ = write!(line, "{:?}", self);
            }
        }
    )*};
}

plain! {
    CUresult, CUhostFn, CUstreamCallback, CUoccupancyB2DSize, CUgraphRecaptureCallback,
    CUstreamCaptureMode, CUdevice_attribute, CUfunction_attribute, CUpointer_attribute, CUlimit,
    CUmemPool_attribute, CUgraphMem_attribute, CUlaunchAttributeID, CUfunc_cache, CUsharedconfig,
    CUexecAffinityType, CUdevice_P2PAttribute, CUarray_format, CUmem_advise,
    CUmem_range_attribute, CUjitInputType, CUmemAllocationType,
}
