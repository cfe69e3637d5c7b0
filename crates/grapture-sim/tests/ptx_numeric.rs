//! Kernels that nvcc compiled, run by the interpreter: integers, floating point, conversions.

#[path = "ptx/support.rs"]
mod support;

use support::{Device, Run, args, module, random};

fn bits32(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn wide_integers_multiply_divide_and_shift() {
    let module = module(include_str!("ptx/integer.ptx"));
    let mut next = random(5);
    let mut value = || {
        let bits = next();
        match bits & 7 {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << 63,
            3 => bits >> 40,
            _ => bits,
        }
    };
    let (a, b): (Vec<u64>, Vec<u64>) = (0..256).map(|_| (value(), value())).unzip();
    let mut device = Device::default();
    let (da, db, out) = (device.upload(&a), device.upload(&b), device.zeros::<u64>(2560));
    let run = Run::new(&mut device, &module);
    run.go("wide", [2, 1, 1], [128, 1, 1], &args().with(da).with(db).with(out)).unwrap();
    for (i, got) in device.download::<u64>(out).chunks(10).enumerate() {
        let (x, y) = (a[i], b[i]);
        let (sx, sy) = (x as i64, y as i64);
        let want = [
            x.wrapping_mul(y),
            ((u128::from(x) * u128::from(y)) >> 64) as u64,
            ((i128::from(sx) * i128::from(sy)) >> 64) as u64,
            x.checked_div(y).unwrap_or(0),
            x.checked_rem(y).unwrap_or(0),
            if y == 0 { 0 } else { sx.wrapping_div(sy) as u64 },
            u64::from(x as u32) * u64::from(y as u32),
            (i64::from(x as i32) * i64::from(y as i32)) as u64,
            x << (y & 63),
            (sx >> (y & 63)) as u64,
        ];
        assert_eq!(got, want, "{x:#x} {y:#x}");
    }
}

#[test]
fn bit_instructions_agree_with_rust() {
    let module = module(include_str!("ptx/integer.ptx"));
    let mut next = random(6);
    let mut value = || {
        let bits = next() as u32;
        if bits & 7 == 0 { 0 } else { bits >> (bits & 3) }
    };
    let (a, b): (Vec<u32>, Vec<u32>) = (0..256).map(|_| (value(), value())).unzip();
    let mut device = Device::default();
    let (da, db, out) = (device.upload(&a), device.upload(&b), device.zeros::<u32>(4096));
    let run = Run::new(&mut device, &module);
    run.go("bits", [4, 1, 1], [64, 1, 1], &args().with(da).with(db).with(out)).unwrap();
    for (i, got) in device.download::<u32>(out).chunks(16).enumerate() {
        let (x, y) = (a[i], b[i]);
        let (sx, sy) = (x as i32, y as i32);
        let pair = u64::from(y) << 32 | u64::from(x);
        let byte = |n: u32| (pair >> (8 * n)) as u32 & 0xff;
        let dot: i32 =
            (0..4).map(|n| i32::from((x >> (8 * n)) as i8) * i32::from((y >> (8 * n)) as i8)).sum();
        let want = [
            x.count_ones(),
            x.leading_zeros(),
            if x == 0 { 0 } else { x.trailing_zeros() + 1 },
            x.reverse_bits(),
            byte(5) | byte(1) << 8 | byte(7) << 16 | byte(3) << 24,
            ((pair << 7) >> 32) as u32,
            (pair >> (y & 31)) as u32,
            ((u64::from(x) * u64::from(y)) >> 32) as u32,
            ((i64::from(sx) * i64::from(sy)) >> 32) as u32,
            sx.abs_diff(sy).wrapping_add(3),
            dot.wrapping_add(5) as u32,
            (x & y) ^ (!x | 0x0f0f_0f0f),
            x.checked_div(y).unwrap_or(0),
            if y == 0 { 0 } else { sx.wrapping_rem((y | 1) as i32) as u32 },
            (i32::from(x as i16).wrapping_mul(i32::from(y as u16))) as u32,
            (sx.min(sy) as u32).wrapping_add(x.max(y)).wrapping_add(sx.wrapping_abs() as u32),
        ];
        assert_eq!(got, want, "{x:#x} {y:#x}");
    }
}

#[test]
fn carries_pass_from_word_to_word() {
    let module = module(include_str!("ptx/integer.ptx"));
    let mut next = random(7);
    let mut word = || if next() & 3 == 0 { u32::MAX } else { next() as u32 };
    let (a, b): (Vec<u32>, Vec<u32>) = (0..3 * 64).map(|_| (word(), word())).unzip();
    let mut device = Device::default();
    let (da, db, out) = (device.upload(&a), device.upload(&b), device.zeros::<u32>(6 * 64));
    let run = Run::new(&mut device, &module);
    run.go("carry", [1, 1, 1], [64, 1, 1], &args().with(da).with(db).with(out)).unwrap();
    let number = |w: &[u32]| u128::from(w[0]) | u128::from(w[1]) << 32 | u128::from(w[2]) << 64;
    let mask = (1 << 96) - 1;
    for (i, got) in device.download::<u32>(out).chunks(6).enumerate() {
        let (x, y) = (number(&a[3 * i..]), number(&b[3 * i..]));
        assert_eq!(number(got), (x + y) & mask);
        assert_eq!(number(&got[3..]), x.wrapping_sub(y) & mask);
    }
}

/// Numbers where rounding matters, with the special ones among them.
fn reals(seed: u64, count: usize) -> Vec<f64> {
    let mut next = random(seed);
    let special = [
        0.0,
        -0.0,
        1.0,
        f64::INFINITY,
        f64::NAN,
        -f64::INFINITY,
        1e-40,
        f64::from(f32::MAX),
        1e-310,
    ];
    (0..count)
        .map(|i| match special.get(i / 7) {
            Some(special) if i % 7 == 0 => *special,
            _ => f64::from_bits(next() & 0x800f_ffff_ffff_ffff | (1000 + next() % 46) << 52),
        })
        .collect()
}

/// Checks a result in the four modes against intervals around the exact value, given the result
/// to nearest and the sign of the exact value minus that.
fn check_modes(
    got: [f64; 4],
    near: f64,
    error: f64,
    down: impl Fn(f64) -> f64,
    up: impl Fn(f64) -> f64,
    what: &str,
) {
    let [rn, rz, ru, rd] = got;
    if near.is_nan() {
        assert!(got.iter().all(|v| v.is_nan()), "{what} {got:?}");
        return;
    }
    assert_eq!(rn.to_bits(), near.to_bits(), "{what}");
    if near.is_infinite() || near.abs() < 1e-30 {
        return;
    }
    let want_up = if error > 0.0 { up(near) } else { near };
    let want_down = if error < 0.0 { down(near) } else { near };
    assert_eq!((ru, rd), (want_up, want_down), "{what} {near:e} {error:e}");
    assert_eq!(rz, if near > 0.0 { want_down } else { want_up }, "{what}");
}

/// How far the exact sum lies above `near`, which is its rounding to single precision.
fn error_of_sum(x: f64, y: f64, near: f64) -> f64 {
    let sum = x + y;
    let back = sum - x;
    (sum - near) + ((x - (sum - back)) + (y - back))
}

#[test]
fn single_precision_rounds_in_every_mode() {
    let module = module(include_str!("ptx/floating.ptx"));
    let narrow = |seed| reals(seed, 256).into_iter().map(|v| v as f32).collect::<Vec<f32>>();
    let (a, b, c) = (narrow(11), narrow(12), narrow(13));
    let mut device = Device::default();
    let (da, db, dc) = (device.upload(&a), device.upload(&b), device.upload(&c));
    let out = device.zeros::<f32>(24 * 256);
    let run = Run::new(&mut device, &module);
    run.go("rounding32", [2, 1, 1], [128, 1, 1], &args().with(da).with(db).with(dc).with(out))
        .unwrap();
    let (down, up) =
        (|v: f64| f64::from((v as f32).next_down()), |v: f64| f64::from((v as f32).next_up()));
    for (i, got) in device.download::<f32>(out).chunks(24).enumerate() {
        let (x, y, z) = (a[i], b[i], c[i]);
        let (wx, wy) = (f64::from(x), f64::from(y));
        let four = |n: usize| [0, 1, 2, 3].map(|m| f64::from(got[4 * n + m]));
        let near = |v: f32| f64::from(v);
        // Products of singles are exact in double precision.
        let sum = near(x + y);
        check_modes(four(0), sum, error_of_sum(wx, wy, sum), down, up, "add");
        check_modes(four(1), near(x * y), wx * wy - near(x * y), down, up, "mul");
        let fused = near(x.mul_add(y, z));
        check_modes(four(2), fused, error_of_sum(wx * wy, f64::from(z), fused), down, up, "fma");
        let quotient = near(x / y);
        check_modes(four(3), quotient, (-quotient).mul_add(wy, wx) * wy.signum(), down, up, "div");
        let root = near(x.sqrt());
        check_modes(four(4), root, (-root).mul_add(root, wx), down, up, "sqrt");
        let nan = f32::from_bits(0x7fff_ffff);
        let min = if x.is_nan() && y.is_nan() { nan } else { x.min(y) };
        assert_eq!(got[20].to_bits() & 0x7fff_ffff, min.to_bits() & 0x7fff_ffff);
        let magnitude = if x.is_nan() { nan } else { x.abs() };
        assert_eq!(got[22].to_bits(), magnitude.to_bits());
        let clamped = if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) };
        assert_eq!(got[23], clamped);
        for value in &got[..20] {
            assert!(
                !value.is_nan() || value.to_bits() == 0x7fff_ffff,
                "NaN {:#x}",
                value.to_bits()
            );
        }
    }
}

#[test]
fn double_precision_rounds_in_every_mode() {
    let module = module(include_str!("ptx/floating.ptx"));
    let (a, b, c) = (reals(21, 256), reals(22, 256), reals(23, 256));
    let mut device = Device::default();
    let (da, db, dc) = (device.upload(&a), device.upload(&b), device.upload(&c));
    let out = device.zeros::<f64>(20 * 256);
    let run = Run::new(&mut device, &module);
    run.go("rounding64", [2, 1, 1], [128, 1, 1], &args().with(da).with(db).with(dc).with(out))
        .unwrap();
    for (i, got) in device.download::<f64>(out).chunks(20).enumerate() {
        let (x, y) = (a[i], b[i]);
        let four = |n: usize| [0, 1, 2, 3].map(|m| got[4 * n + m]);
        let sum = x + y;
        let back = sum - x;
        let error = (x - (sum - back)) + (y - back);
        check_modes(four(0), sum, error, f64::next_down, f64::next_up, "add");
        check_modes(four(1), x * y, x.mul_add(y, -(x * y)), f64::next_down, f64::next_up, "mul");
        assert_eq!(
            got[8].to_bits(),
            if got[8].is_nan() { got[8].to_bits() } else { x.mul_add(y, c[i]).to_bits() }
        );
        let quotient = x / y;
        let error = (-quotient).mul_add(y, x) * y.signum();
        check_modes(four(3), quotient, error, f64::next_down, f64::next_up, "div");
        let root = x.sqrt();
        check_modes(four(4), root, (-root).mul_add(root, x), f64::next_down, f64::next_up, "sqrt");
    }
}

#[test]
fn conversions_round_and_clamp() {
    let module = module(include_str!("ptx/floating.ptx"));
    let mut f: Vec<f32> =
        vec![0.5, 1.5, 2.5, -0.5, -1.5, 1e10, -1e10, 3e20, 65504.0, 65520.0, 1e-8, 7e-8, -3.7];
    f.extend([f32::INFINITY, f32::NEG_INFINITY, 123_456.79, 0.1, -0.1, 2_147_483_500.0]);
    f.resize(64, 3.25);
    let d: Vec<f64> = f.iter().map(|v| f64::from(*v) * 1.000_000_001).collect();
    let mut device = Device::default();
    let (df, dd) = (device.upload(&f), device.upload(&d));
    let (small, long, back) =
        (device.zeros::<i32>(8 * 64), device.zeros::<i64>(3 * 64), device.zeros::<f32>(6 * 64));
    let run = Run::new(&mut device, &module);
    let params = args().with(df).with(dd).with(small).with(long).with(back);
    run.go("convert", [2, 1, 1], [32, 1, 1], &params).unwrap();
    let (small, long, back): (Vec<i32>, Vec<i64>, Vec<f32>) =
        (device.download(small), device.download(long), device.download(back));
    for i in 0..64 {
        let (x, y) = (f[i], d[i]);
        let whole = x.trunc() as i32;
        let want = [
            x.round_ties_even() as i32,
            whole,
            x.ceil() as i32,
            x.floor() as i32,
            x as u32 as i32,
            y as i32,
            i32::from(whole as i8),
            i32::from(whole as u16),
        ];
        assert_eq!(small[8 * i..8 * i + 8], want, "{x}");
        assert_eq!(
            long[3 * i..3 * i + 3],
            [x as i64, y.round_ties_even() as i64, y as u64 as i64],
            "{x}"
        );
        let up = if f64::from(y as f32) < y { (y as f32).next_up() } else { y as f32 };
        assert_eq!(bits32(&back[6 * i..6 * i + 2]), bits32(&[y as f32, up]), "{y}");
        let integer = small[8 * i];
        let near = integer as f32;
        let excess = f64::from(near).abs() > f64::from(integer).abs();
        let zero = if !excess {
            near
        } else if near > 0.0 {
            near.next_down()
        } else {
            near.next_up()
        };
        assert_eq!(back[6 * i + 2], zero);
        assert_eq!(bits32(&back[6 * i + 3..6 * i + 4]), bits32(&[x.trunc()]));
        assert_eq!(back[6 * i + 5], x.round_ties_even());
    }
    let half = |i: usize| back[6 * i + 4];
    assert_eq!([half(5), half(8), half(9), half(10)], [f32::INFINITY, 65504.0, f32::INFINITY, 0.0]);
    assert_eq!(half(11), f32::from_bits(0x3380_0000), "rounds up to the smallest subnormal half");
    assert_eq!(half(16), 0.099_975_586);
}

#[test]
fn library_functions_come_out_right() {
    let module = module(include_str!("ptx/floating.ptx"));
    let a: Vec<f32> =
        (0..96).map(|i| (i as f32 - 48.0) * 0.33).chain([1e6, -3e7, 1e10, 0.0]).collect();
    let b: Vec<f64> = a.iter().map(|v| f64::from(*v)).collect();
    let mut device = Device::default();
    let (da, db) = (device.upload(&a), device.upload(&b));
    let (out, wide) = (device.zeros::<f32>(6 * 100), device.zeros::<f64>(2 * 100));
    let run = Run::new(&mut device, &module);
    run.go("math", [1, 1, 1], [100, 1, 1], &args().with(da).with(db).with(out).with(wide)).unwrap();
    let (out, wide): (Vec<f32>, Vec<f64>) = (device.download(out), device.download(wide));
    let close = |got: f64, want: f64, tolerance: f64, what: &str| {
        let same = got == want || (got - want).abs() <= tolerance * want.abs().max(1e-3);
        assert!(same, "{what}: {got:e}, not {want:e}");
    };
    for i in 0..100 {
        let x = b[i];
        let got: Vec<f64> = out[6 * i..6 * i + 6].iter().map(|v| f64::from(*v)).collect();
        close(got[0], x.sin(), 1e-5, "sin");
        if x.abs() < 80.0 {
            close(got[1], x.exp(), 1e-5, "exp");
        }
        close(got[2], (x.abs() + 1.0).ln(), 1e-5, "log");
        close(got[3], x.abs().powf(1.5), 1e-5, "pow");
        close(got[4], 1.0 / (x.abs() + 1.0).sqrt(), 1e-5, "rsqrt");
        close(got[5], x.tanh(), 1e-5, "tanh");
        close(wide[2 * i], x.sin(), 1e-12, "double sin");
        if x.abs() < 80.0 {
            close(wide[2 * i + 1], x.exp() / (1.0 + x * x), 1e-13, "double exp");
        }
    }
}
