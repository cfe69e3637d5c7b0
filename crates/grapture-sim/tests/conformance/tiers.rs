//! The macros: calls of the driver, and tests of both tiers.

/// Calls a function of the driver and gives its code as a number.
macro_rules! cu {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $driver.functions().$name;
        // SAFETY: the arguments are values, handles that live, null where the driver looks at what
        // it is given, and pointers to locals and buffers that outlive their use. What a real
        // driver would follow and crash is passed to the simulated one alone, which compares.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "plain values and pointers")]
        let code = unsafe { function($($arg),*) };
        code.0
    }};
}

/// As [`cu!`], and the call must succeed.
macro_rules! ok {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        assert_eq!(cu!($driver, $name($($arg),*)), 0, stringify!($name))
    };
}

/// Calls a function that writes its first argument, and gives that.
macro_rules! make {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: handles, numbers and plain structs may be all zeros.
        let mut out = unsafe { std::mem::zeroed() };
        ok!($driver, $name(&mut out, $($arg),*));
        out
    }};
}

/// Makes tests of functions.
///
/// - `both`: `fn(&Rig)`, a test of each tier.
/// - `bare`: the same for `fn(&Subject)`, where no context is held.
/// - `alone`: as `both`, but on a GPU in a process of its own, which it may bring down.
/// - `simulator`: `fn(&Rig)`, on the simulated driver alone.
macro_rules! tiers {
    (
        $(both { $($both:ident),* $(,)? })?
        $(bare { $($bare:ident),* $(,)? })?
        $(alone { $($alone:ident),* $(,)? })?
        $(simulator { $($simulator:ident),* $(,)? })?
    ) => {
        mod sim_tier {
            $($(
                #[test]
                fn $both() {
                    crate::rig::simulated(super::$both);
                }
            )*)?
            $($(
                #[test]
                fn $bare() {
                    super::$bare(&crate::subject::Subject::simulated());
                }
            )*)?
            $($(
                #[test]
                fn $alone() {
                    crate::rig::simulated(super::$alone);
                }
            )*)?
            $($(
                #[test]
                fn $simulator() {
                    crate::rig::simulated(super::$simulator);
                }
            )*)?
        }

        mod gpu_tier {
            $($(
                #[test]
                fn $both() {
                    crate::rig::real(super::$both);
                }
            )*)?
            $($(
                #[test]
                fn $bare() {
                    super::$bare(&crate::subject::Subject::real());
                }
            )*)?
            $($(
                #[test]
                fn $alone() {
                    let name = concat!(module_path!(), "::", stringify!($alone));
                    crate::subject::in_a_process(name, || crate::rig::real(super::$alone));
                }
            )*)?
        }
    };
}
