//! [`Feature`]: what a driver can do only from some version on.

use std::fmt;

use grapture_sys::Function;

use crate::driver::{Driver, DriverVersion};

macro_rules! features {
    ($($(#[doc = $doc:literal])* $feature:ident = $text:literal @ ($major:literal, $minor:literal) [$($function:ident),+];)*) => {
        /// What a driver can do only from some version on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Feature {
            $($(#[doc = $doc])* $feature,)*
        }

        impl Feature {
            /// All of them, the oldest first.
            pub const ALL: &[Feature] = &[$(Feature::$feature),*];

            /// The driver version that brought it.
            pub const fn since(self) -> DriverVersion {
                match self {
                    $(Feature::$feature => DriverVersion::new($major, $minor),)*
                }
            }

            /// The driver's functions that it needs.
            pub const fn functions(self) -> &'static [Function] {
                match self {
                    $(Feature::$feature => &[$(Function::$function),+],)*
                }
            }
        }

        impl fmt::Display for Feature {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Feature::$feature => $text,)*
                })
            }
        }
    };
}

features! {
    /// Streams can be captured into graphs, and graphs launched.
    StreamCapture = "stream capture" @ (10, 0)
        [cuStreamBeginCapture, cuStreamEndCapture, cuStreamIsCapturing, cuGraphLaunch];
    /// Functions of the host in the order of a stream.
    HostFunctions = "host functions" @ (10, 0) [cuLaunchHostFunc];
    /// Capture modes, and the number of a capture.
    CaptureModes = "capture modes" @ (10, 1)
        [cuStreamBeginCapture_v2, cuThreadExchangeStreamCaptureMode, cuStreamGetCaptureInfo];
    /// An executable graph can be updated from a graph of the same form.
    GraphExecUpdate = "update of an executable graph" @ (10, 2) [cuGraphExecUpdate];
    /// An executable graph can be uploaded before its first launch.
    GraphUpload = "graph upload" @ (11, 1) [cuGraphUpload];
    /// Nodes that record an event, or wait for one, at every launch.
    EventNodes = "event nodes in a capture" @ (11, 1) [cuEventRecordWithFlags];
    /// Memory that is allocated in the order of a stream.
    StreamOrderedMemory = "stream-ordered memory" @ (11, 2) [cuMemAllocAsync, cuMemFreeAsync];
    /// Graphs own what their nodes use, in the driver.
    UserObjects = "user objects" @ (11, 3) [cuUserObjectCreate, cuGraphRetainUserObject];
    /// The driver writes graphs in the language of Graphviz.
    DebugDot = "DOT dump by the driver" @ (11, 3) [cuGraphDebugDotPrint];
    /// The dependencies of a capturing stream can be read and set.
    CaptureDependencies = "dependencies of a capture" @ (11, 3)
        [cuStreamGetCaptureInfo_v2, cuStreamUpdateCaptureDependencies];
    /// Graphs that allocate and free memory.
    GraphMemoryNodes = "memory nodes" @ (11, 4) [cuGraphAddMemAllocNode, cuGraphAddMemFreeNode];
    /// Flags of the instantiation.
    InstantiateFlags = "instantiation flags" @ (11, 4) [cuGraphInstantiateWithFlags];
    /// Nodes of an executable graph can be turned off and on.
    NodeEnable = "turning nodes off" @ (11, 6) [cuGraphNodeSetEnabled];
    /// Launches with attributes: clusters, programmatic serialization.
    LaunchAttributes = "launch attributes" @ (11, 6) [cuLaunchKernelEx];
    /// The instantiation says why it failed, and at which node.
    InstantiateParams = "reason of a failed instantiation" @ (12, 0)
        [cuGraphInstantiateWithParams, cuGraphExecUpdate_v2];
    /// Dependencies carry data, such as being programmatic.
    EdgeData = "edge data" @ (12, 3) [cuGraphGetEdges_v2, cuStreamGetCaptureInfo_v3];
    /// Nodes that run a graph if, or as long as, a value is set.
    Conditionals = "conditional nodes" @ (12, 3) [cuGraphConditionalHandleCreate, cuGraphAddNode_v2];
    /// A stream can be captured into a graph that there is.
    CaptureToGraph = "capture into an existing graph" @ (12, 3) [cuStreamBeginCaptureToGraph];
    /// The driver tells the parameters of a kernel, so that arguments are checked.
    ParamInfo = "kernel parameter layout" @ (12, 4) [cuFuncGetParamInfo];
    /// The driver tells a node's number in its graph.
    GraphIds = "numbers of graphs and nodes" @ (13, 1) [cuGraphGetId, cuGraphNodeGetLocalId];
}

impl Driver {
    /// Whether the driver has a feature: its version is not too old, and it has all functions that
    /// the feature needs. Whether a device can use it is another question.
    pub fn supports(&self, feature: Feature) -> bool {
        self.version() >= feature.since()
            && feature.functions().iter().all(|function| self.has(*function))
    }
}

#[cfg(test)]
mod tests {
    use super::Feature;

    #[test]
    fn a_feature_is_as_old_as_the_newest_function_that_it_needs() {
        for feature in Feature::ALL {
            let newest = feature.functions().iter().map(|function| function.info().since).max();
            assert_eq!(newest, Some(feature.since().number()), "{feature}");
        }
    }

    #[test]
    fn the_oldest_come_first() {
        assert!(Feature::ALL.windows(2).all(|pair| pair[0].since() <= pair[1].since()));
    }
}
