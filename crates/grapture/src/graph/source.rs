//! [`Source`]: the graph that an executable was made of and keeps; [`Captured`]: what a graph is
//! made of.

use std::cell::{Cell, OnceCell};
use std::mem;
use std::ptr;

use grapture_sys::CUgraph;

use crate::capture::Recorded;
use crate::context::Context;
use crate::drop_error::report;
use crate::error::check;
use crate::graph::{Graph, GraphKey};
use crate::retain::Share;

/// What there is to a graph in which nothing was changed: a capture gives it, or it is new.
pub(crate) struct Captured {
    pub(super) context: Context,
    pub(super) raw: CUgraph,
    pub(super) key: GraphKey,
    /// What the nodes use.
    pub(super) share: Share,
    pub(super) recorded: Recorded,
}

impl Captured {
    /// # Safety
    ///
    /// `raw` is a live graph that nobody else uses or destroys, and `share` is what its nodes use.
    /// Who gets this makes a [`Graph`] or a [`Source`] of it, which destroys it.
    #[inline]
    pub(crate) unsafe fn new(
        context: Context,
        raw: CUgraph,
        key: GraphKey,
        share: Share,
        recorded: Recorded,
    ) -> Captured {
        Captured { context, raw, key, share, recorded }
    }
}

/// The graph that an executable was made of, where nobody else has it.
///
/// What both need, the context and the share, is the executable's alone until somebody asks for
/// the graph: to count one more would cost an atomic exchange, which waits for all that the driver
/// has written in the instantiation.
pub(super) struct Source {
    /// The driver's graph, until it is in `graph`; else null.
    raw: Cell<CUgraph>,
    /// What the capture recorded that made it, until then.
    recorded: Cell<Recorded>,
    graph: OnceCell<Box<Graph>>,
}

impl Source {
    pub(super) fn none() -> Source {
        // SAFETY: there is no graph.
        unsafe { Source::captured(ptr::null_mut(), Recorded::default()) }
    }

    /// # Safety
    ///
    /// `raw` is null, or a live graph that nobody else uses or destroys: its nodes are those of the
    /// executable's key, and use the executable's share.
    #[inline]
    pub(super) unsafe fn captured(raw: CUgraph, recorded: Recorded) -> Source {
        Source { raw: Cell::new(raw), recorded: Cell::new(recorded), graph: OnceCell::new() }
    }

    pub(super) fn of(graph: Graph) -> Source {
        Source { graph: OnceCell::from(Box::new(graph)), ..Source::none() }
    }

    /// The graph, for an executable with this context and key and, unless somebody has asked
    /// before, this share.
    pub(super) fn get(&self, context: &Context, key: GraphKey, share: &Share) -> Option<&Graph> {
        let raw = self.raw.replace(ptr::null_mut());
        if raw.is_null() {
            return self.graph.get().map(|graph| &**graph);
        }
        let (context, share) = (context.clone(), share.clone());
        let recorded = self.recorded.take();
        let graph = Graph::from(Captured { context, raw, key, share, recorded });
        Some(self.graph.get_or_init(|| Box::new(graph)))
    }

    pub(super) fn take(&mut self) -> Source {
        mem::replace(self, Source::none())
    }

    /// Destroys the graph, which is one of the context, before what its nodes use goes.
    pub(super) fn end(&mut self, context: &Context) {
        drop(self.graph.take());
        let raw = self.raw.replace(ptr::null_mut());
        if !raw.is_null() {
            // SAFETY: as `captured` was promised, and the last use. The rest is as in the drop of
            // a `Graph`.
            let code = context.driver().relaxed(|f| unsafe { (f.cuGraphDestroy)(raw) });
            report("cuGraphDestroy", check(code));
        }
    }
}
