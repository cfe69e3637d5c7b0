//! Lanes of a warp that exchange values.

use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    shuffles(forms);
    votes(forms);
    matches(forms);
    reductions(forms);
    diverged(forms);
    barriers(forms);
}

fn shuffles(forms: &mut Forms) {
    for mode in ["up", "down", "bfly", "idx"] {
        for clamp in
            ["0", "0x1f", "0x1e1f", "0x181f", "0x100f", "0x1007", "0x1800", "0x0010", "0x1c03"]
        {
            let body = format!("shfl.sync.{mode}.b32 %x|%y, %a, %b, {clamp}, 0xffffffff;");
            forms.body(body.clone(), &["b32", "pred"], &["b32", "amount"], body);
        }
        for offset in [0, 1, 2, 5, 16, 31, 32, 33] {
            let body = format!("shfl.sync.{mode}.b32 %x|%y, %a, {offset}, 0x1f, -1;");
            forms.body(body.clone(), &["b32", "pred"], &["b32"], body);
        }
        let body = format!("shfl.sync.{mode}.b32 %x, %a, 3, 31, -1;");
        forms.body(body.clone(), &["b32"], &["b32"], body);
        let body = format!("shfl.sync.{mode}.b32 %x|%y, %a, %b, %c, -1;");
        forms.body(body.clone(), &["b32", "pred"], &["b32", "amount", "b32"], body);
    }
    for other in [
        "shfl.sync.idx.b64 %x, %a, 1, 31, -1;",
        "shfl.idx.b32 %x, %a, 1, 31;",
        "shfl.sync.b32 %x, %a, 1, 31, -1;",
    ] {
        let ty = if other.contains("b64") { "b64" } else { "b32" };
        forms.body(other, &[ty], &[ty], other);
    }
}

fn votes(forms: &mut Forms) {
    for negated in ["", "!"] {
        for (mode, result) in [("all", "pred"), ("any", "pred"), ("uni", "pred"), ("ballot", "b32")]
        {
            let body = format!("vote.sync.{mode}.{result} %x, {negated}%a, 0xffffffff;");
            forms.body(body.clone(), &[result], &["pred"], body);
            // Of more lanes alike.
            let body = format!(
                "and.b32 %r0, %a, 7; setp.eq.u32 %p0, %r0, 7; vote.sync.{mode}.{result} %x, {negated}%p0, -1;"
            );
            forms.body(
                format!("vote.sync.{mode}.{result} of few {negated}"),
                &[result],
                &["u32"],
                body,
            );
            let body = format!(
                "setp.eq.u32 %p0, %thread, 0xffff; vote.sync.{mode}.{result} %x, {negated}%p0, -1;"
            );
            forms.body(
                format!("vote.sync.{mode}.{result} of none {negated}"),
                &[result],
                &[],
                body,
            );
        }
    }
    forms.body("vote.all.pred", &["pred"], &["pred"], "vote.all.pred %x, %a;");
    forms.body("activemask.b32", &["b32"], &[], "activemask.b32 %x;");
    forms.body("activemask.u32", &["b32"], &[], "activemask.u32 %x;");
    forms.body("elect.sync", &["b32", "pred"], &[], "elect.sync %x|%y, 0xffffffff;");
    forms.body(
        "elect.sync of some",
        &["b32", "pred"],
        &[],
        "mov.b32 %x, 99; setp.eq.u32 %y, 0, 1; \
        and.b32 %r0, %thread, 31; setp.gt.u32 %p0, %r0, 4; @%p0 elect.sync %x|%y, 0xffffffe0;",
    );
}

fn matches(forms: &mut Forms) {
    for (ty, mask) in [
        ("b32", "%a, 3"),
        ("b64", "%a, 3"),
        ("b32", "%a, 0"),
        ("b64", "%a, 0"),
        ("b32", "%a, -1"),
        ("u32", "%a, 3"),
    ] {
        // Of few values, so that some are equal.
        let (bits, own) = if ty == "b64" { ("b64", "%l0") } else { ("b32", "%r0") };
        let masked = format!("and.{bits} {own}, {mask}; ");
        let body = format!("{masked} match.any.sync.{ty} %x, {own}, -1;");
        forms.body(format!("match.any.sync.{ty} of {mask}"), &["b32"], &[ty], body);
        let body = format!("{masked} match.all.sync.{ty} %x|%y, {own}, -1;");
        forms.body(format!("match.all.sync.{ty} of {mask}"), &["b32", "pred"], &[ty], body);
    }
}

fn reductions(forms: &mut Forms) {
    for op in ["add", "min", "max", "and", "or", "xor", "inc"] {
        for ty in ["u32", "s32", "b32", "f32", "u64"] {
            let body = format!("redux.sync.{op}.{ty} %x, %a, 0xffffffff;");
            forms.body(body.clone(), &[ty], &[ty], body);
        }
    }
}

/// Of the lanes of a warp, some only.
fn diverged(forms: &mut Forms) {
    let half = "mov.b32 %x, 77; and.b32 %r0, %thread, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra ODD; ";
    let tail = " bra.uni DONE; ODD: ";
    for (name, ty, even, odd) in [
        (
            "vote.sync.ballot.b32",
            "b32",
            "setp.gt.s32 %p1, %a, 0; vote.sync.ballot.b32 %x, %p1, 0x55555555;",
            "setp.lt.s32 %p1, %a, 0; vote.sync.ballot.b32 %x, %p1, 0xaaaaaaaa;",
        ),
        ("activemask.b32", "b32", "activemask.b32 %x;", "activemask.b32 %x; not.b32 %x, %x;"),
        (
            "match.any.sync.b32",
            "b32",
            "and.b32 %r1, %a, 3; match.any.sync.b32 %x, %r1, 0x55555555;",
            "and.b32 %r1, %a, 1; match.any.sync.b32 %x, %r1, 0xaaaaaaaa;",
        ),
        (
            "redux.sync.add.u32",
            "b32",
            "redux.sync.add.u32 %x, %a, 0x55555555;",
            "redux.sync.add.u32 %x, %a, 0xaaaaaaaa;",
        ),
        (
            "redux.sync.max.s32",
            "b32",
            "redux.sync.max.s32 %x, %a, 0x55555555;",
            "redux.sync.xor.b32 %x, %a, 0xaaaaaaaa;",
        ),
        (
            "shfl.sync.idx.b32",
            "b32",
            "shfl.sync.idx.b32 %x, %a, 4, 31, 0x55555555;",
            "shfl.sync.idx.b32 %x, %a, 7, 31, 0xaaaaaaaa;",
        ),
        (
            "shfl.sync.down.b32",
            "b32",
            "shfl.sync.down.b32 %x, %a, 2, 31, 0x55555555;",
            "shfl.sync.bfly.b32 %x, %a, 6, 31, 0xaaaaaaaa;",
        ),
    ] {
        let body = format!("{half}{even}{tail}{odd} DONE:");
        forms.body(format!("{name} of every other lane"), &[ty], &[ty], body);
    }
}

/// Reductions of predicates over a block.
fn barriers(forms: &mut Forms) {
    for barrier in ["bar.red", "barrier.cta.red", "barrier.red.aligned", "barrier.cta.red.aligned"]
    {
        for negated in ["", "!"] {
            for op in ["popc.u32", "and.pred", "or.pred"] {
                let ty = if op == "popc.u32" { "u32" } else { "pred" };
                let body = format!("{barrier}.{op} %x, 0, {negated}%a;");
                forms.body(body.clone(), &[ty], &["pred"], body);
                let body =
                    format!("setp.eq.u32 %p0, %a, 7; {barrier}.{op} %x, 1, 128, {negated}%p0;");
                forms.body(body.clone(), &[ty], &["u32"], body);
            }
        }
    }
    for other in [
        "bar.red.and.u32 %x, 0, %a;",
        "bar.red.popc.pred %x, 0, %a;",
        "bar.red.xor.pred %x, 0, %a;",
    ] {
        forms.body(other, &["u32"], &["pred"], other);
    }
}
