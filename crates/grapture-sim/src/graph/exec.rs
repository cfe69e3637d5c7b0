//! [`Exec`]: an executable graph, from its instantiation to its end.

use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_EXEC_UPDATE_ERROR, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED,
    CUDA_GRAPH_INSTANTIATE_ERROR, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY,
    CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED,
    CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, CUgraphExec_st, CUresult,
};

use super::definition::LocalId;
use super::executable::{ExecGraph, InstantiateError};
use super::params::NodeParams;
use super::store::{ExecId, GraphId, Graphs, NodeRef};
use super::update::{Manner, UpdateError, Version};
use crate::context::ContextCore;
use crate::engine::TaskId;
use crate::handle::{Kind, Object};
use crate::sim::Sim;
use crate::work::ConditionalWords;

/// The flags of an instantiation, checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstantiateFlags(u64);

const AUTO_FREE: u64 = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0 as u64;
const UPLOAD: u64 = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0 as u64;
const DEVICE_LAUNCH: u64 = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0 as u64;
const NODE_PRIORITY: u64 = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0 as u64;

impl InstantiateFlags {
    /// The flags with this C value; `params` says that the call can carry an upload stream.
    pub(crate) fn from_raw(raw: u64, params: bool) -> Result<InstantiateFlags, CUresult> {
        let known = AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY | if params { UPLOAD } else { 0 };
        let clash = raw & AUTO_FREE != 0 && raw & DEVICE_LAUNCH != 0;
        if raw & !known != 0 || clash {
            Err(CUDA_ERROR_INVALID_VALUE)
        } else {
            Ok(InstantiateFlags(raw))
        }
    }

    /// The C value as the driver tells it: without the flag that is over with the instantiation,
    /// and without the one for priorities, which it keeps to itself.
    pub(crate) fn to_raw(self) -> u64 {
        self.0 & !(UPLOAD | NODE_PRIORITY)
    }

    /// Whether the instantiation uploads.
    pub(crate) fn upload(self) -> bool {
        self.0 & UPLOAD != 0
    }

    /// Whether a launch frees what the one before left alive.
    pub(crate) fn auto_free(self) -> bool {
        self.0 & AUTO_FREE != 0
    }

    /// Whether kernels run by their priorities.
    fn by_priority(self) -> bool {
        self.0 & NODE_PRIORITY != 0
    }

    fn device_launch(self) -> bool {
        self.0 & DEVICE_LAUNCH != 0
    }
}

/// An executable graph.
#[derive(Debug)]
pub(crate) struct Exec {
    /// What it runs. A launch keeps it as it was.
    pub(crate) graph: Arc<ExecGraph>,
    /// The flags it was made with.
    pub(crate) flags: InstantiateFlags,
    /// Whether its graph can have no other one beside it.
    once: bool,
    /// Whether it was launched or uploaded.
    pub(crate) uploaded: bool,
    /// Its number.
    pub(crate) number: u32,
    /// The last task of its last launch: the next launch waits for it.
    pub(crate) last: Option<TaskId>,
    /// How often it was launched.
    pub(crate) launches: u64,
    /// The context that it was last launched in.
    pub(crate) home: Option<Arc<ContextCore>>,
    /// The values of its conditional handles, which last from launch to launch.
    words: ConditionalWords,
}

impl Object for Exec {
    const KIND: Kind = Kind::Exec;
    type Raw = CUgraphExec_st;
}

impl Exec {
    /// What was made from a graph: all of it, or an embedded part.
    pub(crate) fn part_mut(&mut self, source: GraphId) -> Result<&mut ExecGraph, CUresult> {
        Arc::make_mut(&mut self.graph).find(source)
    }

    fn manner(&self, version: Version) -> Manner {
        let (by_priority, uploaded) = (self.flags.by_priority(), self.uploaded);
        Manner { version, by_priority, uploaded }
    }

    /// The values of the conditional handles, of which there are so many by now.
    pub(crate) fn words(&mut self, count: usize) -> ConditionalWords {
        if self.words.len() < count {
            self.words = self.words.grown(count);
        }
        self.words.clone()
    }

    /// Replaces the parameters of a node, and gives back what they replace: it may be the last to
    /// hold something, so it is dropped when no lock is held.
    pub(crate) fn set_params(
        &mut self,
        node: NodeRef,
        mut params: NodeParams,
    ) -> Result<NodeParams, CUresult> {
        let graph = self.part_mut(node.graph)?;
        let there = graph.def.params_mut(node.local)?;
        super::update::check_change(there, &params).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        if let (NodeParams::Kernel(old), NodeParams::Kernel(new)) = (&*there, &mut params) {
            let work = &mut new.launch.work;
            work.kept_cluster = work.code.required_cluster.or(old.launch.work.cluster());
        }
        Ok(std::mem::replace(there, params))
    }

    /// Puts a graph of the same shape, which does not allocate or free, into a child graph node, and
    /// gives back what it replaces, to be dropped when no lock is held.
    pub(crate) fn set_child(
        &mut self,
        node: NodeRef,
        with: &ExecGraph,
    ) -> Result<ExecGraph, CUresult> {
        let manner = self.manner(Version::Second);
        let graph = self.part_mut(node.graph)?;
        if !matches!(graph.def.node(node.local)?.params, NodeParams::Child(_)) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if with.has_memory_nodes() {
            return Err(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        }
        let child = graph.parts_mut(node.local).first_mut().ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let merged = super::update::merge(child, with, manner)
            .map_err(|_| CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)?;
        Ok(std::mem::replace(child, merged))
    }
}

impl Graphs {
    /// Makes an executable of a graph.
    pub(crate) fn instantiate(
        &mut self,
        sim: &Sim,
        source: GraphId,
        flags: InstantiateFlags,
    ) -> Result<ExecId, InstantiateError> {
        let failed =
            |code| InstantiateError { code, result: CUDA_GRAPH_INSTANTIATE_ERROR, node: None };
        let graph = self.graph(source).map_err(failed)?;
        if graph.embedded_in.is_some() {
            return Err(failed(CUDA_ERROR_NOT_SUPPORTED));
        }
        if self.has_unused_conditional(source).map_err(failed)? {
            let result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
            return Err(InstantiateError { result, ..failed(CUDA_ERROR_INVALID_VALUE) });
        }
        let once = self.exists_once(source).map_err(failed)?;
        let copied = graph.copied && !graph.conditionals.is_empty();
        if (once && graph.single_execs > 0) || copied {
            return Err(failed(CUDA_ERROR_NOT_SUPPORTED));
        }
        self.note_instantiation(source).map_err(failed)?;
        let snapshot = ExecGraph::new(self, source)?;
        snapshot.check_bodies(sim)?;
        if flags.device_launch() {
            check_device_launch(sim, &snapshot)?;
        }
        let number = self.next_number();
        let graph = self.graph_mut(source).map_err(failed)?;
        graph.execs += 1;
        graph.single_execs += u32::from(once);
        let words = ConditionalWords::new(snapshot.handles);
        let graph = Arc::new(snapshot);
        Ok(self.execs.insert(Exec {
            graph,
            flags,
            once,
            uploaded: flags.upload(),
            number,
            last: None,
            launches: 0,
            home: None,
            words,
        }))
    }

    /// Notes of all that a graph allocates that an executable is made of it, or would be if nothing
    /// were wrong with the graph.
    fn note_instantiation(&self, source: GraphId) -> Result<(), CUresult> {
        for (_, node) in self.graph(source)?.def.nodes() {
            if let NodeParams::Alloc(allocation) = &node.params {
                allocation.set_instantiated();
            }
            node.params.embedded().iter().try_for_each(|part| self.note_instantiation(*part))?;
        }
        Ok(())
    }

    /// Refuses an update from a graph of another shape.
    pub(crate) fn check_shape(
        &self,
        exec: ExecId,
        graph: GraphId,
        version: Version,
    ) -> Result<(), UpdateError> {
        let failed = |_| UpdateError { result: CU_GRAPH_EXEC_UPDATE_ERROR, node: None, from: None };
        let old = &self.exec(exec).map_err(failed)?.graph;
        super::update::check_shape(old, self, graph, version)
    }

    /// Refuses an update from a graph that allocates and has an executable of its own.
    pub(crate) fn check_update(&self, exec: ExecId, graph: GraphId) -> Result<(), CUresult> {
        let own = self.exec(exec)?.graph.source == graph;
        let elsewhere = !own && self.graph(graph)?.execs > 0;
        let refused = elsewhere && self.has_memory(graph)?;
        if refused { Err(CUDA_ERROR_NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Gives an executable the parameters of a graph of the same shape, and gives back what they
    /// replace, to be dropped when no lock is held.
    pub(crate) fn update(
        &mut self,
        exec: ExecId,
        graph: GraphId,
        version: Version,
    ) -> Result<Arc<ExecGraph>, UpdateError> {
        let failed = |_| UpdateError { result: CU_GRAPH_EXEC_UPDATE_ERROR, node: None, from: None };
        let this = self.exec(exec).map_err(failed)?;
        let manner = this.manner(version);
        let updated = super::update::updated(&this.graph, self, graph, manner)?;
        let exec = self.exec_mut(exec).map_err(failed)?;
        Ok(std::mem::replace(&mut exec.graph, Arc::new(updated)))
    }

    /// An executable.
    pub(crate) fn exec(&self, id: ExecId) -> Result<&Exec, CUresult> {
        self.execs.get(id).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// As [`exec`](Graphs::exec), to change it.
    pub(crate) fn exec_mut(&mut self, id: ExecId) -> Result<&mut Exec, CUresult> {
        self.execs.get_mut(id).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// The executable that a C handle names.
    pub(crate) fn find_exec(&self, handle: *mut CUgraphExec_st) -> Result<ExecId, CUresult> {
        self.execs.find(handle.addr()).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// Takes an executable out, to be dropped when no lock is held. Launches in flight go on.
    pub(crate) fn remove_exec(&mut self, id: ExecId) -> Result<Exec, CUresult> {
        let exec = self.execs.remove(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // The graph may be gone.
        if let Ok(graph) = self.graph_mut(exec.graph.source) {
            graph.execs = graph.execs.saturating_sub(1);
            graph.single_execs = graph.single_execs.saturating_sub(u32::from(exec.once));
        }
        Ok(exec)
    }
}

/// Refuses graphs that a device cannot launch: kernels of one context, copies of what a device
/// reaches, fills and embedded graphs of these alone, and at least one node.
fn check_device_launch(sim: &Sim, graph: &ExecGraph) -> Result<(), InstantiateError> {
    let refuse = |result, node: Option<LocalId>| InstantiateError {
        code: CUDA_ERROR_INVALID_VALUE,
        result,
        node: node.map(|node| (graph.source, node)),
    };
    if graph.order().is_empty() {
        return Err(refuse(CUDA_GRAPH_INSTANTIATE_ERROR, None));
    }
    let mut context = None;
    for (id, node) in graph.def.nodes() {
        let unsupported = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
        match &node.params {
            NodeParams::Kernel(kernel) => {
                let key = kernel.launch.context.key;
                if *context.get_or_insert(key) != key {
                    let several = CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
                    return Err(refuse(several, Some(id)));
                }
            }
            NodeParams::Copy(copy) if copy.work.is_pageable(sim) => {
                return Err(refuse(unsupported, Some(id)));
            }
            NodeParams::Copy(_) | NodeParams::Fill(_) => {}
            NodeParams::Child(_) => {
                graph.parts(id).iter().try_for_each(|part| check_device_launch(sim, part))?;
            }
            NodeParams::MemOps(_) => return Err(refuse(CUDA_GRAPH_INSTANTIATE_ERROR, None)),
            _ => return Err(refuse(unsupported, Some(id))),
        }
    }
    Ok(())
}
