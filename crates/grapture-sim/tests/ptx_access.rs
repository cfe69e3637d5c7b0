//! Loads and stores give the same whichever way the addresses of a warp lie to each other.

#[path = "ptx/support.rs"]
mod support;

use support::{Device, Run, args, module, random};

/// Elements of the memory that is accessed.
const COUNT: u64 = 256;

/// Where each of 64 threads accesses, in elements; all within the memory.
fn patterns() -> Vec<(&'static str, Vec<u32>)> {
    let mut bits = random(7);
    let mut shuffled: Vec<u32> = (0..64).collect();
    (1..64).rev().for_each(|i| shuffled.swap(i, (bits() % (i as u64 + 1)) as usize));
    let each = |f: &dyn Fn(u32) -> u32| (0..64).map(f).collect::<Vec<u32>>();
    vec![
        ("a row", each(&|t| t)),
        ("a row from the middle", each(&|t| t + 77)),
        ("backwards", each(&|t| 100 - t)),
        ("one element", each(&|_| 9)),
        ("rows of 16", each(&|t| t / 16 * 40 + t % 16)),
        ("rows of 8", each(&|t| t / 8 * 24 + t % 8)),
        ("one element for 16 threads", each(&|t| t / 16 * 3)),
        ("rows of 8 between single ones", each(&|t| if t / 8 % 2 == 0 { t } else { 200 })),
        ("every third", each(&|t| 3 * t)),
        ("all but the last in a row", each(&|t| if t % 32 == 31 { 250 } else { t })),
        ("all but the second in a row", each(&|t| if t % 32 == 1 { 250 } else { t })),
        ("ends as a row, middle not", each(&|t| if t % 32 == 16 { 255 } else { t })),
        ("shuffled", shuffled),
    ]
}

/// A kernel that loads an element where its index says, and stores it at the thread's place.
/// `space` is empty for generic addresses.
fn kernel(space: &str, ty: &str, bytes: u64) -> String {
    // Shared and local memory are filled first, by each thread for all.
    let (declared, base) = match space {
        "shared" => (format!(".shared .align 16 .b8 m[{}];", bytes * COUNT), "mov.u64 %rd4, m;"),
        "local" => (format!(".local .align 16 .b8 m[{}];", bytes * COUNT), "mov.u64 %rd4, m;"),
        _ => (String::new(), "ld.param.u64 %rd4, [from];"),
    };
    let fill = match space {
        "shared" | "local" => format!(
            "mov.u32 %r3, 0;
            FILL: mul.wide.u32 %rd5, %r3, {bytes}; add.u64 %rd6, %rd1, %rd5; add.u64 %rd7, %rd4, %rd5;
            ld.global.{ty} %v, [%rd6]; st.{space}.{ty} [%rd7], %v;
            add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, {COUNT}; @%p1 bra FILL; bar.sync 0;"
        ),
        _ => String::new(),
    };
    let dot = if space.is_empty() { String::new() } else { format!(".{space}") };
    let register = match ty {
        "u8" | "u16" => ".b16",
        "u64" => ".b64",
        _ => ".b32",
    };
    format!(
        ".version 7.0\n.target sm_75\n.address_size 64\n
        .visible .entry k(.param .u64 from, .param .u64 index, .param .u64 to) {{
            .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<12>; .reg {register} %v; {declared}
            ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [index]; ld.param.u64 %rd3, [to];
            mov.u32 %r1, %tid.x;
            {base} {fill}
            mad.wide.u32 %rd8, %r1, 4, %rd2; ld.global.u32 %r2, [%rd8];
            mad.wide.u32 %rd9, %r2, {bytes}, %rd4;
            add.u64 %rd9, %rd9, -{bytes};
            ld{dot}.{ty} %v, [%rd9+{bytes}];
            mad.wide.u32 %rd10, %r1, {bytes}, %rd3;
            st.global.{ty} [%rd10], %v;
            ret;
        }}"
    )
}

#[test]
fn loads_find_their_elements_in_every_space() {
    for (ty, bytes) in [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8)] {
        let source: Vec<u8> =
            (0..COUNT * bytes).map(|i| (i * 31 + i / 256 * 7 + 1) as u8).collect();
        for space in ["global", "", "shared", "local"] {
            let module = module(&kernel(space, ty, bytes));
            for (name, index) in patterns() {
                // 20 threads are less than a warp, 64 are two.
                for threads in [20, 64] {
                    let mut device = Device::default();
                    let (from, places) = (device.upload(&source), device.upload(&index));
                    let to = device.zeros::<u8>(64 * bytes as usize);
                    let run = Run::new(&mut device, &module);
                    let params = args().with(from).with(places).with(to);
                    run.go("k", [1; 3], [threads, 1, 1], &params).unwrap();
                    let found = device.download::<u8>(to);
                    for thread in 0..threads as usize {
                        let at = |element: usize| element * bytes as usize..;
                        let wanted = &source[at(index[thread] as usize)][..bytes as usize];
                        let got = &found[at(thread)][..bytes as usize];
                        assert_eq!(got, wanted, "{ty} in '{space}', {name}, thread {thread}");
                    }
                }
            }
        }
    }
}

#[test]
fn stores_reach_their_elements() {
    for (ty, bytes, wide) in [("u8", 1, ""), ("u32", 4, ""), ("u64", 8, "cvt.u64.u32 %rd4, %r3;")] {
        let value = if bytes == 8 { "%rd4" } else { "%r3" };
        let text = format!(
            ".version 7.0\n.target sm_75\n.address_size 64\n
            .visible .entry k(.param .u64 index, .param .u64 to) {{
                .reg .b32 %r<6>; .reg .b64 %rd<8>;
                ld.param.u64 %rd1, [index]; ld.param.u64 %rd2, [to]; mov.u32 %r1, %tid.x;
                mad.wide.u32 %rd3, %r1, 4, %rd1; ld.global.u32 %r2, [%rd3];
                mad.wide.u32 %rd5, %r2, {bytes}, %rd2;
                add.u32 %r3, %r1, 100; {wide}
                st.global.{ty} [%rd5], {value}; ret;
            }}"
        );
        let module = module(&text);
        for (name, index) in patterns() {
            let mut device = Device::default();
            let places = device.upload(&index);
            let to = device.zeros::<u8>((COUNT * bytes) as usize);
            let run = Run::new(&mut device, &module);
            run.go("k", [1; 3], [64, 1, 1], &args().with(places).with(to)).unwrap();
            let mut wanted = vec![Vec::new(); COUNT as usize];
            for (thread, place) in index.iter().enumerate() {
                wanted[*place as usize].push(100 + thread as u64);
            }
            for (place, found) in device.download::<u8>(to).chunks(bytes as usize).enumerate() {
                let mut word = [0; 8];
                word[..found.len()].copy_from_slice(found);
                let (word, wanted) = (u64::from_le_bytes(word), &wanted[place]);
                let good = if wanted.is_empty() { word == 0 } else { wanted.contains(&word) };
                assert!(good, "{ty}, {name}, element {place}: {word}, not {wanted:?}");
            }
        }
    }
}

#[test]
fn an_address_register_may_be_the_destination() {
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n
        .visible .entry k(.param .u64 to) {
            .shared .align 16 .b8 m[512]; .reg .b32 %r<6>; .reg .b64 %rd<4>;
            ld.param.u64 %rd1, [to]; mov.u32 %r1, %tid.x; mov.u32 %r4, m;
            mad.lo.u32 %r2, %r1, 4, %r4; add.u32 %r3, %r1, 7; st.shared.u32 [%r2], %r3; bar.sync 0;
            xor.b32 %r5, %r1, 8; mad.lo.u32 %r2, %r5, 4, %r4; ld.shared.u32 %r2, [%r2];
            mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r2; ret;
        }";
    let (module, mut device) = (module(text), Device::default());
    let to = device.zeros::<u32>(64);
    let run = Run::new(&mut device, &module);
    run.go("k", [1; 3], [64, 1, 1], &args().with(to)).unwrap();
    let wanted: Vec<u32> = (0..64).map(|t| (t ^ 8) + 7).collect();
    assert_eq!(device.download::<u32>(to), wanted);
}

#[test]
fn a_row_that_leaves_its_memory_faults_at_the_lane_that_does() {
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n
        .visible .entry k(.param .u64 from) {
            .reg .b32 %r<4>; .reg .b64 %rd<4>;
            ld.param.u64 %rd1, [from]; mov.u32 %r1, %tid.x;
            mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; ret;
        }";
    let (module, mut device) = (module(text), Device::default());
    let from = device.zeros::<u32>(61);
    let run = Run::new(&mut device, &module);
    let fault = run.go("k", [1; 3], [64, 1, 1], &args().with(from)).unwrap_err();
    assert_eq!(fault.thread, [61, 0, 0], "{fault}");
    let fault = run.go("k", [1; 3], [64, 1, 1], &args().with(from + 2)).unwrap_err();
    assert!(fault.to_string().starts_with("misaligned"), "{fault}");
    assert_eq!(fault.thread, [0; 3], "{fault}");
}
