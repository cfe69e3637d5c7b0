//! Contexts: their flags, limits, numbers and the stack of a thread.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::Rig;
use crate::transcript::saw;

fn current(rig: &Rig) -> CUcontext {
    let mut context = null_mut();
    ok!(rig, cuCtxGetCurrent(&mut context));
    context
}

/// Creates a context with flags, tells which it has and destroys it.
fn create(rig: &Rig, flags: u32) {
    let mut context = null_mut();
    saw("asked", flags);
    if cu!(rig, cuCtxCreate_v2(&mut context, flags, 0)) == 0 {
        let mut has = 0;
        cu!(rig, cuCtxGetFlags(&mut has));
        // Whether memory of kernels is kept (16) depends on what the process did before.
        saw("flags", has & !16);
        ok!(rig, cuCtxDestroy_v2(context));
    }
}

/// The flags of the primary context and whether it is active.
fn state(rig: &Rig) {
    let (mut flags, mut active) = (99, 99);
    cu!(rig, cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
    saw("flags and active", (flags & !16, active));
}

fn limit(rig: &Rig, number: u32) -> (u32, usize) {
    let mut value = 77;
    let code = cu!(rig, cuCtxGetLimit(&mut value, CUlimit(number)));
    (code, value)
}

/// Sets a limit, tells it and puts the old one back.
fn set_limit(rig: &Rig, number: u32, value: usize) {
    let before = limit(rig, number);
    saw("set", (number, value));
    cu!(rig, cuCtxSetLimit(CUlimit(number), value));
    saw("limit", limit(rig, number).1);
    if before.0 == 0 {
        cu!(rig, cuCtxSetLimit(CUlimit(number), before.1));
    }
}

rules! { both;
    the_flags_of_a_context(rig) {
        for flags in [0, 1, 2, 4, 3, 5, 6, 7, 8, 16, 24, 32, 64, 128, 256, 1 << 20] {
            create(rig, flags);
        }
    }
    a_context_needs_a_place_and_a_device(rig) {
        cu!(rig, cuCtxCreate_v2(null_mut(), 0, 0));
        cu!(rig, cuCtxCreate_v2(&mut null_mut(), 0, 9));
        cu!(rig, cuCtxCreate_v2(&mut null_mut(), 1 << 20, 9));
        saw("the rig's is current", current(rig) == rig.context);
    }
    a_context_is_destroyed_below_the_top(rig) {
        let own: CUcontext = make!(rig, cuCtxCreate_v2(0, 0));
        ok!(rig, cuCtxPushCurrent_v2(rig.context));
        cu!(rig, cuCtxDestroy_v2(own));
        saw("the rig's is current", current(rig) == rig.context);
        ok!(rig, cuCtxPopCurrent_v2(null_mut()));
        let mut left = null_mut();
        cu!(rig, cuCtxGetCurrent(&mut left));
        saw("it is still on the stack", left == own);
        cu!(rig, cuCtxSynchronize());
        cu!(rig, cuCtxGetDevice(&mut 0));
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
        cu!(rig, cuCtxPopCurrent_v2(null_mut()));
        saw("the rig's is current", current(rig) == rig.context);
    }
    no_context_at_all(rig) {
        let none = null_mut();
        cu!(rig, cuCtxDestroy_v2(none));
        cu!(rig, cuCtxPushCurrent_v2(none));
        cu!(rig, cuCtxGetCurrent(null_mut()));
        saw("the rig's is current", current(rig) == rig.context);
    }
    a_thread_without_a_context(rig) {
        ok!(rig, cuCtxSetCurrent(null_mut()));
        let mut popped = std::ptr::dangling_mut();
        cu!(rig, cuCtxPopCurrent_v2(&mut popped));
        saw("untouched", popped == std::ptr::dangling_mut());
        cu!(rig, cuCtxGetDevice(&mut 0));
        cu!(rig, cuCtxGetFlags(&mut 0));
        cu!(rig, cuCtxGetId(null_mut(), &mut 0));
        cu!(rig, cuCtxGetApiVersion(null_mut(), &mut 0));
        cu!(rig, cuCtxGetLimit(&mut 0, CU_LIMIT_STACK_SIZE));
        cu!(rig, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        cu!(rig, cuCtxSynchronize());
        cu!(rig, cuCtxSetCurrent(null_mut()));
        ok!(rig, cuCtxSetCurrent(rig.context));
    }
    the_current_context_is_set_over_another(rig) {
        let other = rig.new_context();
        ok!(rig, cuCtxPushCurrent_v2(rig.context));
        cu!(rig, cuCtxSetCurrent(other));
        saw("the other", current(rig) == other);
        cu!(rig, cuCtxPopCurrent_v2(null_mut()));
        saw("the rig's", current(rig) == rig.context);
        ok!(rig, cuCtxDestroy_v2(other));
    }
    one_context_is_pushed_twice(rig) {
        cu!(rig, cuCtxPushCurrent_v2(rig.context));
        cu!(rig, cuCtxPushCurrent_v2(rig.context));
        for _ in 0..2 {
            cu!(rig, cuCtxPopCurrent_v2(null_mut()));
        }
        saw("the rig's", current(rig) == rig.context);
    }
    a_new_thread_has_no_context(rig) {
        let transcript = crate::transcript::current();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                crate::transcript::writing_to(transcript, || {
                    let mut context = std::ptr::dangling_mut();
                    cu!(rig, cuCtxGetCurrent(&mut context));
                    saw("null", context.is_null());
                    cu!(rig, cuCtxPopCurrent_v2(null_mut()));
                });
            });
        });
    }
    each_context_has_a_number(rig) {
        let other = rig.new_context();
        let id = |context| {
            let mut id = 0;
            cu!(rig, cuCtxGetId(context, &mut id));
            id
        };
        saw("differ", id(rig.context) != id(other));
        saw("null is the current one", id(null_mut()) == id(rig.context));
        cu!(rig, cuCtxGetId(rig.context, null_mut()));
        ok!(rig, cuCtxDestroy_v2(other));
    }
    the_version_of_a_context(rig) {
        let mut version = 0;
        cu!(rig, cuCtxGetApiVersion(rig.context, &mut version));
        saw("version", version);
        cu!(rig, cuCtxGetApiVersion(rig.context, null_mut()));
        cu!(rig, cuCtxGetFlags(null_mut()));
        cu!(rig, cuCtxGetDevice(null_mut()));
    }
    the_limits_of_a_context(rig) {
        for number in (0..=11).chain([99]) {
            saw("number", number);
            let (code, value) = limit(rig, number);
            // The size of the printf buffer is rounded by the driver as it is set up.
            if code == 0 {
                saw("limit", value);
            }
        }
        cu!(rig, cuCtxGetLimit(null_mut(), CU_LIMIT_STACK_SIZE));
        cu!(rig, cuCtxGetLimit(null_mut(), CUlimit(99)));
    }
    the_stack_of_a_thread_is_rounded(rig) {
        for value in [0, 1, 16, 1000, 2048, 4096] {
            set_limit(rig, 0, value);
        }
    }
    the_stack_of_a_thread_is_bounded(rig) {
        for value in [100_000, 260_000, 300_000, 500_000, 524_288, 524_304, 1 << 20, usize::MAX] {
            set_limit(rig, 0, value);
        }
    }
    the_buffer_of_printf_is_rounded(rig) {
        for value in [0, 1, 4096, 600_000, 1 << 20, 10_000_000] {
            set_limit(rig, 1, value);
        }
    }
    the_heap_of_malloc_is_rounded(rig) {
        for value in [0, 1, 1 << 20, 10_000_000] {
            set_limit(rig, 2, value);
        }
    }
    the_limits_of_launches_on_the_device(rig) {
        for value in [0, 1, 24, 25] {
            set_limit(rig, 3, value);
        }
        for value in [0, 1, 4096] {
            set_limit(rig, 4, value);
        }
    }
    the_granularity_of_the_cache_is_rounded(rig) {
        for value in [0, 1, 32, 33, 64, 100, 128, 129, 1 << 20] {
            set_limit(rig, 5, value);
        }
    }
    the_persisting_part_of_the_cache_is_rounded(rig) {
        for value in [0, 1, 1 << 20, 1 << 30] {
            set_limit(rig, 6, value);
        }
    }
    the_limits_that_are_only_read(rig) {
        for number in [7, 8, 9, 10, 11, 99] {
            saw("number", number);
            cu!(rig, cuCtxSetLimit(CUlimit(number), 1));
        }
    }
    the_primary_context_is_set_up_while_it_is_active(rig) {
        state(rig);
        for flags in [0, 1, 2, 4, 8, 16, 3, 32, 1 << 20] {
            saw("set", flags);
            cu!(rig, cuDevicePrimaryCtxSetFlags_v2(0, flags));
            state(rig);
        }
        ok!(rig, cuDevicePrimaryCtxSetFlags_v2(0, 0));
    }
    the_primary_context_of_a_device_that_is_not_there(rig) {
        cu!(rig, cuDevicePrimaryCtxRetain(&mut null_mut(), 9));
        cu!(rig, cuDevicePrimaryCtxRetain(null_mut(), 0));
        cu!(rig, cuDevicePrimaryCtxRelease_v2(9));
        cu!(rig, cuDevicePrimaryCtxReset_v2(9));
        cu!(rig, cuDevicePrimaryCtxSetFlags_v2(9, 0));
        cu!(rig, cuDevicePrimaryCtxGetState(9, &mut 0, &mut 0));
        cu!(rig, cuDevicePrimaryCtxSetFlags_v2(9, 1 << 20));
    }
    the_state_of_the_primary_context_is_told_in_part(rig) {
        cu!(rig, cuDevicePrimaryCtxGetState(0, null_mut(), &mut 0));
        cu!(rig, cuDevicePrimaryCtxGetState(0, &mut 0, null_mut()));
    }
}
