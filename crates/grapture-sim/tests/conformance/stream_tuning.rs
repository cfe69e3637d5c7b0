//! Attributes of streams that tune how kernels run: the window that the second-level cache favours,
//! and the map of memory domains.

use std::ffi::c_void;

use grapture_sys::*;

use crate::rig::{NULL_STREAM, RELAXED, Rig, per_thread};
use crate::transcript::{quietly, saw};

rules! { alone;
    which_windows_a_stream_takes(rig) {
        let bytes = [0, 1, 4096, 1 << 20, 1 << 30, 1 << 40];
        for num_bytes in bytes {
            try_window(rig, rig.stream, Window { num_bytes, ..Window::plain() });
        }
        for ratio in [0.0, 0.25, 1.0, 1.5, -0.5, f32::NAN, f32::INFINITY] {
            try_window(rig, rig.stream, Window { ratio, ..Window::plain() });
        }
        for hit in 0..4 {
            for miss in 0..4 {
                try_window(rig, rig.stream, Window { hit, miss, ..Window::plain() });
            }
        }
        try_window(rig, rig.stream, Window { at: None, ..Window::plain() });
        try_window(rig, rig.stream, Window { at: None, num_bytes: 0, ..Window::plain() });
    }
    which_streams_take_a_window(rig) {
        for stream in [rig.blocking, per_thread(), NULL_STREAM] {
            try_window(rig, stream, Window::plain());
        }
    }
    which_maps_of_domains_a_stream_takes(rig) {
        for map in [[0, 1], [1, 0], [3, 3], [4, 0], [0, 4], [255, 255], [2, 2]] {
            let value = domains(map);
            let code = set(rig, rig.stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value);
            saw(&format!("{map:?}"), (code, told_map(rig, rig.stream)));
        }
        for stream in [rig.blocking, per_thread(), NULL_STREAM] {
            let value = domains([1, 0]);
            let code = set(rig, stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value);
            saw("of another", (code, told_map(rig, stream)));
        }
    }
    both_are_copied_from_stream_to_stream(rig) {
        try_window(rig, rig.stream, Window::plain());
        set(rig, rig.stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &domains([2, 3]));
        cu!(rig, cuStreamCopyAttributes(rig.other, rig.stream));
        saw("window", told(rig, rig.other));
        saw("map", told_map(rig, rig.other));
    }
    a_captured_kernel_has_both_of_its_stream(rig) {
        let module = rig.module(crate::rig::PTX);
        let kernel = rig.function(module, "noarg");
        for (window, map) in [(false, false), (true, false), (false, true), (true, true)] {
            let stream = rig.new_stream(1);
            if window {
                try_window(rig, stream, Window::plain());
            }
            if map {
                set(rig, stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &domains([2, 3]));
            }
            rig.begin(stream, RELAXED);
            assert_eq!(rig.launch(kernel, stream, &mut []), 0);
            let graph = rig.end_good(stream);
            of_node(rig, rig.nodes(graph)[0]);
            ok!(rig, cuGraphDestroy(graph));
            ok!(rig, cuStreamDestroy_v2(stream));
        }
        ok!(rig, cuModuleUnload(module));
    }
}

/// A window of the rig's memory.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// The offset of its start; none for a null address.
    at: Option<u64>,
    num_bytes: usize,
    ratio: f32,
    hit: u32,
    miss: u32,
}

impl Window {
    fn plain() -> Window {
        Window { at: Some(256), num_bytes: 4096, ratio: 0.5, hit: 2, miss: 1 }
    }

    fn value(self, rig: &Rig) -> CUlaunchAttributeValue {
        let address = self.at.map_or(0, |at| rig.buffer + at);
        let base_ptr = std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let window = CUaccessPolicyWindow {
            base_ptr,
            num_bytes: self.num_bytes,
            hitRatio: self.ratio,
            hitProp: CUaccessProperty(self.hit),
            missProp: CUaccessProperty(self.miss),
        };
        CUlaunchAttributeValue { accessPolicyWindow: window }
    }
}

fn domains([default_, remote]: [u8; 2]) -> CUlaunchAttributeValue {
    CUlaunchAttributeValue { memSyncDomainMap: CUlaunchMemSyncDomainMap { default_, remote } }
}

fn set(
    rig: &Rig,
    stream: CUstream,
    id: CUlaunchAttributeID,
    value: &CUlaunchAttributeValue,
) -> u32 {
    quietly(|| cu!(rig, cuStreamSetAttribute(stream, id, value)))
}

/// The window as text: where it starts in the rig's memory, its size, ratio and kinds.
fn text(rig: &Rig, value: &CUlaunchAttributeValue) -> String {
    // SAFETY: every member of the union is plain data, and it was all zeros before it was written.
    let window = unsafe { value.accessPolicyWindow };
    let at = match window.base_ptr.addr() as u64 {
        0 => "null".to_owned(),
        address => address.wrapping_sub(rig.buffer).to_string(),
    };
    let (hit, miss) = (window.hitProp.0, window.missProp.0);
    format!("{at} {} {} {hit} {miss}", window.num_bytes, window.hitRatio)
}

fn told(rig: &Rig, stream: CUstream) -> (u32, String) {
    let mut value = CUlaunchAttributeValue::default();
    let id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
    let code = quietly(|| cu!(rig, cuStreamGetAttribute(stream, id, &mut value)));
    (code, text(rig, &value))
}

fn told_map(rig: &Rig, stream: CUstream) -> (u32, [u8; 2]) {
    let mut value = CUlaunchAttributeValue::default();
    let id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP;
    let code = quietly(|| cu!(rig, cuStreamGetAttribute(stream, id, &mut value)));
    // SAFETY: every member of the union is plain data, and it was all zeros before the call.
    let map = unsafe { value.memSyncDomainMap };
    (code, [map.default_, map.remote])
}

/// Sets a window, and shows the code and what is told then.
fn try_window(rig: &Rig, stream: CUstream, window: Window) {
    let value = window.value(rig);
    let code = set(rig, stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
    saw(&format!("{window:?}"), (code, told(rig, stream)));
}

/// Shows window, map and domain of a kernel node.
fn of_node(rig: &Rig, node: CUgraphNode) {
    let get = |id| {
        let mut value = CUlaunchAttributeValue::default();
        (quietly(|| cu!(rig, cuGraphKernelNodeGetAttribute(node, id, &mut value))), value)
    };
    let (window, of_window) = get(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
    let (map, of_map) = get(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP);
    // SAFETY: every member of the union is plain data, and it was all zeros before the call.
    let domains = unsafe { of_map.memSyncDomainMap };
    saw("node", (window, text(rig, &of_window), map, domains.default_, domains.remote));
}
