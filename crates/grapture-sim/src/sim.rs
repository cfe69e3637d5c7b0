//! [`Sim`]: one simulated driver, and [`State`], what its control lock guards.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use grapture_sys::{
    CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_DEVICE,
    CUDA_ERROR_INVALID_HANDLE, CUresult,
};

use crate::calls::Calls;
use crate::capture::Captures;
use crate::config::SimConfig;
use crate::console::Console;
use crate::context::{Context, ThreadState};
use crate::device::Device;
use crate::engine::Engine;
use crate::event::Event;
use crate::fault::Fault;
use crate::graph::Graphs;
use crate::handle::{Id, Registry};
use crate::memory::{Memory, Pool};
use crate::module::{Function, Kernel, Library, Module};
use crate::stream::Stream;
use crate::trace::Trace;

/// What an API function answers.
pub(crate) type Answer = Result<(), CUresult>;

/// One simulated driver.
pub(crate) struct Sim {
    /// What it is like.
    pub(crate) config: SimConfig,
    /// The slot whose C functions lead here.
    pub(crate) slot: usize,
    /// Counts and planned faults.
    pub(crate) calls: Calls,
    /// Where each call is written.
    pub(crate) trace: Option<Trace>,
    /// What runs.
    pub(crate) engine: Engine,
    /// All memory that has an address.
    pub(crate) memory: Memory,
    /// What kernels print.
    pub(crate) console: Console,
    state: Mutex<State>,
    last_fault: Mutex<Option<String>>,
}

/// The control state of a simulation.
pub(crate) struct State {
    /// Whether `cuInit` has succeeded or failed, that is, was called.
    pub(crate) initialized: bool,
    /// The devices.
    pub(crate) devices: Vec<Device>,
    /// Contexts, primary ones too.
    pub(crate) contexts: Registry<Context>,
    /// Streams, the special ones too.
    pub(crate) streams: Registry<Stream>,
    /// Events.
    pub(crate) events: Registry<Event>,
    /// Modules.
    pub(crate) modules: Registry<Module>,
    /// Functions of modules.
    pub(crate) functions: Registry<Function>,
    /// Libraries.
    pub(crate) libraries: Registry<Library>,
    /// Kernels of libraries.
    pub(crate) kernels: Registry<Kernel>,
    /// Memory pools, the devices' own too.
    pub(crate) pools: Registry<Pool>,
    /// What is known of threads.
    pub(crate) threads: HashMap<ThreadId, ThreadState>,
    /// Captures.
    pub(crate) captures: Captures,
    /// Graphs.
    pub(crate) graphs: Graphs,
    /// The next id of a stream or a context.
    pub(crate) next_id: u64,
}

impl Sim {
    /// A driver that `cuInit` was not called of.
    pub(crate) fn new(config: SimConfig, slot: usize, number: u8) -> Arc<Sim> {
        let mut pools = Registry::new(number);
        let devices = (0..config.device_count())
            .map(|ordinal| Device::new(ordinal, config.device_config(ordinal), &mut pools))
            .collect();
        let memory = (0..config.device_count()).map(|n| config.device_config(n).memory());
        let state = State {
            initialized: false,
            devices,
            contexts: Registry::new(number),
            streams: Registry::new(number),
            events: Registry::new(number),
            modules: Registry::new(number),
            functions: Registry::new(number),
            libraries: Registry::new(number),
            kernels: Registry::new(number),
            pools,
            threads: HashMap::new(),
            captures: Captures::new(number),
            graphs: Graphs::new(number),
            next_id: 1,
        };
        let sim = Arc::new(Sim {
            calls: Calls::new(config.failures()),
            trace: config.trace_path().and_then(open_trace),
            engine: Engine::new(&config),
            memory: Memory::new(memory.collect(), config.checks_uninitialised()),
            console: Console::default(),
            config,
            slot,
            state: Mutex::new(state),
            last_fault: Mutex::default(),
        });
        sim.engine.attach(&sim);
        sim
    }

    /// Locks the control state. Not to be held while waiting for work or calling the program.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Keeps the text of a fault.
    pub(crate) fn note_fault(&self, fault: &Fault) {
        *lock(&self.last_fault) = Some(fault.text.clone());
    }

    /// The text of the last fault.
    pub(crate) fn last_fault(&self) -> Option<String> {
        lock(&self.last_fault).clone()
    }
}

/// A trace that cannot be written is missed by whoever asked for it, and no reason not to start.
fn open_trace(path: &Path) -> Option<Trace> {
    let opened = Trace::create(path);
    opened
        .inspect_err(|error| {
            eprintln!("grapture-sim: cannot write the trace {}: {error}", path.display());
        })
        .ok()
}

/// Locks; a panic elsewhere does not poison the simulation.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// A number that no stream and no context had before.
    pub(crate) fn fresh_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// What is known of the calling thread.
    pub(crate) fn thread(&mut self) -> &mut ThreadState {
        self.threads.entry(std::thread::current().id()).or_default()
    }

    /// The calling thread's current context, sound.
    pub(crate) fn current(&mut self) -> Result<Id<Context>, CUresult> {
        let id = self.thread().stack.last().copied().ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        let context = self.contexts.get(id).ok_or(CUDA_ERROR_CONTEXT_IS_DESTROYED)?;
        context.core.check()?;
        Ok(id)
    }

    /// A context; its code if it is broken.
    pub(crate) fn context(&self, id: Id<Context>) -> Result<&Context, CUresult> {
        let context = self.contexts.get(id).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        context.core.check()?;
        Ok(context)
    }

    /// As [`context`](State::context), to change it.
    pub(crate) fn context_mut(&mut self, id: Id<Context>) -> Result<&mut Context, CUresult> {
        let context = self.contexts.get_mut(id).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        context.core.check()?;
        Ok(context)
    }

    /// The device with this handle; 101 if there is none.
    pub(crate) fn device(&mut self, device: i32) -> Result<&mut Device, CUresult> {
        let ordinal = usize::try_from(device).map_err(|_| CUDA_ERROR_INVALID_DEVICE)?;
        self.devices.get_mut(ordinal).ok_or(CUDA_ERROR_INVALID_DEVICE)
    }

    /// A stream that was resolved.
    pub(crate) fn stream(&self, id: Id<Stream>) -> Result<&Stream, CUresult> {
        self.streams.get(id).ok_or(CUDA_ERROR_INVALID_HANDLE)
    }

    /// As [`stream`](State::stream), to change it.
    pub(crate) fn stream_mut(&mut self, id: Id<Stream>) -> Result<&mut Stream, CUresult> {
        self.streams.get_mut(id).ok_or(CUDA_ERROR_INVALID_HANDLE)
    }
}

impl State {
    /// Adds what is alive to the count.
    pub(crate) fn count(&self, live: &mut crate::live::LiveObjects) {
        use crate::stream::StreamKind;
        live.primary_retains +=
            self.devices.iter().map(|device| device.retained_by.len()).sum::<usize>();
        live.contexts += self.contexts.iter().filter(|(_, context)| !context.primary).count();
        let own = |kind| matches!(kind, StreamKind::Blocking | StreamKind::NonBlocking);
        live.streams += self.streams.iter().filter(|(_, stream)| own(stream.kind)).count();
        live.events += self.events.len();
        live.modules += self.modules.iter().filter(|(_, module)| !module.of_library).count();
        live.libraries += self.libraries.len();
        live.pools += self.pools.iter().filter(|(_, pool)| !pool.default).count();
        self.graphs.count(live);
        live.captures += self.captures.streams();
    }
}
