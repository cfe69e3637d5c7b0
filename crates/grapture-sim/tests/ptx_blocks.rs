//! What blocks that run one after the other on the same registers see of each other: nothing.

#[path = "ptx/support.rs"]
mod support;

use support::{Device, Run, args, module};

const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

/// Runs `body` in 40 blocks of 64 threads, on one thread of the host; it leaves a number in `%r1`
/// for each thread. Answers those of each block.
fn run(body: &str) -> Vec<Vec<u32>> {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 out, .param .u32 number) {{
            .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<4>; .local .align 4 .b8 frame[8];
            mov.u32 %r8, %ctaid.x;
            mov.u32 %r9, %tid.x;
            {body}
            mad.lo.u32 %r2, %r8, 64, %r9;
            ld.param.u64 %rd1, [out];
            mad.wide.u32 %rd2, %r2, 4, %rd1;
            st.global.u32 [%rd2], %r1;
            ret;
        }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    let out = device.zeros::<u32>(40 * 64);
    let run = Run::new(&mut device, &module);
    run.go("k", [40, 1, 1], [64, 1, 1], &args().with(out).with(1234_u32)).unwrap();
    device.download::<u32>(out).chunks(64).map(<[u32]>::to_vec).collect()
}

#[test]
fn a_register_that_is_not_set_holds_zero_in_every_block() {
    let found = run("setp.eq.u32 %p1, %r8, 0; @%p1 mov.u32 %r1, 7;");
    assert_eq!(found[0], [7; 64]);
    assert!(found[1..].iter().all(|block| *block == [0; 64]));
}

#[test]
fn a_register_set_in_one_branch_only_holds_zero_in_the_other() {
    let found = run("setp.eq.u32 %p1, %r8, 0; @!%p1 bra SKIP; add.u32 %r1, %r9, 0; SKIP:");
    assert_eq!(found[0], (0..64).collect::<Vec<_>>());
    assert!(found[1..].iter().all(|block| *block == [0; 64]));
}

#[test]
fn a_predicate_that_is_not_set_is_false_in_every_block() {
    let found = run("setp.eq.u32 %p1, %r8, 0; @%p1 setp.eq.u32 %p2, %r8, 0;
        selp.u32 %r1, 1, 2, %p2;");
    assert_eq!(found[0], [1; 64]);
    assert!(found[1..].iter().all(|block| *block == [2; 64]));
}

#[test]
fn local_memory_is_zero_in_every_block() {
    let found = run("ld.local.u32 %r1, [frame+4]; st.local.u32 [frame+4], 5;");
    assert!(found.iter().all(|block| *block == [0; 64]));
}

#[test]
fn parameters_and_special_registers_hold_in_every_block() {
    let found = run("ld.param.u32 %r3, [number]; mov.u32 %r4, %ntid.x; mov.u32 %r5, %r8;
        add.u32 %r1, %r3, %r4; add.u32 %r1, %r1, %r5; add.u32 %r1, %r1, %r9;");
    for (block, values) in found.iter().enumerate() {
        let expected: Vec<u32> = (0..64).map(|thread| 1234 + 64 + block as u32 + thread).collect();
        assert_eq!(*values, expected, "block {block}");
    }
}

#[test]
fn a_copy_that_is_overwritten_later_stays_where_it_is() {
    // %r1 is written twice, so neither write may leave the body.
    let found = run("mov.u32 %r1, 3; setp.gt.u32 %p1, %r8, 5; @%p1 bra END; mov.u32 %r1, 9; END:");
    assert!(found[..6].iter().all(|block| *block == [9; 64]));
    assert!(found[6..].iter().all(|block| *block == [3; 64]));
}

#[test]
fn branches_find_their_places_after_instructions_left_the_body() {
    let found = run("mov.u32 %r1, 0; LOOP: mov.u32 %r3, %nctaid.x; ld.param.u32 %r4, [number];
        add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r3; @%p1 bra LOOP; add.u32 %r1, %r1, %r4;");
    assert!(found.iter().all(|block| *block == [1274; 64]));
}
