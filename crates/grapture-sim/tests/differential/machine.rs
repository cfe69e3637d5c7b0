//! [`Machine`]: a driver that runs forms.

use std::collections::HashMap;
use std::ffi::{CString, c_void};

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::*;

use crate::answers::{Known, Record};
use crate::form::{Form, OUTPUTS};
use crate::inputs::{self, BLOCK, ROWS, WIDTH};
use crate::kernel::{self, SCRATCH_BYTES};

/// Forms of one module: few modules load faster, but one form that is refused takes all along.
const GROUP: usize = 48;

/// The results of a thread.
pub type Results = [u64; OUTPUTS.len()];

/// What a driver made of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It does not load, with this code.
    Refused(u32),
    /// The results of every row of inputs.
    Rows(Vec<Results>),
}

/// Calls a function of the driver and gives its code as a number.
macro_rules! cu {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $driver.functions().$name;
        // SAFETY: the arguments are values, handles that live, and pointers to locals and buffers
        // that outlive the call and have the size that the call is told.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "plain values and pointers")]
        let code = unsafe { function($($arg),*) };
        code.0
    }};
}

/// As [`cu!`], and the call must succeed.
macro_rules! ok {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        assert_eq!(cu!($driver, $name($($arg),*)), 0, stringify!($name))
    };
}

/// A driver with its primary context current, and memory for one form at a time.
pub struct Machine {
    driver: Driver,
    simulation: Option<Simulation>,
    inputs: CUdeviceptr,
    outputs: CUdeviceptr,
    scratch: CUdeviceptr,
}

impl Machine {
    /// A simulated driver of its own.
    pub fn simulated() -> Self {
        let simulation = Simulation::new(SimConfig::default());
        Self::on(simulation.driver(), Some(simulation))
    }

    /// The driver of the system.
    pub fn real() -> Self {
        match Driver::load() {
            Ok(driver) => Self::on(driver, None),
            Err(error) => panic!("the gpu tier needs a driver: {error}"),
        }
    }

    fn on(driver: Driver, simulation: Option<Simulation>) -> Self {
        ok!(driver, cuInit(0));
        let mut context = std::ptr::null_mut();
        ok!(driver, cuDevicePrimaryCtxRetain(&mut context, 0));
        ok!(driver, cuCtxSetCurrent(context));
        let [mut inputs, mut outputs, mut scratch] = [0; 3];
        ok!(driver, cuMemAlloc_v2(&mut inputs, ROWS * WIDTH * 8));
        ok!(driver, cuMemAlloc_v2(&mut outputs, ROWS * size_of::<Results>()));
        ok!(driver, cuMemAlloc_v2(&mut scratch, ROWS * SCRATCH_BYTES));
        Self { driver, simulation, inputs, outputs, scratch }
    }

    /// Gives everything back.
    pub fn close(self) {
        for address in [self.inputs, self.outputs, self.scratch] {
            ok!(self.driver, cuMemFree_v2(address));
        }
        ok!(self.driver, cuDevicePrimaryCtxRelease_v2(0));
        if let Some(simulation) = &self.simulation {
            assert!(simulation.live().is_clean(), "left: {}", simulation.live());
        }
    }

    /// What the driver makes of each form. Those that the record has as refused load alone.
    pub fn run(&self, forms: &[Form], record: &Record) -> Vec<Answer> {
        let refused = |form: &Form| matches!(record.get(form), Some(Known::Refused(_)));
        let mut answers = HashMap::new();
        let (alone, together): (Vec<_>, Vec<_>) = forms.iter().cloned().partition(refused);
        for group in together.chunks(GROUP).chain(alone.chunks(1)) {
            let names = group.iter().map(|form| form.name.clone());
            answers.extend(names.zip(self.group(group)));
        }
        forms.iter().map(|form| answers.remove(&form.name).expect("names differ")).collect()
    }

    /// Forms in one module; when that is refused, in smaller ones.
    fn group(&self, forms: &[Form]) -> Vec<Answer> {
        let text = CString::new(kernel::module(forms)).unwrap();
        let mut module = std::ptr::null_mut();
        let code = cu!(self.driver, cuModuleLoadData(&mut module, text.as_ptr().cast()));
        match (code, forms) {
            (0, _) => {}
            (_, [_]) => return vec![Answer::Refused(code)],
            _ => {
                let (first, last) = forms.split_at(forms.len() / 2);
                return [self.group(first), self.group(last)].concat();
            }
        }
        let each = forms.iter().enumerate();
        let answers = each.map(|(at, form)| self.launch(module, &kernel::name(at), form)).collect();
        ok!(self.driver, cuModuleUnload(module));
        answers
    }

    fn launch(&self, module: CUmodule, name: &str, form: &Form) -> Answer {
        let name = CString::new(name).unwrap();
        let mut function = std::ptr::null_mut();
        ok!(self.driver, cuModuleGetFunction(&mut function, module, name.as_ptr()));
        let rows = inputs::rows(form);
        ok!(self.driver, cuMemcpyHtoD_v2(self.inputs, rows.as_ptr().cast(), size_of_val(&*rows)));
        let mut results = vec![Results::default(); ROWS];
        let bytes = size_of_val(&*results);
        ok!(self.driver, cuMemsetD8_v2(self.outputs, 0xa5, bytes));
        ok!(self.driver, cuMemsetD8_v2(self.scratch, 0, ROWS * SCRATCH_BYTES));
        let addresses = [self.inputs, self.outputs, self.scratch];
        let mut params = addresses.each_ref().map(|at| std::ptr::from_ref(at).cast_mut().cast());
        self.start(function, &mut params);
        let code =
            cu!(self.driver, cuMemcpyDtoH_v2(results.as_mut_ptr().cast(), self.outputs, bytes));
        assert_eq!(code, 0, "'{}' ran into an error", form.name);
        for row in &mut results {
            for (at, word) in row.iter_mut().enumerate() {
                *word = form.settled(at, *word);
            }
        }
        Answer::Rows(results)
    }

    fn start(&self, function: CUfunction, params: &mut [*mut c_void]) {
        let (grid, block) = ((ROWS / BLOCK) as u32, BLOCK as u32);
        let (stream, extra) = (std::ptr::null_mut(), std::ptr::null_mut());
        let params = params.as_mut_ptr();
        ok!(
            self.driver,
            cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, params, extra)
        );
    }
}
