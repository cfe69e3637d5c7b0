//! Contexts that reach each other's memory.

use std::sync::{Arc, PoisonError};

use grapture_sys::{
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
};

use crate::context::Context;
use crate::error::{CudaError, CudaResult, check};

impl Context {
    /// Lets kernels of this context read and write the memory of `peer`, the context of another
    /// device, as long as both live. Does not block. Where it is so already, by whomever, nothing
    /// is done.
    ///
    /// It goes one way. A launch, or a node of a graph, then takes memory of `peer` as an argument;
    /// copies between contexts need no access, and are the faster for it. Memory that was
    /// allocated in the order of a stream is not reached so.
    ///
    /// ```
    /// # use grapture::*;
    /// # let config = grapture_sim::SimConfig::default().devices(2);
    /// # let driver = Driver::from(grapture_sim::driver(config));
    /// let here = Context::new(&driver.device(0)?)?;
    /// let there = Context::new(&driver.device(1)?)?;
    /// if here.device().can_access_peer(there.device())? {
    ///     here.enable_peer_access(&there)?;
    /// }
    /// assert!(here.has_peer_access(&there) && !there.has_peer_access(&here));
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a context of another driver or of the same device, or a
    /// device that cannot reach the other's memory. As the driver answers.
    #[doc(alias = "cuCtxEnablePeerAccess")]
    pub fn enable_peer_access(&self, peer: &Context) -> CudaResult<()> {
        if !self.driver().same(peer.driver()) {
            return Err(refused("it is of another driver: make both from one `Driver`".into()));
        }
        let enabled = self.enter_relaxed(|functions| {
            // SAFETY: a live context, and this one is current.
            check(unsafe { (functions.cuCtxEnablePeerAccess)(peer.as_raw(), 0) })
        });
        match enabled {
            Ok(()) => {}
            Err(error) if error.code() == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED.0 => {}
            Err(error) if error.code() == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED.0 => {
                return Err(self.no_access(peer));
            }
            Err(error) => return Err(error),
        }
        if !self.has_peer_access(peer) {
            let mut peers = self.captures().peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.retain(|peer| peer.strong_count() > 0);
            peers.push(Arc::downgrade(peer.captures()));
        }
        Ok(())
    }

    /// Whether kernels of this context reach the memory of `peer`, as far as this library has seen
    /// to it.
    pub fn has_peer_access(&self, peer: &Context) -> bool {
        let peers = self.captures().peers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = std::ptr::from_ref(&**peer.captures());
        peers.iter().any(|known| known.strong_count() > 0 && known.as_ptr() == is_it)
    }

    /// Takes the access to the memory of `peer` away. Where there is none, nothing is done.
    ///
    /// # Safety
    ///
    /// No kernel that is in flight or is launched later, also by a graph, reaches memory of `peer`
    /// from this context, and nobody else in the process relies on the access.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuCtxDisablePeerAccess")]
    pub unsafe fn disable_peer_access(&self, peer: &Context) -> CudaResult<()> {
        let is_it = std::ptr::from_ref(&**peer.captures());
        let mut peers = self.captures().peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|known| known.as_ptr() != is_it);
        drop(peers);
        let disabled = self.enter_relaxed(|functions| {
            // SAFETY: a live context, and this one is current; the rest is the caller's promise.
            check(unsafe { (functions.cuCtxDisablePeerAccess)(peer.as_raw()) })
        });
        match disabled {
            Err(error) if error.code() == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED.0 => Ok(()),
            disabled => disabled,
        }
    }

    #[cold]
    fn no_access(&self, peer: &Context) -> CudaError {
        let (from, to) = (self.device().ordinal(), peer.device().ordinal());
        refused(if from == to {
            format!("it is a context of device {to} as well, and only other devices are peers")
        } else {
            format!(
                "device {from} cannot reach the memory of device {to}: ask \
                 `Device::can_access_peer` first, and copy instead"
            )
        })
    }
}

#[cold]
fn refused(problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_CONTEXT, "peer", problem)
}
