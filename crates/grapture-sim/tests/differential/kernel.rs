//! The PTX around a form: a thread loads its row of operands, and stores its results.

use std::fmt::Write;

use crate::form::{Form, INPUTS, OUTPUTS};
use crate::inputs::WIDTH;
use crate::value::Value;

/// What a module of kernels begins with.
const HEADER: &str = ".version 9.0\n.target sm_90\n.address_size 64\n";
/// Bytes of memory that each thread has to itself, at `%at` in global and at `%sm` in shared memory.
pub const SCRATCH_BYTES: usize = 64;

/// The name of the kernel of the form at that place of a module.
pub fn name(at: usize) -> String {
    format!("k{at}")
}

/// A module with a kernel for each form.
pub fn module(forms: &[Form]) -> String {
    let mut text = HEADER.to_owned();
    for (at, form) in forms.iter().enumerate() {
        text += &kernel(&name(at), form);
    }
    text
}

fn kernel(name: &str, form: &Form) -> String {
    let mut text =
        format!(".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 own) {{\n");
    text += ".reg .b64 %in, %out, %at; .reg .b32 %thread, %sm; .reg .b32 %word; .reg .pred %q;\n";
    text += ".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %l<9>; .reg .pred %p<9>;\n";
    for (operand, value) in operands(form) {
        writeln!(text, ".reg .{} {operand};", register(value)).unwrap();
    }
    text += "mov.u32 %thread, %tid.x; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x;\n";
    if form.body.contains("%sm") {
        text += ".shared .align 16 .b8 shared[8192];\n";
        writeln!(text, "mov.u32 %sm, shared; mad.lo.u32 %sm, %thread, {SCRATCH_BYTES}, %sm;")
            .unwrap();
    }
    text += "mad.lo.u32 %thread, %r0, %r1, %thread;\n";
    text += "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %at, [own];\n";
    writeln!(text, "mad.wide.u32 %in, %thread, {}, %in;", 8 * WIDTH).unwrap();
    writeln!(text, "mad.wide.u32 %out, %thread, {}, %out;", 8 * OUTPUTS.len()).unwrap();
    writeln!(text, "mad.wide.u32 %at, %thread, {SCRATCH_BYTES}, %at;").unwrap();
    for (at, (operand, value)) in INPUTS.iter().zip(&form.inputs).enumerate() {
        text += &load(operand, *value, 8 * at);
    }
    writeln!(text, "{}", form.body).unwrap();
    for (at, (operand, value)) in OUTPUTS.iter().zip(&form.outputs).enumerate() {
        text += &store(operand, *value, 8 * at);
    }
    text + "ret;\n}\n"
}

fn operands(form: &Form) -> impl Iterator<Item = (&str, Value)> {
    let inputs = INPUTS.into_iter().zip(form.inputs.iter().copied());
    inputs.chain(OUTPUTS.into_iter().zip(form.outputs.iter().copied()))
}

fn register(value: Value) -> String {
    if value == Value::Pred { "pred".to_owned() } else { format!("b{}", value.bits()) }
}

fn load(operand: &str, value: Value, offset: usize) -> String {
    if value == Value::Pred {
        format!("ld.global.b32 %word, [%in+{offset}]; setp.ne.b32 {operand}, %word, 0;\n")
    } else {
        format!("ld.global.b{} {operand}, [%in+{offset}];\n", value.bits())
    }
}

fn store(operand: &str, value: Value, offset: usize) -> String {
    if value == Value::Pred {
        format!("selp.b32 %word, 1, 0, {operand}; st.global.b32 [%out+{offset}], %word;\n")
    } else {
        format!("st.global.b{} [%out+{offset}], {operand};\n", value.bits())
    }
}
