//! C on the driver API: `c/bench.c`, in which the loops are too.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use crate::{PTX, Program};

/// What a call answered that failed: the driver's code, or one of `c/bench.c`'s own.
#[derive(Debug)]
pub struct Code(#[allow(dead_code, reason = "it is shown")] c_int);

/// The program in C. It works in the context that is current when it is set up, else in the
/// primary one, and it makes that current for its own turns only.
///
/// `AGAIN` tells a second one, which is held against the first: what the method itself makes of two
/// that are alike.
pub struct C<const AGAIN: bool = false>(NonNull<c_void>);

/// A graph and its executable.
#[repr(C)]
pub struct CExec {
    graph: *mut c_void,
    exec: *mut c_void,
}

unsafe extern "C" {
    fn bench_c_set_up(ptx: *const c_char, made: *mut *mut c_void) -> c_int;
    fn bench_c_enter(program: *const c_void) -> c_int;
    fn bench_c_leave() -> c_int;
    fn bench_c_begin(program: *mut c_void) -> c_int;
    fn bench_c_kernels(program: *mut c_void, n: usize) -> c_int;
    fn bench_c_end(program: *const c_void, made: *mut CExec) -> c_int;
    fn bench_c_launch(program: *const c_void, graph: *const CExec, times: usize) -> c_int;
    fn bench_c_synchronize(program: *const c_void) -> c_int;
    fn bench_c_destroy(graph: *const CExec) -> c_int;
    fn bench_c_word(program: *const c_void, word: *mut u32) -> c_int;
}

fn check(code: c_int) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

impl<const AGAIN: bool> Program for C<AGAIN> {
    const NAME: &str = if AGAIN { "C again" } else { "C" };
    type Capture<'a> = ();
    type Exec = CExec;
    type Error = Code;

    fn set_up() -> Result<Self, Code> {
        let ptx = CString::new(PTX).expect("the kernel's text has no zero byte");
        let mut made = ptr::null_mut();
        // SAFETY: the text ends with a zero byte, and the out-pointer is a live local.
        check(unsafe { bench_c_set_up(ptx.as_ptr(), &mut made) })?;
        Ok(C(NonNull::new(made).expect("it was set up")))
    }

    fn enter(&self) -> Result<(), Code> {
        // SAFETY: it was set up, and lives as long as the process.
        check(unsafe { bench_c_enter(self.0.as_ptr()) })
    }

    fn leave(&self) -> Result<(), Code> {
        // SAFETY: it was entered.
        check(unsafe { bench_c_leave() })
    }

    fn begin(&self) -> Result<(), Code> {
        // SAFETY: as in `enter`; one thread uses it.
        check(unsafe { bench_c_begin(self.0.as_ptr()) })
    }

    fn kernels(&self, n: usize) -> Result<(), Code> {
        // SAFETY: as in `begin`; the kernel takes a pointer to one word and adds to it atomically.
        check(unsafe { bench_c_kernels(self.0.as_ptr(), n) })
    }

    fn end(&self, (): ()) -> Result<CExec, Code> {
        let mut made = CExec { graph: ptr::null_mut(), exec: ptr::null_mut() };
        // SAFETY: as in `enter`; the out-pointer is a live local.
        check(unsafe { bench_c_end(self.0.as_ptr(), &mut made) })?;
        Ok(made)
    }

    fn launch(&self, exec: &CExec, times: usize) -> Result<(), Code> {
        // SAFETY: as in `enter`; the executable graph is alive.
        check(unsafe { bench_c_launch(self.0.as_ptr(), exec, times) })
    }

    fn synchronize(&self) -> Result<(), Code> {
        // SAFETY: as in `enter`.
        check(unsafe { bench_c_synchronize(self.0.as_ptr()) })
    }

    fn word(&self) -> Result<u32, Code> {
        let mut word = 0;
        // SAFETY: as in `enter`; the out-pointer is a live local.
        check(unsafe { bench_c_word(self.0.as_ptr(), &mut word) })?;
        Ok(word)
    }
}

impl Drop for CExec {
    fn drop(&mut self) {
        if self.exec.is_null() {
            return;
        }
        // SAFETY: it was made, and this is the last use.
        let code = unsafe { bench_c_destroy(self) };
        check(code).expect("the graph cannot be destroyed");
    }
}
