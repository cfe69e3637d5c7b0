//! The approximations.

use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2"] {
        for op in ["sin", "cos", "ex2", "lg2", "tanh", "rcp", "rsqrt", "sqrt"] {
            for flush in ["", ".ftz"] {
                forms.op(format!("{op}.approx{flush}.{ty}"), ty, &[ty]);
            }
        }
        for flush in ["", ".ftz"] {
            for accuracy in ["approx", "full"] {
                forms.op(format!("div.{accuracy}{flush}.{ty}"), ty, &[ty, ty]);
            }
        }
    }
}
