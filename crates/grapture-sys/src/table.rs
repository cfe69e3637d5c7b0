//! [`Functions`]: the resolved function table, made from the lines of [`driver_functions!`].

use core::ffi::{c_char, c_void};

use crate::bindings::*;
use crate::driver_functions;

/// One line of the function table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionInfo {
    /// The exported symbol of this ABI version, such as `cuStreamBeginCapture_v2`.
    pub symbol: &'static str,
    /// The name that `cuGetProcAddress` knows it by, such as `cuStreamBeginCapture`.
    pub name: &'static str,
    /// The driver version that brought this ABI: 1000 × major + 10 × minor.
    pub since: i32,
}

macro_rules! define {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// Every function of the table as a value: which one a count, a fault or a question is about.
        #[allow(non_camel_case_types, reason = "the names are the driver's")]
        #[allow(missing_docs, reason = "NVIDIA documents the functions")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Function { $($symbol),* }

        impl Function {
            /// All of them, in the order of the table.
            pub const ALL: &[Function] = &[$(Function::$symbol),*];
        }

        static INFOS: &[FunctionInfo] = &[
            $(FunctionInfo { symbol: stringify!($symbol), name: $name, since: $since }),*
        ];

        /// The driver's functions as pointers, each of which can always be called: one that the
        /// driver does not have answers `CUDA_ERROR_NOT_SUPPORTED`.
        #[allow(non_snake_case, reason = "the names are the driver's")]
        #[allow(missing_docs, reason = "NVIDIA documents the functions")]
        #[derive(Clone, Copy, Debug)]
        pub struct Functions {
            $(pub $symbol: unsafe extern "C" fn($($arg: $ty),*) -> CUresult),*
        }

        impl Functions {
            /// The table of what `lookup` finds, and the set of what it does not: `lookup` gives
            /// the address of a function, or null.
            ///
            /// # Safety
            ///
            /// Each address that `lookup` gives is that of a function with the C signature of its
            /// line in the table, and stays callable as long as the table is used.
            pub unsafe fn resolve(
                mut lookup: impl FnMut(&'static FunctionInfo) -> *const c_void,
            ) -> (Functions, FunctionSet) {
                let mut missing = FunctionSet::default();
                let functions = Functions {
                    $($symbol: {
                        let address = lookup(Function::$symbol.info());
                        if address.is_null() {
                            missing.insert(Function::$symbol);
                            unavailable::$symbol
                        } else {
                            // SAFETY: the caller's promise: a function of this line's signature.
                            // A data pointer and a function pointer have the same size on every
                            // platform that CUDA supports.
                            unsafe {
                                core::mem::transmute::<
                                    *const c_void,
                                    unsafe extern "C" fn($($ty),*) -> CUresult,
                                >(address)
                            }
                        }
                    }),*
                };
                (functions, missing)
            }
        }

        #[allow(non_snake_case, reason = "the names are the driver's")]
        mod unavailable {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $symbol($(_: $ty),*) -> CUresult {
                    CUDA_ERROR_NOT_SUPPORTED
                }
            )*
        }
    };
}

driver_functions!(define);

impl Function {
    /// The line of the table.
    pub fn info(self) -> &'static FunctionInfo {
        // INVARIANT: `INFOS` and this enum come from the same lines in the same order.
        &INFOS[self as usize]
    }

    /// The function with this exported symbol.
    pub fn from_symbol(symbol: &str) -> Option<Function> {
        Function::ALL.iter().copied().find(|function| function.info().symbol == symbol)
    }
}

/// A set of functions of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSet {
    words: [u64; Function::ALL.len().div_ceil(64)],
}

impl FunctionSet {
    /// Adds a function.
    pub fn insert(&mut self, function: Function) {
        let index = function as usize;
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// Whether the function is in the set.
    pub fn contains(&self, function: Function) -> bool {
        let index = function as usize;
        self.words[index / 64] & (1 << (index % 64)) != 0
    }

    /// The functions in the set, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Function> + '_ {
        Function::ALL.iter().copied().filter(|function| self.contains(*function))
    }
}
