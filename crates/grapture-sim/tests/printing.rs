//! What kernels print, and when it is seen.

mod common;

use std::ffi::c_void;
use std::io::Write;
use std::process::Command;

use common::Setup;

const KERNELS: &str = include_str!("kernels/printing.ptx");
/// Set in the process whose output is looked at.
const CHILD: &str = "GRAPTURE_PRINTING_CHILD";

/// Launches a kernel on the legacy default stream.
fn launch(setup: &Setup, name: &str, threads: u32, params: &mut [*mut c_void]) -> u32 {
    let function = setup.function(setup.module(KERNELS), name);
    let (null, params) = (std::ptr::null_mut(), params.as_mut_ptr());
    call!(setup, cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, null, params, null.cast()))
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
        let setup = Setup::new();
        let (mut x, mut counts) = (5_i32, setup.alloc(32));
        let mut params =
            [std::ptr::from_mut(&mut x).cast(), std::ptr::from_mut(&mut counts).cast()];
        assert_eq!(launch(&setup, "formats", 1, &mut params), 0);
        let read: Vec<i32> = setup.read(counts, 8);
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
fn sim_what_a_kernel_prints_is_seen_once_it_has_ended() {
    let test = "sim_what_a_kernel_prints_is_seen_once_it_has_ended";
    let Some((output, _)) = output_of_child(test) else {
        let setup = Setup::new();
        let stream = std::ptr::null_mut();
        say("launch");
        assert_eq!(launch(&setup, "ranks", 8, &mut []), 0);
        common::eventually("the kernel ends", || call!(setup, cuStreamQuery(stream)) == 0);
        say("idle");
        return;
    };
    assert!(output.contains("launch\n1\n3\n5\n7\nidle\n"), "{output}");
}

#[test]
fn sim_a_failed_assert_says_where_and_breaks_the_context() {
    let test = "sim_a_failed_assert_says_where_and_breaks_the_context";
    let Some((_, error)) = output_of_child(test) else {
        let setup = Setup::new();
        // The kernel may have failed before its launch returns.
        assert!(matches!(launch(&setup, "claims", 5, &mut []), 0 | 710));
        assert_eq!(call!(setup, cuCtxSynchronize()), 710);
        assert_eq!(call!(setup, cuCtxSynchronize()), 710);
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
