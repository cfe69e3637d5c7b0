//! Copies, registers taken apart and put together, and kinds of addresses.

use super::TYPES;
use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in TYPES.into_iter().filter(|ty| *ty != "pred") {
        forms.op(format!("mov.{ty}"), ty, &[ty]);
    }
    for (whole, part) in [("b32", "b16"), ("b64", "b32")] {
        let body = format!("mov.{whole} %x, {{%a, %b}};");
        forms.body(body.clone(), &[whole], &[part, part], body);
        let body = format!("mov.{whole} {{%x, %y}}, %a;");
        forms.body(body.clone(), &[part, part], &[whole], body);
        let body = format!("mov.{whole} {{_, %x}}, %a;");
        forms.body(body.clone(), &[part], &[whole], body);
    }
    let body = "mov.b64 %x, {%a, %b, %c, %d};";
    forms.body(body, &["b64"], &["b16"; 4], body);
    let body = "mov.b64 {%x, %y, %z, %w}, %a;";
    forms.body(body, &["b16"; 4], &["b64"], body);
    let body = "mov.b64 {%r0, %r1}, %a; mov.b64 %x, {%r1, %r0};";
    forms.body("halves swapped", &["b64"], &["b64"], body);
    bytes(forms);
    special(forms);
    spaces(forms);
}

fn bytes(forms: &mut Forms) {
    let body = ".reg .b8 %q0, %q1, %q2, %q3; mov.b32 {%q0, %q1, %q2, %q3}, %a; \
        mov.b32 %x, {%q3, %q1, %q2, %q0};";
    forms.body("mov.b32 of four bytes", &["b32"], &["b32"], body);
    let body = ".reg .b8 %q0, %q1; mov.b16 {%q0, %q1}, %a; mov.b16 %x, {%q1, %q0};";
    forms.body("mov.b16 of two bytes", &["b16"], &["b16"], body);
}

fn special(forms: &mut Forms) {
    for name in [
        "%laneid",
        "%lanemask_eq",
        "%lanemask_lt",
        "%lanemask_le",
        "%lanemask_gt",
        "%lanemask_ge",
        "%tid.x",
        "%tid.y",
        "%ntid.x",
        "%ntid.z",
        "%ctaid.x",
        "%nctaid.x",
        "%nctaid.y",
        "%dynamic_smem_size",
        "%total_smem_size",
        "%aggr_smem_size",
        "%is_explicit_cluster",
        "%clusterid.x",
        "%nclusterid.x",
        "%cluster_ctaid.x",
        "%cluster_nctaid.x",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%nosuch",
        "%tid",
    ] {
        let body = format!("mov.u32 %x, {name};");
        forms.body(body.clone(), &["u32"], &[], body);
    }
    for name in ["%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size"] {
        let body = format!("st.shared.b32 [%sm], %a; mov.u32 %x, {name};");
        forms.body(format!("{name} of a block with shared memory"), &["u32"], &["u32"], body);
    }
    for name in ["%tid.x", "%ntid.x", "%nctaid.x"] {
        let body = format!("cvt.u16.u32 %x, {name};");
        forms.body(body.clone(), &["u16"], &[], body);
        let body = format!("mov.u16 %x, {name};");
        forms.body(body.clone(), &["u16"], &[], body);
    }
}

/// In which space a generic address lies.
fn spaces(forms: &mut Forms) {
    let setup = ".local .align 8 .b8 mine[16]; mov.u64 %l0, mine; cvta.local.u64 %l0, %l0; \
        cvt.u64.u32 %l1, %sm; cvta.shared.u64 %l1, %l1; mov.u64 %l2, %at;";
    for space in ["global", "shared", "local", "const", "param", "shared::cta", "shared::cluster"] {
        let body = format!(
            "{setup} isspacep.{space} %x, %l0; isspacep.{space} %y, %l1; isspacep.{space} %z, %l2;"
        );
        forms.body(format!("isspacep.{space}"), &["pred"; 3], &[], body);
    }
    let body = "cvta.to.global.u64 %l0, %at; st.global.b64 [%l0], %a; cvta.global.u64 %l1, %l0; \
        ld.b64 %x, [%l1]; cvt.u64.u32 %l2, %sm; cvta.shared.u64 %l3, %l2; st.b64 [%l3], %a; \
        ld.shared.b64 %y, [%sm]; cvta.to.shared.u64 %l4, %l3; ld.shared.b64 %z, [%l4];";
    forms.body("cvta", &["b64"; 3], &["b64"], body);
}
