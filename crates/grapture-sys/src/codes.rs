//! The driver's error codes, with names and one sentence each of our own, so that a message can be
//! written when no driver is there to ask and when the driver is older than the code.

use crate::bindings::CUresult;

/// Calls the macro `$callback` with every error code: `Variant = number C_NAME "what it means";`
#[macro_export]
macro_rules! error_codes {
    ($callback:path) => {
        $callback! {
            InvalidValue = 1 CUDA_ERROR_INVALID_VALUE "an argument is null, out of range or not valid here";
            OutOfMemory = 2 CUDA_ERROR_OUT_OF_MEMORY "not enough memory for the request";
            NotInitialized = 3 CUDA_ERROR_NOT_INITIALIZED "the driver is not loaded or not initialized";
            Deinitialized = 4 CUDA_ERROR_DEINITIALIZED "the driver is shutting down";
            ProfilerDisabled = 5 CUDA_ERROR_PROFILER_DISABLED "the profiler is not enabled for this run";
            ProfilerNotInitialized = 6 CUDA_ERROR_PROFILER_NOT_INITIALIZED "the profiler was not initialized";
            ProfilerAlreadyStarted = 7 CUDA_ERROR_PROFILER_ALREADY_STARTED "the profiler is already started";
            ProfilerAlreadyStopped = 8 CUDA_ERROR_PROFILER_ALREADY_STOPPED "the profiler is already stopped";
            StubLibrary = 34 CUDA_ERROR_STUB_LIBRARY "the library that was loaded is a stub of the driver";
            CallRequiresNewerDriver = 36 CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER "the call needs a newer or different driver";
            DeviceUnavailable = 46 CUDA_ERROR_DEVICE_UNAVAILABLE "the device cannot be used at present";
            MulticastResourceFull = 47 CUDA_ERROR_MULTICAST_RESOURCE_FULL "the device has no room for another multicast object";
            NoDevice = 100 CUDA_ERROR_NO_DEVICE "no CUDA device was found";
            InvalidDevice = 101 CUDA_ERROR_INVALID_DEVICE "no device has this ordinal";
            DeviceNotLicensed = 102 CUDA_ERROR_DEVICE_NOT_LICENSED "the device has no valid licence";
            InvalidImage = 200 CUDA_ERROR_INVALID_IMAGE "the image is not a valid module";
            InvalidContext = 201 CUDA_ERROR_INVALID_CONTEXT "no valid context is current on this thread";
            ContextAlreadyCurrent = 202 CUDA_ERROR_CONTEXT_ALREADY_CURRENT "the context is already current";
            MapFailed = 205 CUDA_ERROR_MAP_FAILED "the resource could not be mapped";
            UnmapFailed = 206 CUDA_ERROR_UNMAP_FAILED "the resource could not be unmapped";
            ArrayIsMapped = 207 CUDA_ERROR_ARRAY_IS_MAPPED "the array is mapped";
            AlreadyMapped = 208 CUDA_ERROR_ALREADY_MAPPED "the resource is already mapped";
            NoBinaryForGpu = 209 CUDA_ERROR_NO_BINARY_FOR_GPU "the module has no code for this device";
            AlreadyAcquired = 210 CUDA_ERROR_ALREADY_ACQUIRED "the resource was already acquired";
            NotMapped = 211 CUDA_ERROR_NOT_MAPPED "the resource is not mapped";
            NotMappedAsArray = 212 CUDA_ERROR_NOT_MAPPED_AS_ARRAY "the resource is not mapped as an array";
            NotMappedAsPointer = 213 CUDA_ERROR_NOT_MAPPED_AS_POINTER "the resource is not mapped as a pointer";
            EccUncorrectable = 214 CUDA_ERROR_ECC_UNCORRECTABLE "an uncorrectable memory (ECC) error happened";
            UnsupportedLimit = 215 CUDA_ERROR_UNSUPPORTED_LIMIT "the device does not have this limit";
            ContextAlreadyInUse = 216 CUDA_ERROR_CONTEXT_ALREADY_IN_USE "the context is already in use by another thread";
            PeerAccessUnsupported = 217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "the devices cannot access each other's memory";
            InvalidPtx = 218 CUDA_ERROR_INVALID_PTX "the PTX could not be compiled";
            InvalidGraphicsContext = 219 CUDA_ERROR_INVALID_GRAPHICS_CONTEXT "the graphics context is not valid";
            NvlinkUncorrectable = 220 CUDA_ERROR_NVLINK_UNCORRECTABLE "an uncorrectable NVLink error happened";
            JitCompilerNotFound = 221 CUDA_ERROR_JIT_COMPILER_NOT_FOUND "the JIT compiler library was not found";
            UnsupportedPtxVersion = 222 CUDA_ERROR_UNSUPPORTED_PTX_VERSION "the PTX is of a version that the driver does not know";
            JitCompilationDisabled = 223 CUDA_ERROR_JIT_COMPILATION_DISABLED "JIT compilation is disabled";
            UnsupportedExecAffinity = 224 CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY "the execution affinity is not supported";
            UnsupportedDevsideSync = 225 CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC "the code calls a device-side synchronization that is not supported";
            Contained = 226 CUDA_ERROR_CONTAINED "a contained memory fault happened";
            InsufficientLoaderVersion = 227 CUDA_ERROR_INSUFFICIENT_LOADER_VERSION "the loader of the module is too old for it";
            InvalidSource = 300 CUDA_ERROR_INVALID_SOURCE "the device kernel source is not valid";
            FileNotFound = 301 CUDA_ERROR_FILE_NOT_FOUND "the file was not found";
            SharedObjectSymbolNotFound = 302 CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND "a shared object did not resolve";
            SharedObjectInitFailed = 303 CUDA_ERROR_SHARED_OBJECT_INIT_FAILED "a shared object could not be initialized";
            OperatingSystem = 304 CUDA_ERROR_OPERATING_SYSTEM "a call of the operating system failed";
            InvalidHandle = 400 CUDA_ERROR_INVALID_HANDLE "a handle is not valid here";
            IllegalState = 401 CUDA_ERROR_ILLEGAL_STATE "the object is not in the state that the call needs";
            LossyQuery = 402 CUDA_ERROR_LOSSY_QUERY "the query would lose information: ask with edge data";
            NotFound = 500 CUDA_ERROR_NOT_FOUND "the name was not found";
            NotReady = 600 CUDA_ERROR_NOT_READY "the work has not finished";
            IllegalAddress = 700 CUDA_ERROR_ILLEGAL_ADDRESS "a kernel accessed an address that is not valid";
            LaunchOutOfResources = 701 CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES "the launch needs more resources than the device has";
            LaunchTimeout = 702 CUDA_ERROR_LAUNCH_TIMEOUT "the kernel ran longer than allowed";
            LaunchIncompatibleTexturing = 703 CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING "the launch uses an incompatible texturing mode";
            PeerAccessAlreadyEnabled = 704 CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED "peer access is already enabled";
            PeerAccessNotEnabled = 705 CUDA_ERROR_PEER_ACCESS_NOT_ENABLED "peer access is not enabled";
            PrimaryContextActive = 708 CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE "the primary context is already in use";
            ContextIsDestroyed = 709 CUDA_ERROR_CONTEXT_IS_DESTROYED "the context is destroyed";
            Assert = 710 CUDA_ERROR_ASSERT "a device-side assertion failed";
            TooManyPeers = 711 CUDA_ERROR_TOO_MANY_PEERS "no more peers can be enabled";
            HostMemoryAlreadyRegistered = 712 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED "the host memory is already registered";
            HostMemoryNotRegistered = 713 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED "the host memory is not registered";
            HardwareStackError = 714 CUDA_ERROR_HARDWARE_STACK_ERROR "a kernel had a hardware stack error";
            IllegalInstruction = 715 CUDA_ERROR_ILLEGAL_INSTRUCTION "a kernel executed an illegal instruction";
            MisalignedAddress = 716 CUDA_ERROR_MISALIGNED_ADDRESS "a kernel accessed a misaligned address";
            InvalidAddressSpace = 717 CUDA_ERROR_INVALID_ADDRESS_SPACE "a kernel used an address in the wrong address space";
            InvalidPc = 718 CUDA_ERROR_INVALID_PC "a kernel jumped to an invalid program counter";
            LaunchFailed = 719 CUDA_ERROR_LAUNCH_FAILED "a kernel failed";
            CooperativeLaunchTooLarge = 720 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE "the cooperative launch has more blocks than can be resident";
            TensorMemoryLeak = 721 CUDA_ERROR_TENSOR_MEMORY_LEAK "tensor memory leaked from a kernel";
            NotPermitted = 800 CUDA_ERROR_NOT_PERMITTED "the operation is not permitted";
            NotSupported = 801 CUDA_ERROR_NOT_SUPPORTED "the operation is not supported by this driver or device";
            SystemNotReady = 802 CUDA_ERROR_SYSTEM_NOT_READY "the system is not ready for CUDA";
            SystemDriverMismatch = 803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH "the kernel-mode and user-mode drivers do not match";
            CompatNotSupportedOnDevice = 804 CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE "the compatibility driver does not support this device";
            MpsConnectionFailed = 805 CUDA_ERROR_MPS_CONNECTION_FAILED "the MPS client could not connect";
            MpsRpcFailure = 806 CUDA_ERROR_MPS_RPC_FAILURE "the MPS remote procedure call failed";
            MpsServerNotReady = 807 CUDA_ERROR_MPS_SERVER_NOT_READY "the MPS server is not ready";
            MpsMaxClientsReached = 808 CUDA_ERROR_MPS_MAX_CLIENTS_REACHED "the MPS server has no room for another client";
            MpsMaxConnectionsReached = 809 CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED "the MPS server has no room for another connection";
            MpsClientTerminated = 810 CUDA_ERROR_MPS_CLIENT_TERMINATED "the MPS client was terminated";
            CdpNotSupported = 811 CUDA_ERROR_CDP_NOT_SUPPORTED "the operation would nest CUDA dynamic parallelism unsupportedly";
            CdpVersionMismatch = 812 CUDA_ERROR_CDP_VERSION_MISMATCH "MPS does not support the operation";
            StreamCaptureUnsupported = 900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "the operation is not permitted while a stream is capturing";
            StreamCaptureInvalidated = 901 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED "the capture was invalidated by an earlier error";
            StreamCaptureMerge = 902 CUDA_ERROR_STREAM_CAPTURE_MERGE "the operation would merge two captures";
            StreamCaptureUnmatched = 903 CUDA_ERROR_STREAM_CAPTURE_UNMATCHED "the capture was not begun on this stream";
            StreamCaptureUnjoined = 904 CUDA_ERROR_STREAM_CAPTURE_UNJOINED "the capture has a forked stream that was not joined";
            StreamCaptureIsolation = 905 CUDA_ERROR_STREAM_CAPTURE_ISOLATION "the operation would depend on work outside the capture";
            StreamCaptureImplicit = 906 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT "the legacy stream cannot depend on a capturing stream";
            CapturedEvent = 907 CUDA_ERROR_CAPTURED_EVENT "the event was last recorded in a capture";
            StreamCaptureWrongThread = 908 CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD "the capture was begun on another thread";
            Timeout = 909 CUDA_ERROR_TIMEOUT "the wait timed out";
            GraphExecUpdateFailure = 910 CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE "the executable graph cannot be updated this way";
            ExternalDevice = 911 CUDA_ERROR_EXTERNAL_DEVICE "an external device failed";
            InvalidClusterSize = 912 CUDA_ERROR_INVALID_CLUSTER_SIZE "the cluster size is not valid";
            FunctionNotLoaded = 913 CUDA_ERROR_FUNCTION_NOT_LOADED "the function is not loaded";
            InvalidResourceType = 914 CUDA_ERROR_INVALID_RESOURCE_TYPE "the resource type is not valid";
            InvalidResourceConfiguration = 915 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION "the resource configuration is not valid";
            KeyRotation = 916 CUDA_ERROR_KEY_ROTATION "the key is being rotated";
            StreamDetached = 917 CUDA_ERROR_STREAM_DETACHED "the stream is detached from its context";
            GraphRecaptureFailure = 918 CUDA_ERROR_GRAPH_RECAPTURE_FAILURE "the graph cannot be captured again this way";
            FabricNotReady = 919 CUDA_ERROR_FABRIC_NOT_READY "the fabric is not ready";
            UnknownError = 999 CUDA_ERROR_UNKNOWN "an unknown error happened";
        }
    };
}

/// What is known of one error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The number.
    pub code: CUresult,
    /// The C name, such as `CUDA_ERROR_INVALID_VALUE`.
    pub name: &'static str,
    /// What it means, in one clause.
    pub meaning: &'static str,
}

macro_rules! list {
    ($($variant:ident = $number:literal $name:ident $meaning:literal;)*) => {
        const CODES: &[ErrorCode] = &[
            $(ErrorCode { code: CUresult($number), name: stringify!($name), meaning: $meaning }),*
        ];
    };
}

error_codes!(list);

/// What is known of `code`; nothing for success and for codes newer than CUDA 13.5.
pub fn error_code(code: CUresult) -> Option<&'static ErrorCode> {
    let index = CODES.binary_search_by_key(&code.0, |entry| entry.code.0).ok()?;
    CODES.get(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::*;

    #[test]
    fn codes_are_sorted_and_found() {
        assert!(CODES.windows(2).all(|pair| pair[0].code.0 < pair[1].code.0));
        let found = error_code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED).expect("a known code");
        assert_eq!(found.name, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
        assert_eq!(error_code(CUDA_SUCCESS), None);
        assert_eq!(error_code(CUresult(123_456)), None);
    }
}
