//! What PTX has and the simulation has not: it is refused by name, and not as a mistake.

/// Instructions.
const INSTRUCTIONS: [&str; 46] = [
    "alloca",
    "applypriority",
    "clusterlaunchcontrol",
    "cp",
    "createpolicy",
    "discard",
    "getctarank",
    "istypep",
    "mapa",
    "mbarrier",
    "multimem",
    "pmevent",
    "setmaxnreg",
    "stackrestore",
    "stacksave",
    "suld",
    "suq",
    "sured",
    "sust",
    "tcgen05",
    "tensormap",
    "tex",
    "tld4",
    "txq",
    "vabsdiff",
    "vadd",
    "vadd2",
    "vadd4",
    "vavrg2",
    "vavrg4",
    "vmad",
    "vmax",
    "vmax2",
    "vmax4",
    "vmin",
    "vmin2",
    "vmin4",
    "vset",
    "vset2",
    "vset4",
    "vshl",
    "vshr",
    "vsub",
    "vsub2",
    "vsub4",
    "wgmma",
];

/// Words behind an instruction that is known without them.
const WORDS: [&str; 18] = [
    "b8x16",
    "bulk",
    "cluster",
    "e4m3",
    "e5m2",
    "m8n16",
    "m16n16",
    "mbarrier",
    "mbarrier_init",
    "multimem",
    "param::func",
    "proxy",
    "proxy::async",
    "proxy::tensormap::generic",
    "s64x2",
    "shared::cluster",
    "sp",
    "sp::ordered_metadata",
];

/// Why an instruction is refused, if it is one of these.
pub(super) fn reason(opcode: &str, modifiers: &[&str]) -> Option<String> {
    let word = || modifiers.iter().find(|word| WORDS.contains(word));
    if let Some(word) = word().filter(|word| !may_have(opcode, word)) {
        return Some(format!("'.{word}' is not supported"));
    }
    let known = INSTRUCTIONS.contains(&opcode) && !(opcode == "cp" && modifiers.contains(&"async"));
    known.then(|| "this instruction is not supported".to_owned())
}

/// Whether an instruction is known with the word all the same.
fn may_have(opcode: &str, word: &str) -> bool {
    match word {
        // A scope: every one is the whole device here.
        "cluster" => !matches!(opcode, "barrier" | "bar"),
        "param::func" => matches!(opcode, "ld" | "st"),
        "shared::cluster" => opcode == "isspacep",
        _ => false,
    }
}
