//! Loads and stores of every width, alone and as vectors.

use super::TYPES;
use crate::form::{Forms, OUTPUTS};

/// How the spaces call the place that a thread has to itself.
const SPACES: [(&str, &str); 4] =
    [(".global", "%at"), (".shared", "%sm"), (".local", "mine"), ("", "%at")];

pub fn forms(forms: &mut Forms) {
    for (space, place) in SPACES {
        let before = if place == "mine" { ".local .align 16 .b8 mine[64]; " } else { "" };
        let fill = format!("{before}st{space}.b64 [{place}], %a; st{space}.b64 [{place}+8], %b; ");
        for ty in TYPES {
            for register in ["b16", "b32", "b64"] {
                loads(forms, &fill, space, place, ty, register);
                stores(forms, &fill, space, place, ty, register);
            }
            vectors(forms, &fill, space, place, ty);
        }
    }
    qualified(forms);
}

fn loads(forms: &mut Forms, fill: &str, space: &str, place: &str, ty: &str, register: &str) {
    let instruction = format!("ld{space}.{ty} %x, [{place}+8];");
    let name = format!("{instruction} to {register}");
    forms.body(name, &[register], &["b64", "b64"], format!("{fill}{instruction}"));
}

fn stores(forms: &mut Forms, fill: &str, space: &str, place: &str, ty: &str, register: &str) {
    let instruction = format!("st{space}.{ty} [{place}+8], %c;");
    let name = format!("{instruction} of {register}");
    let body = format!("{fill}{instruction} ld{space}.b64 %x, [{place}+8];");
    forms.body(name, &["b64"], &["b64", "b64", register], body);
}

fn vectors(forms: &mut Forms, fill: &str, space: &str, place: &str, ty: &str) {
    let register = match ty {
        "u8" | "s8" | "b8" => "b16",
        "pred" => return,
        _ => ty,
    };
    for (count, list) in [(2, "{%x, %y}"), (4, "{%x, %y, %z, %w}")] {
        let instruction = format!("ld{space}.v{count}.{ty} {list}, [{place}];");
        let results = vec![register; count];
        forms.body(instruction.clone(), &results, &["b64", "b64"], format!("{fill}{instruction}"));
        let instruction = format!("st{space}.v{count}.{ty} [{place}], {list};");
        // The elements in the other order.
        let moved: String = (0..count)
            .map(|at| {
                let offset = size(ty) * (count - 1 - at);
                format!("ld{space}.{ty} {}, [{place}+{offset}]; ", OUTPUTS[at])
            })
            .collect();
        let [low, high] = [OUTPUTS[count], OUTPUTS[count + 1]];
        let after = format!("ld{space}.b64 {low}, [{place}]; ld{space}.b64 {high}, [{place}+8];");
        let results = [vec![register; count], vec!["b64"; 2]].concat();
        let body = format!("{fill}{moved}{instruction} {after}");
        forms.body(instruction, &results, &["b64", "b64"], body);
    }
}

fn size(ty: &str) -> usize {
    match ty {
        "u8" | "s8" | "b8" => 1,
        "u64" | "s64" | "b64" | "f64" => 8,
        "u16" | "s16" | "b16" | "f16" | "bf16" => 2,
        _ => 4,
    }
}

/// Orders, caches and scopes, which change no value.
fn qualified(forms: &mut Forms) {
    let loads = [
        "ld.weak.global",
        "ld.volatile.global",
        "ld.relaxed.gpu.global",
        "ld.relaxed.sys.global",
        "ld.relaxed.cta.global",
        "ld.relaxed.cluster.global",
        "ld.acquire.gpu.global",
        "ld.global.ca",
        "ld.global.cg",
        "ld.global.cs",
        "ld.global.lu",
        "ld.global.cv",
        "ld.global.nc",
        "ld.global.ca.nc",
        "ld.global.nc.L1::no_allocate",
        "ld.global.L1::evict_last",
        "ld.global.L1::evict_first.L2::128B",
        "ld.global.L2::256B",
        "ld.mmio.relaxed.sys.global",
        "ld.relaxed.global",
        "ld.acquire.global",
        "ld.global.wb",
        "ldu.global",
        "ld.weak.global.relaxed",
        "ld.volatile.relaxed.global",
        "ld.gpu.global",
        "ld.weak.gpu.global",
        "ld.volatile.gpu.global",
        "ld.relaxed.gpu.global.cg",
        "ld.volatile.global.cg",
        "ld.relaxed.gpu.global.L1::no_allocate",
        "ld.mmio.relaxed.gpu.global",
        "ld.mmio.global",
        "ld.nc",
        "ld.shared.nc",
    ];
    for load in loads {
        let body = format!("st.global.b32 [%at], %a; {load}.b32 %x, [%at];");
        // The read-only path may hold an older value, so it reads what another kernel wrote.
        let body = if load.contains("nc") || load == "ldu.global" {
            format!("{load}.b32 %x, [%in];")
        } else {
            body
        };
        forms.body(format!("{load}.b32"), &["b32"], &["b32"], body);
    }
    let stores = [
        "st.weak.global",
        "st.volatile.global",
        "st.relaxed.gpu.global",
        "st.release.sys.global",
        "st.global.wb",
        "st.global.cg",
        "st.global.cs",
        "st.global.wt",
        "st.global.L1::no_allocate",
        "st.mmio.relaxed.sys.global",
        "st.release.global",
        "st.acquire.gpu.global",
        "st.global.nc",
        "st.global.ca",
    ];
    for store in stores {
        let body = format!("{store}.b32 [%at], %a; ld.global.b32 %x, [%at];");
        forms.body(format!("{store}.b32"), &["b32"], &["b32"], body);
    }
    let body = "st.const.b32 [%at], %a; mov.b32 %x, %a;";
    forms.body("st.const.b32", &["b32"], &["b32"], body);
}
