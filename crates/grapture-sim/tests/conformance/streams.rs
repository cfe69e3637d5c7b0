//! Streams: how they are made, what they tell, their attributes.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::{NULL_STREAM, Rig, per_thread};
use crate::transcript::saw;

/// The handle of the legacy stream.
fn legacy() -> CUstream {
    std::ptr::without_provenance_mut(1)
}

fn priority(rig: &Rig, stream: CUstream) {
    let mut priority = 99;
    cu!(rig, cuStreamGetPriority(stream, &mut priority));
    saw("priority", priority);
}

fn flags(rig: &Rig, stream: CUstream) {
    let mut flags = 99;
    cu!(rig, cuStreamGetFlags(stream, &mut flags));
    saw("flags", flags);
}

/// The attribute of a stream as a number.
fn attribute(rig: &Rig, stream: CUstream, id: u32) {
    let mut value = CUstreamAttrValue_v1::default();
    let code = cu!(rig, cuStreamGetAttribute(stream, CUlaunchAttributeID(id), &mut value));
    if code == 0 {
        // SAFETY: every member of the union is plain data, and it was all zeros before the call.
        saw("value", unsafe { value.priority });
    }
}

fn id(rig: &Rig, stream: CUstream) -> u64 {
    let mut id = 0;
    ok!(rig, cuStreamGetId(stream, &mut id));
    id
}

fn set(rig: &Rig, stream: CUstream, id: u32, number: i32) -> u32 {
    let mut value = CUstreamAttrValue_v1::default();
    value.priority = number;
    cu!(rig, cuStreamSetAttribute(stream, CUlaunchAttributeID(id), &value))
}

rules! { both;
    a_stream_has_one_of_two_flags(rig) {
        for flags in [0, 1, 2, 3, 4, 0x8000_0000] {
            let mut stream = null_mut();
            if cu!(rig, cuStreamCreate(&mut stream, flags)) == 0 {
                ok!(rig, cuStreamDestroy_v2(stream));
            }
        }
    }
    a_stream_with_a_priority_has_the_same_flags(rig) {
        for flags in [0, 1, 2, 3] {
            let mut stream = null_mut();
            if cu!(rig, cuStreamCreateWithPriority(&mut stream, flags, 0)) == 0 {
                ok!(rig, cuStreamDestroy_v2(stream));
            }
        }
    }
    a_stream_needs_a_place_for_its_handle(rig) {
        cu!(rig, cuStreamCreate(null_mut(), 0));
        cu!(rig, cuStreamCreate(null_mut(), 9));
        cu!(rig, cuStreamCreateWithPriority(null_mut(), 0, 0));
    }
    a_stream_that_is_not_made_leaves_its_handle(rig) {
        let mut stream = std::ptr::dangling_mut();
        cu!(rig, cuStreamCreate(&mut stream, 9));
        saw("untouched", stream == std::ptr::dangling_mut());
    }
    a_priority_is_kept_within_the_range(rig) {
        for asked in [-100, -6, -5, -4, -1, 0, 1, 100] {
            let stream: CUstream = make!(rig, cuStreamCreateWithPriority(1, asked));
            priority(rig, stream);
            ok!(rig, cuStreamDestroy_v2(stream));
        }
    }
    the_default_streams_have_priority_zero(rig) {
        priority(rig, NULL_STREAM);
        priority(rig, legacy());
        priority(rig, per_thread());
    }
    streams_tell_their_flags(rig) {
        flags(rig, rig.stream);
        flags(rig, rig.blocking);
        flags(rig, NULL_STREAM);
        flags(rig, legacy());
        flags(rig, per_thread());
    }
    each_stream_has_a_number_of_its_own(rig) {
        let id = |stream| id(rig, stream);
        let (a, b) = (rig.new_stream(1), rig.new_stream(1));
        saw("rises", id(b) > id(a));
        saw("stays", id(a) == id(a));
        saw("default streams differ", id(NULL_STREAM) != id(per_thread()));
        saw("two handles, one legacy stream", id(NULL_STREAM) == id(legacy()));
        ok!(rig, cuStreamDestroy_v2(a));
        ok!(rig, cuStreamDestroy_v2(b));
    }
    the_per_thread_stream_of_each_thread_has_its_number(rig) {
        let id = || id(rig, per_thread());
        let here = id();
        let there = rig.elsewhere(0, id);
        saw("differ", here != there);
    }
    a_stream_tells_its_context_and_device(rig) {
        for stream in [rig.stream, NULL_STREAM, legacy(), per_thread()] {
            let (mut context, mut device) = (null_mut(), 99);
            cu!(rig, cuStreamGetCtx(stream, &mut context));
            cu!(rig, cuStreamGetDevice(stream, &mut device));
            saw("the rig's", (context == rig.context, device));
        }
    }
    a_stream_of_another_context_tells_that(rig) {
        let other = rig.new_context();
        let stream = rig.in_context(other, || rig.new_stream(1));
        let mut context = null_mut();
        cu!(rig, cuStreamGetCtx(stream, &mut context));
        saw("the other", context == other);
        ok!(rig, cuCtxDestroy_v2(other));
    }
    default_streams_are_not_destroyed(rig) {
        cu!(rig, cuStreamDestroy_v2(NULL_STREAM));
        cu!(rig, cuStreamDestroy_v2(legacy()));
        cu!(rig, cuStreamDestroy_v2(per_thread()));
    }
    a_stream_is_destroyed_while_it_works(rig) {
        let stream = rig.new_stream(1);
        rig.fill(stream);
        cu!(rig, cuStreamDestroy_v2(stream));
        ok!(rig, cuCtxSynchronize());
        saw("done", rig.read_word(0));
    }
    an_idle_stream_is_ready(rig) {
        for stream in [rig.stream, rig.blocking, NULL_STREAM, legacy(), per_thread()] {
            cu!(rig, cuStreamQuery(stream));
            cu!(rig, cuStreamSynchronize(stream));
        }
    }
    a_stream_tells_its_attributes(rig) {
        for id in 0..=20 {
            saw("attribute", id);
            attribute(rig, rig.stream, id);
        }
        attribute(rig, rig.stream, 999);
    }
    the_legacy_stream_tells_its_attributes(rig) {
        for id in [1, 3, 8, 9, 10] {
            attribute(rig, NULL_STREAM, id);
        }
    }
    the_per_thread_stream_tells_its_attributes(rig) {
        for id in [1, 3, 8, 9, 10] {
            attribute(rig, per_thread(), id);
        }
    }
    the_synchronization_policy_is_one_of_four(rig) {
        let stream = rig.new_stream(1);
        for policy in [0, 1, 2, 3, 4, 5, -1] {
            set(rig, stream, 3, policy);
            attribute(rig, stream, 3);
        }
        ok!(rig, cuStreamDestroy_v2(stream));
    }
    the_priority_is_set_as_an_attribute(rig) {
        let stream = rig.new_stream(1);
        for number in [-3, -100, 7, 0] {
            set(rig, stream, 8, number);
            attribute(rig, stream, 8);
            priority(rig, stream);
        }
        ok!(rig, cuStreamDestroy_v2(stream));
    }
    the_memory_domain_of_a_stream_is_zero_or_one(rig) {
        let stream = rig.new_stream(1);
        for domain in [0, 1, 2] {
            set(rig, stream, 10, domain);
            attribute(rig, stream, 10);
        }
        ok!(rig, cuStreamDestroy_v2(stream));
    }
    attributes_that_no_stream_has_are_not_set(rig) {
        let stream = rig.new_stream(1);
        for id in [0, 2, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17, 99] {
            set(rig, stream, id, 1);
        }
        ok!(rig, cuStreamDestroy_v2(stream));
    }
    attributes_are_copied(rig) {
        let (from, to) = (rig.new_stream(1), rig.new_stream(1));
        set(rig, from, 3, 2);
        set(rig, from, 8, -2);
        set(rig, from, 10, 1);
        cu!(rig, cuStreamCopyAttributes(to, from));
        attribute(rig, to, 3);
        attribute(rig, to, 8);
        attribute(rig, to, 10);
        priority(rig, to);
        ok!(rig, cuStreamDestroy_v2(from));
        ok!(rig, cuStreamDestroy_v2(to));
    }
    attributes_are_copied_from_and_to_default_streams(rig) {
        cu!(rig, cuStreamCopyAttributes(rig.other, NULL_STREAM));
        cu!(rig, cuStreamCopyAttributes(per_thread(), rig.other));
        cu!(rig, cuStreamCopyAttributes(rig.other, rig.other));
    }
    the_range_of_priorities_is_told_in_part(rig) {
        let (mut least, mut greatest) = (9, 9);
        cu!(rig, cuCtxGetStreamPriorityRange(&mut least, null_mut()));
        cu!(rig, cuCtxGetStreamPriorityRange(null_mut(), &mut greatest));
        cu!(rig, cuCtxGetStreamPriorityRange(null_mut(), null_mut()));
        saw("range", (least, greatest));
    }
    a_captured_kernel_has_the_priority_of_its_stream(rig) {
        let module = rig.module(crate::rig::PTX);
        let kernel = rig.function(module, "noarg");
        for asked in [0, -3] {
            let stream: CUstream = make!(rig, cuStreamCreateWithPriority(1, asked));
            rig.begin(stream, 0);
            ok!(rig, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), null_mut()));
            let graph = rig.end_good(stream);
            let mut value = CUlaunchAttributeValue::default();
            let node = rig.nodes(graph)[0];
            cu!(rig, cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &mut value));
            // SAFETY: every member of the union is plain data, and the driver wrote this one.
            saw("priority", unsafe { value.priority });
            ok!(rig, cuGraphDestroy(graph));
            ok!(rig, cuStreamDestroy_v2(stream));
        }
        ok!(rig, cuModuleUnload(module));
    }
    a_callback_takes_no_flags(rig) {
        unsafe extern "C" fn nothing(_: CUstream, _: CUresult, _: *mut std::ffi::c_void) {}
        cu!(rig, cuStreamAddCallback(rig.stream, Some(nothing), null_mut(), 1));
        cu!(rig, cuStreamAddCallback(rig.stream, None, null_mut(), 0));
        cu!(rig, cuStreamAddCallback(rig.stream, Some(nothing), null_mut(), 0));
        rig.sync(rig.stream);
    }
    managed_memory_is_attached_with_one_of_three_flags(rig) {
        let address: CUdeviceptr = make!(rig, cuMemAllocManaged(4096, 1));
        for flags in [1, 4, 2] {
            cu!(rig, cuStreamAttachMemAsync(rig.stream, address, 0, flags));
        }
        rig.sync(rig.stream);
        ok!(rig, cuMemFree_v2(address));
    }
    managed_memory_is_attached_as_a_whole(rig) {
        let address: CUdeviceptr = make!(rig, cuMemAllocManaged(4096, 1));
        for length in [0, 4096, 64] {
            cu!(rig, cuStreamAttachMemAsync(rig.stream, address, length, 4));
        }
        cu!(rig, cuStreamAttachMemAsync(rig.stream, address + 64, 0, 4));
        rig.sync(rig.stream);
        ok!(rig, cuMemFree_v2(address));
    }
    managed_memory_is_not_attached_to_the_legacy_stream_alone(rig) {
        let address: CUdeviceptr = make!(rig, cuMemAllocManaged(4096, 1));
        cu!(rig, cuStreamAttachMemAsync(NULL_STREAM, address, 0, 4));
        rig.sync(NULL_STREAM);
        ok!(rig, cuMemFree_v2(address));
    }
    only_managed_memory_is_attached(rig) {
        let pinned = rig.pinned(4096);
        cu!(rig, cuStreamAttachMemAsync(rig.stream, rig.buffer, 0, 4));
        cu!(rig, cuStreamAttachMemAsync(rig.stream, pinned.addr() as u64, 0, 4));
        cu!(rig, cuStreamAttachMemAsync(rig.stream, 0x1234, 0, 4));
        cu!(rig, cuStreamAttachMemAsync(rig.stream, 0, 0, 4));
        ok!(rig, cuMemFreeHost(pinned));
    }
}
