//! Constant expressions, evaluated as they are read.

use super::Parser;
use crate::ptx::ast::Constant;
use crate::ptx::error::{CompileError, Position, Result};
use crate::ptx::lexer::TokenKind;

const BINARY: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'a> Parser<'a> {
    /// A constant expression.
    pub(super) fn constant(&mut self) -> Result<Constant<'a>> {
        self.nested(|parser| {
            let condition = parser.binary(0)?;
            if !parser.accept("?") {
                return Ok(condition);
            }
            let at = parser.at();
            let yes = parser.constant()?;
            parser.expect(":")?;
            let no = parser.constant()?;
            Ok(if integer(at, condition)? != 0 { yes } else { no })
        })
    }

    /// A constant expression whose value is an integer.
    pub(super) fn integer(&mut self) -> Result<u64> {
        let at = self.at();
        let value = self.constant()?;
        integer(at, value)
    }

    fn binary(&mut self, level: usize) -> Result<Constant<'a>> {
        let Some(operators) = BINARY.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let at = self.at();
            let TokenKind::Punct(operator) = self.peek() else {
                return Ok(left);
            };
            if !operators.contains(&operator) {
                return Ok(left);
            }
            self.advance();
            let right = self.binary(level + 1)?;
            left = combine(at, operator, left, right)?;
        }
    }

    fn unary(&mut self) -> Result<Constant<'a>> {
        let at = self.at();
        let TokenKind::Punct(operator) = self.peek() else {
            return self.primary();
        };
        match operator {
            "-" | "+" | "~" | "!" => {
                self.advance();
                let value = self.nested(Self::unary)?;
                negate(at, operator, value)
            }
            "(" => {
                if let TokenKind::Dot(ty @ ("s64" | "u64")) = self.peek_at(1) {
                    self.advance();
                    self.advance();
                    self.expect(")")?;
                    let value = self.nested(Self::unary)?;
                    return Ok(cast(ty, value));
                }
                self.advance();
                let value = self.constant()?;
                self.expect(")")?;
                Ok(value)
            }
            _ => self.primary(),
        }
    }

    fn primary(&mut self) -> Result<Constant<'a>> {
        match self.peek() {
            TokenKind::Integer(value, _) => {
                self.advance();
                Ok(Constant::Integer(value))
            }
            TokenKind::Single(bits) => {
                self.advance();
                Ok(Constant::Single(bits))
            }
            TokenKind::Double(value) => {
                self.advance();
                Ok(Constant::Double(value))
            }
            TokenKind::Name("generic") if self.peek_at(1) == TokenKind::Punct("(") => {
                self.advance();
                self.advance();
                let name = self.name()?;
                self.expect(")")?;
                Ok(Constant::Symbol { name, addend: 0, generic: true })
            }
            TokenKind::Name("WARP_SZ") => {
                self.advance();
                Ok(Constant::Integer(32))
            }
            TokenKind::Name(name) => {
                self.advance();
                Ok(Constant::Symbol { name, addend: 0, generic: false })
            }
            _ => Err(self.unexpected("a constant")),
        }
    }
}

fn integer(at: Position, value: Constant<'_>) -> Result<u64> {
    match value {
        Constant::Integer(value) => Ok(value),
        _ => Err(CompileError::invalid(at, "expected an integer constant")),
    }
}

fn cast<'a>(ty: &str, value: Constant<'a>) -> Constant<'a> {
    match value {
        Constant::Double(number) if ty == "s64" => Constant::Integer((number as i64) as u64),
        Constant::Double(number) => Constant::Integer(number as u64),
        other => other,
    }
}

fn negate<'a>(at: Position, operator: &str, value: Constant<'a>) -> Result<Constant<'a>> {
    Ok(match (operator, value) {
        ("-", Constant::Integer(value)) => Constant::Integer(value.wrapping_neg()),
        ("-", Constant::Single(bits)) => Constant::Single(bits ^ 0x8000_0000),
        ("-", Constant::Double(value)) => Constant::Double(-value),
        ("~", Constant::Integer(value)) => Constant::Integer(!value),
        ("!", Constant::Integer(value)) => Constant::Integer(u64::from(value == 0)),
        ("+", value) => value,
        _ => {
            return Err(CompileError::invalid(
                at,
                format!("operator '{operator}' does not apply here"),
            ));
        }
    })
}

fn combine<'a>(
    at: Position,
    operator: &str,
    left: Constant<'a>,
    right: Constant<'a>,
) -> Result<Constant<'a>> {
    match (left, right) {
        (Constant::Integer(a), Constant::Integer(b)) => {
            arithmetic(at, operator, a, b).map(Constant::Integer)
        }
        (Constant::Symbol { name, addend, generic }, Constant::Integer(b))
            if matches!(operator, "+" | "-") =>
        {
            let b = if operator == "-" { b.wrapping_neg() } else { b };
            Ok(Constant::Symbol { name, addend: addend.wrapping_add(b as i64), generic })
        }
        (Constant::Integer(b), Constant::Symbol { name, addend, generic }) if operator == "+" => {
            Ok(Constant::Symbol { name, addend: addend.wrapping_add(b as i64), generic })
        }
        (Constant::Double(a), Constant::Double(b)) => Ok(Constant::Double(match operator {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            _ => {
                return Err(CompileError::invalid(
                    at,
                    format!("operator '{operator}' does not apply here"),
                ));
            }
        })),
        _ => Err(CompileError::invalid(at, format!("operator '{operator}' does not apply here"))),
    }
}

fn arithmetic(at: Position, operator: &str, a: u64, b: u64) -> Result<u64> {
    let (signed_a, signed_b) = (a as i64, b as i64);
    let divisor =
        || if b == 0 { Err(CompileError::invalid(at, "division by zero")) } else { Ok(signed_b) };
    Ok(match operator {
        "||" => u64::from(a != 0 || b != 0),
        "&&" => u64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => u64::from(a == b),
        "!=" => u64::from(a != b),
        "<" => u64::from(signed_a < signed_b),
        "<=" => u64::from(signed_a <= signed_b),
        ">" => u64::from(signed_a > signed_b),
        ">=" => u64::from(signed_a >= signed_b),
        "<<" => a.checked_shl(u32::try_from(b).unwrap_or(64)).unwrap_or(0),
        ">>" => a.checked_shr(u32::try_from(b).unwrap_or(64)).unwrap_or(0),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => signed_a.wrapping_div(divisor()?) as u64,
        _ => signed_a.wrapping_rem(divisor()?) as u64,
    })
}
