//! The macros: calls of the driver, and tests of both tiers.

/// Calls a function of the driver, writes its code down and gives it as a number.
macro_rules! cu {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $driver.functions().$name;
        // SAFETY: the arguments are values, handles that live, null where the driver looks at what
        // it is given, and pointers to locals and buffers that outlive their use. What a real
        // driver would follow and crash is passed to the simulated one alone, which compares.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "plain values and pointers")]
        let code = unsafe { function($($arg),*) };
        crate::transcript::saw(stringify!($name), code.0)
    }};
}

/// As [`cu!`], and the call must succeed: it leaves no line in the transcript.
macro_rules! ok {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        assert_eq!(
            crate::transcript::quietly(|| cu!($driver, $name($($arg),*))),
            0,
            stringify!($name)
        )
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
/// - `ruins`: as `alone`, and what it works on is not given back: it may break the context.
/// - `simulator`: `fn(&Rig)`, on the simulated driver alone.
macro_rules! tiers {
    (
        $(both { $($both:ident),* $(,)? })?
        $(bare { $($bare:ident),* $(,)? })?
        $(alone { $($alone:ident),* $(,)? })?
        $(ruins { $($ruins:ident),* $(,)? })?
        $(simulator { $($simulator:ident),* $(,)? })?
    ) => {
        mod sim_tier {
            const SIMULATED: crate::golden::Tier = crate::golden::Tier::Simulated;

            $($(
                #[test]
                fn $both() {
                    crate::golden::case(module_path!(), stringify!($both), SIMULATED, || {
                        crate::rig::simulated(super::$both);
                    });
                }
            )*)?
            $($(
                #[test]
                fn $bare() {
                    crate::golden::case(module_path!(), stringify!($bare), SIMULATED, || {
                        super::$bare(&crate::subject::Subject::simulated());
                    });
                }
            )*)?
            $($(
                #[test]
                fn $alone() {
                    crate::golden::case(module_path!(), stringify!($alone), SIMULATED, || {
                        crate::rig::simulated(super::$alone);
                    });
                }
            )*)?
            $($(
                #[test]
                fn $ruins() {
                    crate::golden::case(module_path!(), stringify!($ruins), SIMULATED, || {
                        crate::rig::simulated_ruin(super::$ruins);
                    });
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
            const REAL: crate::golden::Tier = crate::golden::Tier::Real;

            $($(
                #[test]
                fn $both() {
                    crate::golden::case(module_path!(), stringify!($both), REAL, || {
                        crate::rig::real(super::$both);
                    });
                }
            )*)?
            $($(
                #[test]
                fn $bare() {
                    crate::golden::case(module_path!(), stringify!($bare), REAL, || {
                        super::$bare(&crate::subject::Subject::real());
                    });
                }
            )*)?
            $($(
                #[test]
                fn $alone() {
                    let name = concat!(module_path!(), "::", stringify!($alone));
                    crate::subject::in_a_process(name, || {
                        crate::golden::case(module_path!(), stringify!($alone), REAL, || {
                            crate::rig::real(super::$alone);
                        });
                    });
                }
            )*)?
            $($(
                #[test]
                fn $ruins() {
                    let name = concat!(module_path!(), "::", stringify!($ruins));
                    crate::subject::in_a_process(name, || {
                        crate::golden::case(module_path!(), stringify!($ruins), REAL, || {
                            crate::rig::real_ruin(super::$ruins);
                        });
                    });
                }
            )*)?
        }
    };
}

/// Makes cases of functions written in place: `rules!(both; name(rig) { … } …)`, with a kind of
/// [`tiers!`].
macro_rules! rules {
    ($kind:ident; $($(#[$doc:meta])* $name:ident($rig:ident) $body:block)*) => {
        $(
            $(#[$doc])*
            fn $name($rig: &crate::rig::Rig) $body
        )*
        tiers! { $kind { $($name),* } }
    };
}
