//! Memory in captures: operations become nodes, and what is made or dropped meanwhile is no part.

use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CopyDirection, CudaResult, DeviceBuffer, GraphExec, OperationSpec, PinnedBuffer,
    Region2d, Stream, StreamCapture,
};

both_tiers!(
    copies_and_fills_become_nodes,
    a_staged_copy_is_as_it_was_at_the_capture,
    copies_that_borrow_host_memory_are_refused,
    what_a_graph_uses_outlives_its_buffers,
    a_refused_operation_leaves_the_capture_valid,
    making_and_dropping_breaks_no_capture,
    other_threads_may_make_and_drop,
    a_blocking_copy_on_another_stream_breaks_no_capture,
);

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn upload(setup: &Setup, elements: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, elements).unwrap()
}

fn captured(stream: &Stream, record: impl FnOnce() -> CudaResult<()>) -> GraphExec {
    stream.capture(CaptureMode::ThreadLocal, |_| record()).unwrap().instantiate().unwrap()
}

fn copies_and_fills_become_nodes(setup: &Setup) {
    let stream = setup.stream();
    let source = upload(setup, &[1, 2, 3, 4, 5, 6]);
    let mut target = upload(setup, &[0; 6]);
    let mut small = DeviceBuffer::<u16>::zeroed(&setup.context, 2).unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |_| {
            target.copy_from(&source, &stream)?;
            target.view_mut(4..)?.fill(0xff00_ff00, &stream)?;
            small.fill(0x1234, &stream)?;
            let (to, from) = (Region2d::new(1, 2).pitch(2), Region2d::new(1, 2).pitch(3).offset(2));
            target.copy_2d_from(to, &source, from, &stream)?;
            target.fill_2d(9, Region2d::new(1, 2).pitch(2).offset(1), &stream)
        })
        .unwrap();
    assert_eq!(target.to_vec(&stream).unwrap(), [0; 6]);

    let mut plan = StreamCapture::begin();
    plan.record_copy(CopyDirection::DeviceToDevice, 24).unwrap();
    plan.record_fill(8, 0xff00_ff00, 4).unwrap();
    plan.record_fill(4, 0x1234, 2).unwrap();
    plan.record_copy(CopyDirection::DeviceToDevice, 8).unwrap();
    plan.record_fill(8, 9, 4).unwrap();
    assert_eq!(graph.topology().unwrap(), plan.end());

    let exec = graph.instantiate().unwrap();
    for _ in 0..2 {
        target.fill(7, &stream).unwrap();
        exec.launch(&stream).unwrap();
        let expected = [3, 9, 6, 9, 0xff00_ff00, 0xff00_ff00];
        assert_eq!(target.to_vec(&stream).unwrap(), expected);
        assert_eq!(small.to_vec(&stream).unwrap(), [0x1234; 2]);
    }
}

fn a_staged_copy_is_as_it_was_at_the_capture(setup: &Setup) {
    let stream = setup.stream();
    let mut target = upload(setup, &[0; 3]);
    let mut host = vec![1, 2, 3];
    let exec = captured(&stream, || target.copy_from_host_staged(&host, &stream));
    assert_eq!(exec.node_count(), 1);
    host.fill(99);
    drop(host);
    for _ in 0..2 {
        exec.launch(&stream).unwrap();
        assert_eq!(target.to_vec(&stream).unwrap(), [1, 2, 3]);
        target.fill(0, &stream).unwrap();
    }
}

fn copies_that_borrow_host_memory_are_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut source = upload(setup, &[4]);
    let mut empty = upload(setup, &[]);
    let mut host = [7];
    let text = "stream: it is capturing, and each launch of the graph would write to host memory \
                that is only borrowed now: copy to a `PinnedBuffer`, or after the capture has ended";
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        assert_eq!(refusal(source.copy_to_host(&mut host, &stream)), text);
        assert_eq!(refusal(source.to_vec(&stream)), text);
        assert_eq!(refusal(empty.to_vec(&stream)), text);
        let text = "stream: it is capturing, and each launch of the graph would read host memory \
                    that is only borrowed now: use `copy_from_host_staged` for these elements at \
                    every launch, or copy from a `PinnedBuffer`";
        assert_eq!(refusal(source.copy_from_host(&[5], &stream)), text);
        assert_eq!(refusal(empty.copy_from_host(&[], &stream)), text);
        assert_eq!(
            refusal(source.copy_from_host(&[5, 6], &stream)).split(':').next(),
            Some("copy.len")
        );
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
    assert_eq!(host, [7]);
    assert_eq!(source.to_vec(&stream).unwrap(), [4]);
}

fn what_a_graph_uses_outlives_its_buffers(setup: &Setup) {
    let stream = setup.stream();
    let mut output = upload(setup, &[0; 4]);
    let exec = {
        let source = upload(setup, &[1, 2, 3, 4]);
        let mut between = upload(setup, &[0; 4]);
        captured(&stream, || {
            between.copy_from(&source, &stream)?;
            between.view_mut(..1)?.fill(8, &stream)?;
            output.copy_from(&between, &stream)
        })
    };
    // What would take the place of memory that was freed.
    let _others: Vec<_> = (0..8).map(|_| upload(setup, &[0; 4])).collect();
    for _ in 0..2 {
        exec.launch(&stream).unwrap();
        assert_eq!(output.to_vec(&stream).unwrap(), [8, 2, 3, 4]);
        output.fill(0, &stream).unwrap();
    }
    drop(exec);
    setup.driver.reclaim();
    setup.assert_usable(&stream);
}

fn a_refused_operation_leaves_the_capture_valid(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = upload(setup, &[1, 2]);
    let other = upload(setup, &[0; 3]);
    let mut wide = DeviceBuffer::<f64>::zeroed(&setup.context, 1).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 3).unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| {
        let region = Region2d::new(3, 1);
        refusal(buffer.copy_from(&other, &stream));
        refusal(buffer.copy_from_host_staged(&[1], &stream));
        refusal(buffer.copy_from_pinned(&pinned, &stream));
        refusal(buffer.copy_to_pinned(&mut pinned, &stream));
        refusal(buffer.copy_2d_from(region, &other, region, &stream));
        refusal(buffer.fill_2d(0, region, &stream));
        refusal(wide.fill(1.5, &stream));
        refusal(DeviceBuffer::<u32>::alloc_async(&stream, 1));
        buffer.fill(5, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 1);
    let fill = OperationSpec::Fill { bytes: 8, value: 5, element_bytes: 4 };
    assert_eq!(graph.topology().unwrap().nodes()[0].operation(), &fill);
}

/// Makes and drops memory of every kind.
fn make_and_drop(setup: &Setup) {
    let stream = setup.stream();
    drop(DeviceBuffer::<u32>::alloc(&setup.context, 100).unwrap());
    drop(DeviceBuffer::<u32>::zeroed(&setup.context, 100).unwrap());
    drop(upload(setup, &[1, 2, 3]));
    drop(PinnedBuffer::<u32>::zeroed(&setup.context, 100).unwrap());
    let mut pinned = PinnedBuffer::from_slice(&setup.context, &[1, 2, 3]).unwrap();
    let mut ordered = DeviceBuffer::<u32>::alloc_async(&stream, 3).unwrap();
    ordered.copy_from_pinned(&pinned, &stream).unwrap();
    ordered.copy_to_pinned(&mut pinned, &stream).unwrap();
    assert_eq!(*pinned.read().unwrap(), [1, 2, 3]);
    assert_eq!(ordered.to_vec(&stream).unwrap(), [1, 2, 3]);
}

fn making_and_dropping_breaks_no_capture(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let mut kept = upload(setup, &[0]);
        let mut dropped = Some(upload(setup, &[41]));
        let graph = stream.capture(mode, |_| {
            make_and_drop(setup);
            kept.copy_from(dropped.as_ref().unwrap(), &stream)?;
            // The graph has a share in it.
            dropped = None;
            make_and_drop(setup);
            setup.add(&mut kept, 1, &stream)
        });
        let graph = graph.unwrap();
        assert_eq!(graph.node_count().unwrap(), 2, "{mode:?}");
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(kept.to_vec(&stream).unwrap(), [42], "{mode:?}");
    }
}

fn other_threads_may_make_and_drop(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let mut word = upload(setup, &[1]);
        let graph = stream.capture(mode, |_| {
            std::thread::scope(|scope| {
                scope.spawn(|| make_and_drop(setup)).join().unwrap();
            });
            setup.add(&mut word, 1, &stream)
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 1, "{mode:?}");
    }
}

fn a_blocking_copy_on_another_stream_breaks_no_capture(setup: &Setup) {
    for mode in MODES {
        let (stream, other) = (setup.stream(), setup.stream());
        let mut word = upload(setup, &[1]);
        let mut outside = upload(setup, &[0]);
        let graph = stream.capture(mode, |_| {
            outside.copy_from_host(&[6], &other)?;
            assert_eq!(outside.to_vec(&other)?, [6]);
            setup.add(&mut word, 1, &stream)
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 1, "{mode:?}");
        assert_eq!(outside.to_vec(&other).unwrap(), [6]);
    }
}
