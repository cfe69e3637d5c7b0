//! Statements and their operands.

use super::Parser;
use crate::ptx::ast::{AddressBase, Constant, Instruction, Linkage, Operand, Statement};
use crate::ptx::error::{CompileError, Result};
use crate::ptx::lexer::TokenKind;

impl<'a> Parser<'a> {
    /// One statement; a declaration of several variables gives several.
    pub(super) fn statement(&mut self, into: &mut Vec<Statement<'a>>) -> Result<()> {
        let at = self.at();
        match self.peek() {
            TokenKind::Punct("{") => {
                self.advance();
                let block = self.body()?;
                into.push(Statement::Block(block));
            }
            TokenKind::Punct(";") => {
                self.advance();
            }
            TokenKind::Dot("loc" | "pragma" | "file") => self.skip_directive()?,
            TokenKind::Dot("reg" | "local" | "shared" | "param" | "global" | "const") => {
                let mut variables = Vec::new();
                self.variables(Linkage::Internal, &mut variables)?;
                self.expect(";")?;
                into.extend(variables.into_iter().map(Statement::Variable));
            }
            TokenKind::Name(name) if self.peek_at(1) == TokenKind::Punct(":") => {
                self.advance();
                self.advance();
                self.labelled(at, name, into)?;
            }
            TokenKind::Name(_) | TokenKind::Punct("@") => {
                let instruction = self.instruction()?;
                into.push(Statement::Instruction(instruction));
            }
            TokenKind::Dot(word) => {
                return Err(CompileError::invalid(at, format!("unknown directive '.{word}'")));
            }
            _ => return Err(self.unexpected("a statement")),
        }
        Ok(())
    }

    fn labelled(
        &mut self,
        at: crate::ptx::error::Position,
        name: &'a str,
        into: &mut Vec<Statement<'a>>,
    ) -> Result<()> {
        if self.accept_dot("branchtargets") {
            let mut targets = Vec::new();
            loop {
                let at = self.at();
                targets.push((at, self.name()?));
                if !self.accept(",") {
                    break;
                }
            }
            into.push(Statement::Targets(name, targets));
            return self.expect(";");
        }
        if self.accept_dot("callprototype") {
            if self.peek() == TokenKind::Punct("(") {
                self.parameters()?;
            }
            self.name()?;
            if self.peek() == TokenKind::Punct("(") {
                self.parameters()?;
            }
            self.accept_dot("noreturn");
            into.push(Statement::Prototype(name));
            return self.expect(";");
        }
        if self.accept_dot("calltargets") {
            while self.peek() != TokenKind::Punct(";") {
                self.name()?;
                self.accept(",");
            }
            into.push(Statement::Prototype(name));
            return self.expect(";");
        }
        into.push(Statement::Label(at, name));
        Ok(())
    }

    fn instruction(&mut self) -> Result<Instruction<'a>> {
        let mut guard = None;
        if self.accept("@") {
            let negated = self.accept("!");
            guard = Some((self.name()?, negated));
        }
        let at = self.at();
        let opcode = self.name()?;
        let mut modifiers = Vec::new();
        while let TokenKind::Dot(word) = self.peek() {
            self.advance();
            modifiers.push(word);
        }
        let mut operands = Vec::new();
        if !self.accept(";") {
            loop {
                let operand = self.operand().map_err(|error| error.within(opcode));
                operands.push(operand?);
                if !self.accept(",") {
                    break;
                }
            }
            self.expect(";")?;
        }
        Ok(Instruction { at, guard, opcode, modifiers, operands })
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        match self.peek() {
            TokenKind::Punct("[") => self.address(),
            TokenKind::Punct("{") => {
                self.advance();
                Ok(Operand::Vector(self.list("}")?))
            }
            TokenKind::Punct("!") => {
                if let TokenKind::Name(_) = self.peek_at(1) {
                    self.advance();
                    return Ok(Operand::Not(self.name()?));
                }
                Ok(Operand::Constant(self.constant()?))
            }
            TokenKind::Punct("(")
                if !matches!(self.peek_at(1), TokenKind::Integer(..) | TokenKind::Punct("-")) =>
            {
                self.advance();
                Ok(Operand::List(self.list(")")?))
            }
            TokenKind::Name("_") => {
                self.advance();
                if self.accept("|") {
                    return Ok(Operand::Pair("_", self.name()?));
                }
                Ok(Operand::Sink)
            }
            TokenKind::Name(name) if name.starts_with('%') => {
                let name = self.dotted_name()?;
                if self.accept("|") {
                    return Ok(Operand::Pair(name, self.name()?));
                }
                Ok(Operand::Name(name))
            }
            TokenKind::Name(name) if self.peek_at(1) == TokenKind::Punct("|") => {
                self.advance();
                self.advance();
                Ok(Operand::Pair(name, self.name()?))
            }
            TokenKind::Name(_) if matches!(self.peek_at(1), TokenKind::Dot(_)) => {
                Ok(Operand::Name(self.dotted_name()?))
            }
            _ => Ok(match self.constant()? {
                Constant::Symbol { name, addend: 0, generic: false } => Operand::Name(name),
                other => Operand::Constant(other),
            }),
        }
    }

    /// A name with the component after it, as in `%tid.x`.
    fn dotted_name(&mut self) -> Result<&'a str> {
        let first = self.token();
        let name = self.name()?;
        let next = self.token();
        if matches!(next.kind, TokenKind::Dot(_)) && next.start == first.end {
            self.advance();
            return Ok(self.text.get(first.start..next.end).unwrap_or(name));
        }
        Ok(name)
    }

    fn list(&mut self, close: &str) -> Result<Vec<Operand<'a>>> {
        self.nested(|parser| {
            let mut list = Vec::new();
            while !parser.accept(close) {
                list.push(parser.operand()?);
                if !parser.accept(",") {
                    parser.expect(close)?;
                    break;
                }
            }
            Ok(list)
        })
    }

    fn address(&mut self) -> Result<Operand<'a>> {
        self.expect("[")?;
        let at = self.at();
        let (base, offset) = if let TokenKind::Name(name) = self.peek() {
            self.advance();
            let mut offset = 0;
            if matches!(self.peek(), TokenKind::Punct("+" | "-")) {
                let minus = self.advance().kind == TokenKind::Punct("-");
                let value = self.integer()? as i64;
                offset = if minus { value.wrapping_neg() } else { value };
            }
            (AddressBase::Name(name), offset)
        } else {
            (AddressBase::Absolute, self.integer()? as i64)
        };
        if self.peek() == TokenKind::Punct(",") {
            return Err(CompileError::unsupported(
                at,
                "texture and tensor addresses are not supported",
            ));
        }
        self.expect("]")?;
        Ok(Operand::Address(base, offset))
    }
}
