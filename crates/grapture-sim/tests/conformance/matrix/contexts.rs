//! Contexts and devices.

use std::ptr::null_mut;

use grapture_sys::*;

super::matrix! {
    ctx_synchronize(m) {
        m.call(|| cu!(m, cuCtxSynchronize()));
    }
    ctx_get_limit(m) {
        m.call(|| cu!(m, cuCtxGetLimit(&mut 0, CU_LIMIT_STACK_SIZE)));
    }
    ctx_set_limit(m) {
        m.call(|| cu!(m, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024)));
    }
    ctx_get_stream_priority_range(m) {
        m.call(|| cu!(m, cuCtxGetStreamPriorityRange(&mut 0, &mut 0)));
    }
    ctx_get_device(m) {
        m.call(|| cu!(m, cuCtxGetDevice(&mut 0)));
    }
    ctx_push_and_pop(m) {
        m.call(|| {
            let push = cu!(m, cuCtxPushCurrent_v2(m.context));
            push + cu!(m, cuCtxPopCurrent_v2(&mut null_mut()))
        });
    }
    ctx_create_and_destroy(m) {
        m.call(|| {
            let mut context = null_mut();
            let code = cu!(m, cuCtxCreate_v2(&mut context, 0, 0));
            if code == 0 { cu!(m, cuCtxDestroy_v2(context)) } else { code }
        });
    }
    ctx_destroy_of_another(m) {
        let context = m.new_context();
        if !m.call(|| cu!(m, cuCtxDestroy_v2(context))) {
            ok!(m, cuCtxDestroy_v2(context));
        }
    }
    primary_ctx_retain(m) {
        if m.call(|| cu!(m, cuDevicePrimaryCtxRetain(&mut null_mut(), 0))) {
            ok!(m, cuDevicePrimaryCtxRelease_v2(0));
        }
    }
    primary_ctx_get_state(m) {
        m.call(|| cu!(m, cuDevicePrimaryCtxGetState(0, &mut 0, &mut 0)));
    }
    device_get_attribute(m) {
        m.call(|| cu!(m, cuDeviceGetAttribute(&mut 0, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0)));
    }
    device_total_mem(m) {
        m.call(|| cu!(m, cuDeviceTotalMem_v2(&mut 0, 0)));
    }
}
