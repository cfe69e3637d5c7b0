//! Text to tokens.

use super::error::{CompileError, Position, Result};

/// What a token is; the text is a slice of the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenKind<'a> {
    /// A name, with its leading `%`, `$` or `_`.
    Name(&'a str),
    /// A dotted word, without the dot: `.reg`, `.f32`, `.L1::evict_last`.
    Dot(&'a str),
    /// An integer literal; `true` when written with the suffix `U`.
    Integer(u64, bool),
    /// The bits of a single-precision literal `0f…`.
    Single(u32),
    /// A double-precision literal, `0d…` or decimal.
    Double(f64),
    /// The content of a string literal.
    Text(&'a str),
    /// Punctuation, one or two characters.
    Punct(&'static str),
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind<'a>,
    /// Where it starts.
    pub at: Position,
    /// Byte offset of its first character in the source.
    pub start: usize,
    /// Byte offset past its last character.
    pub end: usize,
}

const PUNCTUATION: [&str; 33] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", "[", "]", "<", ">", ",",
    ";", ":", "=", "+", "-", "*", "/", "%", "!", "~", "&", "|", "^", "?", "@", "#",
];

/// Splits the text; comments and blanks vanish.
///
/// # Errors
/// A character that starts no token, an unterminated comment or string, a malformed number.
pub fn tokenize(text: &str) -> Result<Vec<Token<'_>>> {
    let mut lexer = Lexer { text, offset: 0, line: 1, line_start: 0 };
    let mut tokens = Vec::with_capacity(text.len() / 4);
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == TokenKind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    offset: usize,
    line: u32,
    line_start: usize,
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

impl<'a> Lexer<'a> {
    fn at(&self) -> Position {
        let column = self.offset.saturating_sub(self.line_start) + 1;
        Position { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.offset + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or("")
    }

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.offset += 1;
                    self.line += 1;
                    self.line_start = self.offset;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.offset += 1,
                0 if self.offset < self.text.len() && self.rest().bytes().all(|b| b == 0) => {
                    self.offset = self.text.len();
                }
                b'/' if self.peek(1) == b'/' => {
                    let length = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.offset += length;
                }
                b'/' if self.peek(1) == b'*' => self.skip_block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_block_comment(&mut self) -> Result<()> {
        let at = self.at();
        let Some(length) = self.rest().get(2..).and_then(|rest| rest.find("*/")) else {
            return Err(CompileError::invalid(at, "unterminated comment"));
        };
        let end = self.offset + length + 4;
        for (index, byte) in self.text.bytes().enumerate().take(end).skip(self.offset) {
            if byte == b'\n' {
                self.line += 1;
                self.line_start = index + 1;
            }
        }
        self.offset = end;
        Ok(())
    }

    fn next(&mut self) -> Result<Token<'a>> {
        self.skip_blank()?;
        let at = self.at();
        let start = self.offset;
        let kind = self.kind(at)?;
        Ok(Token { kind, at, start, end: self.offset })
    }

    fn kind(&mut self, at: Position) -> Result<TokenKind<'a>> {
        let first = self.peek(0);
        if self.offset >= self.text.len() {
            return Ok(TokenKind::End);
        }
        if first.is_ascii_digit() {
            return self.number(at);
        }
        if first == b'"' {
            return self.string(at);
        }
        if first == b'.' && (is_name(self.peek(1)) || self.peek(1) == b'%') {
            self.offset += 1;
            return Ok(TokenKind::Dot(self.dotted()));
        }
        if is_name_start(first) && (first != b'%' || is_name(self.peek(1))) {
            let start = self.offset;
            self.offset += 1;
            while is_name(self.peek(0)) {
                self.offset += 1;
            }
            return Ok(TokenKind::Name(self.text.get(start..self.offset).unwrap_or("")));
        }
        for punct in PUNCTUATION {
            if self.rest().starts_with(punct) {
                self.offset += punct.len();
                return Ok(TokenKind::Punct(punct));
            }
        }
        let shown = self.rest().chars().next().unwrap_or(' ');
        Err(CompileError::invalid(at, format!("unexpected character {shown:?}")))
    }

    fn dotted(&mut self) -> &'a str {
        let start = self.offset;
        loop {
            if is_name(self.peek(0)) {
                self.offset += 1;
            } else if self.peek(0) == b':' && self.peek(1) == b':' && is_name(self.peek(2)) {
                self.offset += 2;
            } else {
                return self.text.get(start..self.offset).unwrap_or("");
            }
        }
    }

    fn string(&mut self, at: Position) -> Result<TokenKind<'a>> {
        let rest = self.rest().get(1..).unwrap_or("");
        let mut escaped = false;
        for (length, byte) in rest.bytes().enumerate() {
            match byte {
                b'"' if !escaped => {
                    self.offset += length + 2;
                    return Ok(TokenKind::Text(rest.get(..length).unwrap_or("")));
                }
                b'\n' => break,
                _ => escaped = byte == b'\\' && !escaped,
            }
        }
        Err(CompileError::invalid(at, "unterminated string"))
    }

    fn number(&mut self, at: Position) -> Result<TokenKind<'a>> {
        let start = self.offset;
        let bad = |text: &str| CompileError::invalid(at, format!("malformed number '{text}'"));
        while self.number_continues(start) {
            self.offset += 1;
        }
        let text = self.text.get(start..self.offset).unwrap_or("");
        if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F"))
            && hex.len() == 8
        {
            return u32::from_str_radix(hex, 16).map(TokenKind::Single).map_err(|_| bad(text));
        }
        if let Some(hex) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D"))
            && hex.len() == 16
        {
            let bits = u64::from_str_radix(hex, 16).map_err(|_| bad(text))?;
            return Ok(TokenKind::Double(f64::from_bits(bits)));
        }
        let (digits, unsigned) = match text.strip_suffix(['U', 'u']) {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let lower = digits.to_ascii_lowercase();
        let integer = if let Some(hex) = lower.strip_prefix("0x") {
            u64::from_str_radix(hex, 16)
        } else if let Some(binary) = lower.strip_prefix("0b") {
            u64::from_str_radix(binary, 2)
        } else if lower.len() > 1
            && lower.starts_with('0')
            && lower.bytes().all(|b| b.is_ascii_digit())
        {
            u64::from_str_radix(&lower, 8)
        } else {
            lower.parse()
        };
        if let Ok(value) = integer {
            return Ok(TokenKind::Integer(value, unsigned));
        }
        if lower.starts_with("0x") || !lower.contains(['.', 'e']) {
            return Err(bad(text));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(TokenKind::Double(value)),
            _ => Err(bad(text)),
        }
    }

    fn number_continues(&self, start: usize) -> bool {
        let byte = self.peek(0);
        let text = self.text.get(start..self.offset).unwrap_or("");
        let hex = text.starts_with("0x") || text.starts_with("0X");
        byte.is_ascii_alphanumeric()
            || (byte == b'.' && !hex && !text.contains(['.', 'e', 'E']))
            || (matches!(byte, b'+' | b'-')
                && !hex
                && !text.starts_with("0f")
                && !text.starts_with("0F")
                && !text.starts_with("0d")
                && !text.starts_with("0D")
                && text.ends_with(['e', 'E']))
    }
}
