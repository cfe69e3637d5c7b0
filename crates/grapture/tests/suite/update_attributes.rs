//! Launch attributes of kernels, which an update of an executable passes over in silence.

use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CudaError, DeviceBuffer, Graph, GraphExec, KernelAttribute, Outcome, Stream,
    UpdateOptions, UpdateReason,
};

both_tiers! {
    another_cluster_is_made_anew,
    a_strict_update_names_the_kernel_of_another_cluster,
    attributes_of_a_graph_that_is_kept_are_read_when_need_be,
    an_attribute_that_is_set_in_the_graph_is_made_anew,
    attributes_of_embedded_graphs_count,
    the_same_attributes_on_other_nodes_are_made_anew,
    plain_kernels_are_updated_whoever_has_a_handle,
    a_kernel_compiled_for_clusters_is_replaced_anew,
}

/// Adds to a word by every block of four, in clusters.
fn clustered(
    setup: &Setup,
    stream: &Stream,
    word: &mut DeviceBuffer<u32>,
    (cluster, value): (Option<u32>, u32),
) -> Graph {
    let add = setup.module.kernel("add").unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
        let launch = add.launch_builder(4, 1).arg_mut(word).value(value);
        let launch = match cluster {
            Some(cluster) => launch.cluster(cluster),
            None => launch,
        };
        // SAFETY: `add` takes the address of a word and a value; nobody reads the sum.
        unsafe { launch.launch(stream) }
    });
    graph.unwrap()
}

fn reason(exec: &mut GraphExec, graph: &Graph) -> Option<UpdateReason> {
    match exec.update(graph).unwrap() {
        Outcome::Rebuilt { reason, .. } => Some(reason),
        _ => None,
    }
}

fn another_cluster_is_made_anew(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut exec = clustered(setup, &stream, &mut word, (None, 1)).instantiate().unwrap();
    for (cluster, value, anew) in [
        (None, 2, false),
        (Some(2), 2, true),
        (Some(2), 3, false),
        (Some(4), 3, true),
        (Some(2), 4, true),
        (None, 4, true),
        (None, 5, false),
    ] {
        let graph = clustered(setup, &stream, &mut word, (cluster, value));
        let expected = anew.then_some(UpdateReason::AttributesChanged);
        assert_eq!(reason(&mut exec, &graph), expected, "{cluster:?} {value}");
        exec.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
}

fn a_strict_update_names_the_kernel_of_another_cluster(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut exec = clustered(setup, &stream, &mut word, (Some(2), 1)).instantiate().unwrap();
    let other = clustered(setup, &stream, &mut word, (Some(4), 1));
    let error = exec.update_with(&other, UpdateOptions::new().strict(true)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the executable graph could not be updated: the executable graph cannot be updated this \
         way (CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910); a kernel has other launch attributes; at \
         fault is node 0 of the graph, a kernel `add`; it is as it was: instantiate the graph, or \
         update without `strict`"
    );
    let CudaError::Update(error) = error else { panic!("{error:?}") };
    assert_eq!(error.node(), Some(other.nodes().unwrap()[0].id()));
}

fn attributes_of_a_graph_that_is_kept_are_read_when_need_be(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut kept =
        |cluster| clustered(setup, &stream, &mut word, (cluster, 1)).into_exec().unwrap();
    let (mut plain, mut pair) = (kept(None), kept(Some(2)));
    let mut graph = |cluster| clustered(setup, &stream, &mut word, (cluster, 2));
    let changed = Some(UpdateReason::AttributesChanged);
    assert_eq!(reason(&mut plain, &graph(None)), None);
    assert_eq!(reason(&mut plain, &graph(Some(2))), changed);
    assert!(plain.graph().is_none());
    assert_eq!(reason(&mut plain, &graph(Some(2))), None);
    assert_eq!(reason(&mut pair, &graph(Some(2))), None);
    assert_eq!(reason(&mut pair, &graph(Some(4))), changed);
}

fn an_attribute_that_is_set_in_the_graph_is_made_anew(setup: &Setup) {
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(4, 1).arg_mut(&mut word).value(1u32);
    // SAFETY: `add` takes the address of a word and a value.
    let node = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
    let mut exec = graph.instantiate().unwrap();
    let cluster = KernelAttribute::Cluster(grapture::Dim3::x(2));
    graph.node_mut(node).unwrap().set_attribute(cluster).unwrap();
    assert_eq!(reason(&mut exec, &graph), Some(UpdateReason::AttributesChanged));
    let launch = add.launch_builder(4, 1).arg_mut(&mut word).value(2u32);
    // SAFETY: as above.
    unsafe { graph.node_mut(node).unwrap().set_kernel(launch) }.unwrap();
    assert_eq!(reason(&mut exec, &graph), None);
}

fn attributes_of_embedded_graphs_count(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut holder = |cluster, value| {
        let child = clustered(setup, &stream, &mut word, (cluster, value));
        let mut graph = Graph::new(&setup.context).unwrap();
        graph.add_child(&child, &[]).unwrap();
        graph
    };
    let mut exec = holder(Some(2), 1).instantiate().unwrap();
    assert_eq!(reason(&mut exec, &holder(Some(2), 2)), None);
    let changed = Some(UpdateReason::AttributesChanged);
    assert_eq!(reason(&mut exec, &holder(Some(4), 2)), changed);
    assert_eq!(reason(&mut exec, &holder(None, 2)), changed);
}

fn the_same_attributes_on_other_nodes_are_made_anew(setup: &Setup) {
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let mut pair = |clusters: [u32; 2], joined: [usize; 2]| {
        let mut graph = Graph::new(&setup.context).unwrap();
        let nodes = clusters.map(|cluster| {
            let launch = add.launch_builder(4, 1).arg_mut(&mut word).value(1u32).cluster(cluster);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { graph.add_kernel(launch, &[]) }.unwrap()
        });
        graph.add_empty(&joined.map(|index| nodes[index])).unwrap();
        graph
    };
    let mut exec = pair([2, 4], [0, 1]).instantiate().unwrap();
    assert_eq!(reason(&mut exec, &pair([2, 4], [0, 1])), None);
    let changed = Some(UpdateReason::AttributesChanged);
    assert_eq!(reason(&mut exec, &pair([4, 2], [0, 1])), changed);
    // The driver pairs them crosswise, by the order of the dependencies.
    assert_eq!(reason(&mut exec, &pair([4, 2], [1, 0])), changed);
}

fn plain_kernels_are_updated_whoever_has_a_handle(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut exec = clustered(setup, &stream, &mut word, (None, 1)).instantiate().unwrap();
    let _ = stream.as_raw();
    let graph = clustered(setup, &stream, &mut word, (None, 2));
    assert_eq!(reason(&mut exec, &graph), None, "what has no attribute is known as such");
    let mut exec = graph.instantiate().unwrap();
    assert_eq!(reason(&mut exec, &clustered(setup, &stream, &mut word, (None, 3))), None);
}

fn a_kernel_compiled_for_clusters_is_replaced_anew(setup: &Setup) {
    const PTX: &str = "\
.version 7.8
.target sm_90
.address_size 64
.visible .entry pair() .reqnctapercluster 2 { ret; }
.visible .entry plain() { ret; }
";
    let stream = setup.stream();
    let module = setup.context.load_ptx(PTX).unwrap();
    let kernels = ["pair", "plain"].map(|name| module.kernel(name).unwrap());
    let capture = |index: usize| {
        let launch = kernels[index].launch_builder(4, 1);
        // SAFETY: the kernels do nothing.
        stream.capture(CaptureMode::ThreadLocal, |_| unsafe { launch.launch(&stream) }).unwrap()
    };
    let mut exec = capture(0).instantiate().unwrap();
    assert_eq!(reason(&mut exec, &capture(0)), None);
    let changed = Some(UpdateReason::AttributesChanged);
    assert_eq!(reason(&mut exec, &capture(1)), changed);
    assert_eq!(reason(&mut exec, &capture(0)), changed);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

/// The simulated driver runs no kernel that asks for its cluster.
#[test]
fn gpu_the_cluster_is_that_of_the_new_graph() {
    const PTX: &str = "\
.version 7.8
.target sm_90
.address_size 64
.visible .entry see(.param .u64 p){
 .reg .b64 %a; .reg .b32 %r;
 ld.param.u64 %a,[p]; mov.u32 %r,%cluster_nctaid.x; st.global.u32 [%a],%r; ret;}
";
    let setup = Setup::real();
    let stream = setup.stream();
    let see = setup.context.load_ptx(PTX).unwrap().kernel("see").unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut capture = |cluster: u32, grid: u32| {
        let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
            let launch = see.launch_builder(grid, 1).arg_mut(&mut word);
            let launch = if cluster > 0 { launch.cluster(cluster) } else { launch };
            // SAFETY: `see` takes the address of a word.
            unsafe { launch.launch(&stream) }
        });
        graph.unwrap()
    };
    let graphs = [(2, 8), (4, 8), (0, 8), (0, 16), (2, 16), (0, 6)]
        .map(|(cluster, grid)| (cluster, capture(cluster, grid)));
    let mut exec = graphs[0].1.instantiate().unwrap();
    for (cluster, graph) in &graphs {
        exec.update(graph).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(word.to_vec(&stream).unwrap(), [(*cluster).max(1)]);
    }
}
