//! What kernels print, and when it is seen.

use std::ffi::{CString, c_void};
use std::io::Write;
use std::process::Command;

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::*;

const KERNELS: &str = include_str!("kernels/printing.ptx");
/// Set in the process whose output is looked at.
const CHILD: &str = "GRAPTURE_PRINTING_CHILD";

/// A driver with the kernels loaded.
struct Rig {
    driver: Driver,
    module: CUmodule,
}

macro_rules! cu {
    ($rig:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $rig.driver.functions().$name;
        // SAFETY: the arguments are handles of the simulated driver, values, and pointers to locals
        // that outlive the call.
        let code = unsafe { function($($arg),*) };
        code.0
    }};
}

impl Rig {
    fn new() -> Rig {
        let driver = Simulation::new(SimConfig::default()).driver();
        let mut rig = Rig { driver, module: std::ptr::null_mut() };
        let mut context = std::ptr::null_mut();
        assert_eq!(cu!(rig, cuDevicePrimaryCtxRetain(&mut context, 0)), 0);
        assert_eq!(cu!(rig, cuCtxSetCurrent(context)), 0);
        let text = CString::new(KERNELS).unwrap();
        let mut module = std::ptr::null_mut();
        assert_eq!(cu!(rig, cuModuleLoadData(&mut module, text.as_ptr().cast())), 0);
        rig.module = module;
        rig
    }

    fn launch(&self, name: &str, threads: u32, params: &mut [*mut c_void]) -> u32 {
        let name = CString::new(name).unwrap();
        let mut function = std::ptr::null_mut();
        assert_eq!(cu!(self, cuModuleGetFunction(&mut function, self.module, name.as_ptr())), 0);
        let (null, params) = (std::ptr::null_mut(), params.as_mut_ptr());
        cu!(self, cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, null, params, null.cast()))
    }

    fn is_idle(&self) -> bool {
        cu!(self, cuStreamQuery(std::ptr::null_mut())) == 0
    }
}

/// The name of the test in which this runs, and the output and error of its child process.
fn output_of_child(test: &str) -> Option<(String, String)> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", test, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (output, error) = (text(child.stdout), text(child.stderr));
    assert!(child.status.success(), "{output}\n{error}");
    Some((output, error))
}

/// Past what the runner of the tests captures.
fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}").unwrap();
    output.flush().unwrap();
}

#[test]
fn sim_printf_formats_as_c_does() {
    let Some((output, _)) = output_of_child("sim_printf_formats_as_c_does") else {
        let rig = Rig::new();
        let mut counts: CUdeviceptr = 0;
        assert_eq!(cu!(rig, cuMemAlloc_v2(&mut counts, 32)), 0);
        let mut x = 5_i32;
        let mut params =
            [std::ptr::from_mut(&mut x).cast(), std::ptr::from_mut(&mut counts).cast()];
        assert_eq!(rig.launch("formats", 1, &mut params), 0);
        let mut read = [0_i32; 8];
        let to = read.as_mut_ptr().cast();
        assert_eq!(cu!(rig, cuMemcpyDtoH_v2(to, counts, 32)), 0);
        assert_eq!(read, [0, 10, 5, 7, 2, 5, 2, 3]);
        return;
    };
    let lines = [
        "plain",
        "5|    5|5    |00005|+5|5|0X5|5|5|f|%",
        "as it is|     right|left      |cu|0x1234",
        "7.500000 7.500000e+00 7.5e+10 5E-07 0.667   1.23e+04|0.5         |",
        "0x1.ep+2 0X1.999999999999AP-4",
        "5497558138880 -5 18446744073709551615 4464 1000000000000000",
        "      5|%.*f",
        "inf -inf -nan",
    ];
    assert!(output.contains(&lines.join("\n")), "{output}");
}

#[test]
fn sim_what_kernels_print_is_seen_when_the_program_waits() {
    let test = "sim_what_kernels_print_is_seen_when_the_program_waits";
    let Some((output, _)) = output_of_child(test) else {
        let rig = Rig::new();
        say("launch");
        assert_eq!(rig.launch("ranks", 8, &mut []), 0);
        while !rig.is_idle() {
            std::thread::yield_now();
        }
        say("idle");
        assert_eq!(cu!(rig, cuStreamSynchronize(std::ptr::null_mut())), 0);
        say("waited");
        return;
    };
    assert!(output.contains("launch\nidle\n1\n3\n5\n7\nwaited\n"), "{output}");
}

#[test]
fn sim_a_failed_assert_says_where_and_breaks_the_context() {
    let test = "sim_a_failed_assert_says_where_and_breaks_the_context";
    let Some((_, error)) = output_of_child(test) else {
        let rig = Rig::new();
        assert_eq!(rig.launch("claims", 5, &mut []), 0);
        assert_eq!(cu!(rig, cuCtxSynchronize()), 710);
        assert_eq!(cu!(rig, cuCtxSynchronize()), 710);
        return;
    };
    for thread in [3, 4] {
        let says = format!(
            "printing.cu:26: void claims(): block: [0,0,0], thread: [{thread},0,0] Assertion \
             `threadIdx.x < 3 && \"a message\"` failed."
        );
        assert!(error.contains(&says), "{error}");
    }
    assert!(!error.contains("thread: [2,0,0]"), "{error}");
}
