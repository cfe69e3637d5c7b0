//! Functions and kernels.

use super::Parser;
use crate::ptx::ast::{Function, Statement, Variable};
use crate::ptx::error::{CompileError, Result};
use crate::ptx::lexer::TokenKind;

impl<'a> Parser<'a> {
    /// A function, from its `.entry` or `.func` on.
    pub(super) fn function(&mut self) -> Result<Function<'a>> {
        let entry = self.advance().kind == TokenKind::Dot("entry");
        self.accept_dot("attribute");
        let returns = if !entry && self.peek() == TokenKind::Punct("(") {
            self.parameters()?
        } else {
            Vec::new()
        };
        let at = self.at();
        let name = self.name()?;
        let params =
            if self.peek() == TokenKind::Punct("(") { self.parameters()? } else { Vec::new() };
        let mut function =
            Function { at, entry, name, returns, params, tuning: Vec::new(), body: None };
        while let TokenKind::Dot(word) = self.peek() {
            self.tuning(word, &mut function)?;
        }
        if self.accept(";") {
            return Ok(function);
        }
        self.expect("{")?;
        function.body = Some(self.body()?);
        Ok(function)
    }

    /// A list of parameters in parentheses.
    pub(super) fn parameters(&mut self) -> Result<Vec<Variable<'a>>> {
        self.expect("(")?;
        let mut list = Vec::new();
        while !self.accept(")") {
            list.push(self.parameter()?);
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(list)
    }

    fn tuning(&mut self, word: &'a str, function: &mut Function<'a>) -> Result<()> {
        let at = self.at();
        match word {
            "maxntid" | "reqntid" | "minnctapersm" | "maxnctapersm" | "maxnreg"
            | "reqnctapercluster" => {
                self.advance();
                let mut numbers = vec![self.integer()?];
                while self.accept(",") {
                    numbers.push(self.integer()?);
                }
                function.tuning.push((word, numbers));
            }
            "noreturn" => {
                self.advance();
            }
            "pragma" => self.skip_directive()?,
            "explicitcluster"
            | "maxclusterrank"
            | "blocksareclusters"
            | "unique"
            | "abi_preserve"
            | "abi_preserve_control" => {
                return Err(CompileError::unsupported(
                    at,
                    format!("directive '.{word}' is not supported"),
                ));
            }
            _ => return Err(CompileError::invalid(at, format!("unknown directive '.{word}'"))),
        }
        Ok(())
    }

    /// Statements up to the closing brace, which is consumed.
    pub(super) fn body(&mut self) -> Result<Vec<Statement<'a>>> {
        self.nested(|parser| {
            let mut body = Vec::new();
            while !parser.accept("}") {
                parser.statement(&mut body)?;
            }
            Ok(body)
        })
    }
}
