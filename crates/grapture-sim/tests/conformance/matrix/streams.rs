//! Streams and events.

use std::ffi::c_void;
use std::ptr::null_mut;

use grapture_sys::*;

use super::Field;
use crate::rig::{NULL_STREAM, THREAD_LOCAL};

/// An event whose work has ended.
fn old_event(m: &Field<'_>) -> CUevent {
    let event = m.timed_event();
    ok!(m, cuEventRecord(event, m.other));
    m.sync(m.other);
    event
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

unsafe extern "C" fn no_callback(_: CUstream, _: CUresult, _: *mut c_void) {}

super::matrix! {
    stream_create(m) {
        let mut stream = null_mut();
        if m.call(|| cu!(m, cuStreamCreate(&mut stream, 1))) {
            ok!(m, cuStreamDestroy_v2(stream));
        }
    }
    stream_create_with_priority(m) {
        let mut stream = null_mut();
        if m.call(|| cu!(m, cuStreamCreateWithPriority(&mut stream, 1, -1))) {
            ok!(m, cuStreamDestroy_v2(stream));
        }
    }
    stream_destroy_of_another(m) {
        let stream = m.new_stream(1);
        if !m.call(|| cu!(m, cuStreamDestroy_v2(stream))) {
            ok!(m, cuStreamDestroy_v2(stream));
        }
    }
    stream_query_of_another(m) {
        m.call(|| cu!(m, cuStreamQuery(m.other)));
    }
    stream_synchronize_with_another(m) {
        m.call(|| cu!(m, cuStreamSynchronize(m.other)));
    }
    stream_query_of_a_blocking_one(m) {
        m.call(|| cu!(m, cuStreamQuery(m.blocking)));
    }
    stream_synchronize_with_a_blocking_one(m) {
        m.call(|| cu!(m, cuStreamSynchronize(m.blocking)));
    }
    stream_query_of_the_legacy_one(m) {
        m.call(|| cu!(m, cuStreamQuery(NULL_STREAM)));
    }
    stream_synchronize_with_the_legacy_one(m) {
        m.call(|| cu!(m, cuStreamSynchronize(NULL_STREAM)));
    }
    stream_query_of_the_capturing_one(m) {
        m.call(|| cu!(m, cuStreamQuery(m.stream)));
    }
    stream_synchronize_with_the_capturing_one(m) {
        m.call(|| cu!(m, cuStreamSynchronize(m.stream)));
    }
    stream_get_id(m) {
        m.call(|| cu!(m, cuStreamGetId(m.other, &mut 0)));
    }
    stream_get_priority_of_the_capturing_one(m) {
        m.call(|| cu!(m, cuStreamGetPriority(m.stream, &mut 0)));
    }
    stream_get_flags_of_the_capturing_one(m) {
        m.call(|| cu!(m, cuStreamGetFlags(m.stream, &mut 0)));
    }
    stream_get_ctx_of_the_capturing_one(m) {
        m.call(|| cu!(m, cuStreamGetCtx(m.stream, &mut null_mut())));
    }
    stream_get_attribute_of_the_capturing_one(m) {
        let mut value = CUstreamAttrValue_v1::default();
        m.call(|| cu!(m, cuStreamGetAttribute(m.stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &mut value)));
    }
    stream_copy_attributes_to_the_capturing_one(m) {
        m.call(|| cu!(m, cuStreamCopyAttributes(m.stream, m.other)));
    }
    stream_is_capturing(m) {
        let mut status = CUstreamCaptureStatus(9);
        m.call(|| cu!(m, cuStreamIsCapturing(m.stream, &mut status)));
    }
    launch_host_func_on_another(m) {
        m.call(|| cu!(m, cuLaunchHostFunc(m.other, Some(nothing), null_mut())));
        m.sync(m.other);
    }
    stream_add_callback_on_another(m) {
        m.call(|| cu!(m, cuStreamAddCallback(m.other, Some(no_callback), null_mut(), 0)));
        m.sync(m.other);
    }
    stream_attach_mem_async_on_another(m) {
        let address = make!(m, cuMemAllocManaged(64, 1));
        m.call(|| cu!(m, cuStreamAttachMemAsync(m.other, address, 0, 4)));
        m.sync(m.other);
        ok!(m, cuMemFree_v2(address));
    }
    stream_wait_value_on_another(m) {
        m.call(|| cu!(m, cuStreamWaitValue32_v2(m.other, m.buffer, 0, 0)));
    }
    stream_write_value_on_another(m) {
        m.call(|| cu!(m, cuStreamWriteValue32_v2(m.other, m.buffer, 0, 0)));
    }
    event_create(m) {
        let mut event = null_mut();
        if m.call(|| cu!(m, cuEventCreate(&mut event, 2))) {
            ok!(m, cuEventDestroy_v2(event));
        }
    }
    event_destroy(m) {
        let event = old_event(m);
        if !m.call(|| cu!(m, cuEventDestroy_v2(event))) {
            ok!(m, cuEventDestroy_v2(event));
        }
    }
    event_query(m) {
        let event = old_event(m);
        m.call(|| cu!(m, cuEventQuery(event)));
        ok!(m, cuEventDestroy_v2(event));
    }
    event_query_of_one_never_recorded(m) {
        let event = m.new_event();
        m.call(|| cu!(m, cuEventQuery(event)));
        ok!(m, cuEventDestroy_v2(event));
    }
    event_synchronize(m) {
        let event = old_event(m);
        m.call(|| cu!(m, cuEventSynchronize(event)));
        ok!(m, cuEventDestroy_v2(event));
    }
    event_elapsed_time(m) {
        let event = old_event(m);
        m.call(|| cu!(m, cuEventElapsedTime(&mut 0.0, event, event)));
        ok!(m, cuEventDestroy_v2(event));
    }
    event_record_on_another(m) {
        let event = m.new_event();
        m.call(|| cu!(m, cuEventRecord(event, m.other)));
        ok!(m, cuEventDestroy_v2(event));
    }
    event_record_on_the_legacy_one(m) {
        let event = m.new_event();
        m.call(|| cu!(m, cuEventRecord(event, NULL_STREAM)));
        ok!(m, cuEventDestroy_v2(event));
    }
    event_record_on_the_capturing_one(m) {
        let event = m.new_event();
        m.call(|| cu!(m, cuEventRecord(event, m.stream)));
        ok!(m, cuEventDestroy_v2(event));
    }
    stream_wait_event_on_another(m) {
        let event = old_event(m);
        m.call(|| cu!(m, cuStreamWaitEvent(m.other, event, 0)));
        ok!(m, cuEventDestroy_v2(event));
    }
    stream_begin_capture_on_another(m) {
        let mode = CUstreamCaptureMode(THREAD_LOCAL);
        m.call(|| {
            let begin = cu!(m, cuStreamBeginCapture_v2(m.other, mode));
            begin + m.end_and_count(m.other).0
        });
    }
    thread_exchange_stream_capture_mode(m) {
        let mut mode = CUstreamCaptureMode(0);
        m.call(|| {
            let first = cu!(m, cuThreadExchangeStreamCaptureMode(&mut mode));
            first + cu!(m, cuThreadExchangeStreamCaptureMode(&mut mode))
        });
    }
}
