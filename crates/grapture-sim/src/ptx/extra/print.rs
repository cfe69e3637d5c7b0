//! Device-side `printf`: a call of `vprintf` with the format and a buffer of arguments.

use std::fmt;

use super::{Env, lanes};
use crate::ptx::exec::memory::{LaneFault, classify};
use crate::ptx::fault::FaultKind;
use crate::ptx::types::Space;

/// The longest string that is read from memory.
const LONGEST: usize = 64 << 10;

/// Where a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The standard output: what `printf` prints.
    Output,
    /// The standard error: what a failed `assert` says.
    Error,
}

/// Where the texts of kernels go.
pub trait Console: Sync + fmt::Debug {
    /// Takes what one thread prints at once.
    fn print(&self, channel: Channel, text: &[u8]);
}

/// `vprintf`: where its arguments and its result lie in the frame of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print {
    /// The address of the format.
    pub format: u32,
    /// The address of the arguments.
    pub arguments: u32,
    /// The result, if it is kept.
    pub result: Option<u32>,
}

impl Print {
    pub(super) fn run(self, env: &mut Env<'_, '_>, mask: u32) -> Result<(), LaneFault> {
        for lane in lanes(mask) {
            let mut thread = Thread { env: &mut *env, lane };
            let count = self.print(&mut thread).map_err(|kind| (kind, lane as u32))?;
            if let Some(result) = self.result {
                let at = u64::from(env.frame.local + result);
                let illegal = FaultKind::IllegalAddress { address: at, len: 4, write: true };
                let written = env.local.write(lane, at, 4, u64::from(count as u32));
                written.ok_or((illegal, lane as u32))?;
            }
        }
        Ok(())
    }

    /// Prints for one thread; answers how many arguments there were.
    fn print(self, thread: &mut Thread<'_, '_, '_>) -> Result<i32, FaultKind> {
        let format = thread.frame_word(self.format, 8)?;
        let arguments = thread.frame_word(self.arguments, 8)?;
        if format == 0 {
            return Ok(-1);
        }
        let format = thread.string(format)?;
        let mut reader = Arguments { thread, at: arguments, count: 0 };
        let text = expand(&format, &mut reader)?;
        let count = reader.count;
        thread.print(Channel::Output, &text);
        Ok(count)
    }
}

/// A thread whose memory is read.
pub(super) struct Thread<'t, 'e, 'm> {
    pub env: &'t mut Env<'e, 'm>,
    pub lane: usize,
}

impl Thread<'_, '_, '_> {
    /// Hands a text over.
    pub fn print(&self, channel: Channel, text: &[u8]) {
        if let Some(console) = self.env.machine.console {
            console.print(channel, text);
        }
    }

    /// A number in the frame of the function.
    pub fn frame_word(&mut self, at: u32, len: usize) -> Result<u64, FaultKind> {
        let frame = u64::from(self.env.frame.local);
        self.word((Space::Local, frame + u64::from(at)), len)
    }

    /// A number of at most eight bytes.
    fn word(&mut self, (space, at): (Space, u64), len: usize) -> Result<u64, FaultKind> {
        let illegal = FaultKind::IllegalAddress { address: at, len, write: false };
        if space == Space::Local {
            return self.env.local.read(self.lane, at, len).ok_or(illegal);
        }
        let mut bytes = [0; 8];
        let into = bytes.get_mut(..len).ok_or(illegal)?;
        let (region, offset) = self.env.memory.find(space, at, len).map_err(|_| illegal)?;
        region.read(offset, into).map_err(|_| illegal)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The text at a generic address, up to its zero.
    pub fn string(&mut self, address: u64) -> Result<Vec<u8>, FaultKind> {
        let mut text = Vec::new();
        while text.len() < LONGEST {
            match self.word(classify(address.wrapping_add(text.len() as u64)), 1)? {
                0 => break,
                byte => text.push(byte as u8),
            }
        }
        Ok(text)
    }
}

/// The arguments, one behind the other, each at a multiple of its size.
struct Arguments<'r, 't, 'e, 'm> {
    thread: &'r mut Thread<'t, 'e, 'm>,
    at: u64,
    count: i32,
}

impl Arguments<'_, '_, '_, '_> {
    fn next(&mut self, len: usize) -> Result<u64, FaultKind> {
        self.at = self.at.next_multiple_of(len as u64);
        let value = self.thread.word(classify(self.at), len)?;
        self.at += len as u64;
        self.count += 1;
        Ok(value)
    }
}

/// The text with the arguments in their places.
fn expand(format: &[u8], arguments: &mut Arguments<'_, '_, '_, '_>) -> Result<Vec<u8>, FaultKind> {
    let mut text = Vec::new();
    let mut rest = format;
    while let Some(start) = rest.iter().position(|byte| *byte == b'%') {
        let (plain, from) = rest.split_at(start);
        text.extend_from_slice(plain);
        let length = from.iter().skip(1).position(|byte| is_conversion(*byte));
        let Some(length) = length else {
            // A directive that does not end prints as it stands.
            text.extend_from_slice(from);
            return Ok(text);
        };
        let (directive, after) = from.split_at(length + 2);
        text.extend(convert(directive, arguments)?);
        rest = after;
    }
    text.extend_from_slice(rest);
    Ok(text)
}

fn is_conversion(byte: u8) -> bool {
    b"%csdiouxXpfFeEgGaA".contains(&byte)
}

/// What one directive prints.
fn convert(
    directive: &[u8],
    arguments: &mut Arguments<'_, '_, '_, '_>,
) -> Result<Vec<u8>, FaultKind> {
    let Some((kind, front)) = directive.split_last() else { return Ok(Vec::new()) };
    if *kind == b'%' {
        return Ok(b"%".to_vec());
    }
    // A precision cannot be an argument; the driver prints such a directive as it stands.
    if front.ends_with(b".*") {
        return Ok(directive.to_vec());
    }
    let mut flags = String::new();
    for byte in front {
        match byte {
            b'*' => flags.push_str(&(arguments.next(4)? as i32).to_string()),
            b'h' | b'l' | b'L' | b'j' | b'z' | b't' => {}
            byte => flags.push(char::from(*byte)),
        }
    }
    let long = front.iter().any(|byte| b"ljzt".contains(byte));
    let short = front.iter().filter(|byte| **byte == b'h').count();
    let spec = |kind: char| format!("{flags}{kind}");
    let printed = match kind {
        b's' => {
            let address = arguments.next(8)?;
            let string =
                if address == 0 { b"(null)".to_vec() } else { arguments.thread.string(address)? };
            let shown = precision(&flags).map_or(string.len(), |limit| limit.min(string.len()));
            return Ok(padded(&flags, string.get(..shown).unwrap_or(&string).to_vec()));
        }
        b'c' => return Ok(padded(&flags, vec![arguments.next(4)? as u8])),
        b'd' | b'i' => {
            let value = match (long, short) {
                (true, _) => arguments.next(8)? as i64,
                (_, 0) => i64::from(arguments.next(4)? as i32),
                (_, 1) => i64::from(arguments.next(4)? as i16),
                _ => i64::from(arguments.next(4)? as i8),
            };
            sprintf::vsprintf(&spec('d'), &[&value])
        }
        b'o' | b'u' | b'x' | b'X' => {
            let value = match (long, short) {
                (true, _) => arguments.next(8)?,
                (_, 0) => arguments.next(4)?,
                (_, 1) => arguments.next(4)? & 0xffff,
                _ => arguments.next(4)? & 0xff,
            };
            sprintf::vsprintf(&spec(char::from(*kind)), &[&value])
        }
        b'p' => {
            let address = arguments.next(8)?;
            if address == 0 {
                return Ok(padded(&flags, b"(nil)".to_vec()));
            }
            return Ok(padded(&flags, format!("{address:#x}").into_bytes()));
        }
        b'a' | b'A' => {
            let text = hexadecimal(f64::from_bits(arguments.next(8)?));
            let text = if *kind == b'A' { text.to_uppercase() } else { text };
            return Ok(padded(&flags, text.into_bytes()));
        }
        _ => {
            let value = f64::from_bits(arguments.next(8)?);
            if !value.is_finite() {
                let text = hexadecimal(value);
                let text = if kind.is_ascii_uppercase() { text.to_uppercase() } else { text };
                return Ok(padded(&flags, text.into_bytes()));
            }
            if matches!(kind, b'g' | b'G') {
                return Ok(padded(&flags, compact(&flags, *kind == b'G', value).into_bytes()));
            }
            sprintf::vsprintf(&spec(char::from(*kind)), &[&value])
        }
    };
    // A directive that makes no sense prints as it stands.
    Ok(printed.map_or_else(|_| directive.to_vec(), String::into_bytes))
}

/// The precision in the flags, if there is one.
fn precision(flags: &str) -> Option<usize> {
    flags.split_once('.').map(|(_, digits)| digits.parse().unwrap_or(0))
}

/// A number in the shorter of two ways and without needless zeros, as `%g` writes it.
fn compact(flags: &str, upper: bool, value: f64) -> String {
    let digits = precision(flags).unwrap_or(6).max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let exponent = scientific.split_once('e').and_then(|(_, power)| power.parse::<i32>().ok());
    let exponent = exponent.unwrap_or(0);
    let sign = if flags.contains('+') && !value.is_sign_negative() { "+" } else { "" };
    let trimmed = |text: &str| match text.contains('.') {
        true if !flags.contains('#') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let mantissa = scientific.split('e').next().unwrap_or("");
        let (letter, power) = (if upper { 'E' } else { 'e' }, exponent.unsigned_abs());
        let minus = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}{letter}{minus}{power:02}", trimmed(mantissa));
    }
    let decimals = (digits as i32 - 1 - exponent).unsigned_abs() as usize;
    format!("{sign}{}", trimmed(&format!("{value:.decimals$}")))
}

/// A text filled up to the width that the flags (`%-10.3`) say.
fn padded(flags: &str, text: Vec<u8>) -> Vec<u8> {
    let flags = flags.trim_start_matches('%');
    let numbers = flags.trim_start_matches(['-', '+', ' ', '#', '0']);
    let width = numbers.split('.').next().and_then(|width| width.parse::<usize>().ok());
    let missing = vec![b' '; width.unwrap_or(0).min(LONGEST).saturating_sub(text.len())];
    if flags.contains('-') { [text, missing].concat() } else { [missing, text].concat() }
}

/// A number in hexadecimal, as `%a` writes it.
fn hexadecimal(value: f64) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if !value.is_finite() {
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let bits = value.to_bits();
    let (biased, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let (lead, exponent) = match (biased, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        _ => (1, biased - 1023),
    };
    format!("{sign}0x{lead}{point}{digits}p{exponent:+}")
}
