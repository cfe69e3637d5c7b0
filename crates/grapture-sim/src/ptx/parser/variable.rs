//! Declarations of variables, registers and parameters.

use super::Parser;
use crate::ptx::ast::{Init, Linkage, Variable};
use crate::ptx::error::{CompileError, Result};
use crate::ptx::lexer::TokenKind;
use crate::ptx::types::{Space, Type};

/// What all variables of one declaration share.
struct Shape {
    space: Option<Space>,
    align: u64,
    ty: Type,
    vector: u64,
}

impl<'a> Parser<'a> {
    /// A declaration, which may name several variables, up to but without its semicolon.
    pub(super) fn variables(
        &mut self,
        linkage: Linkage,
        into: &mut Vec<Variable<'a>>,
    ) -> Result<()> {
        let shape = self.shape()?;
        loop {
            let variable = self.declarator(linkage, &shape)?;
            into.push(variable);
            if !self.accept(",") {
                return Ok(());
            }
        }
    }

    /// A parameter of a function.
    pub(super) fn parameter(&mut self) -> Result<Variable<'a>> {
        let shape = self.shape()?;
        self.declarator(Linkage::Internal, &shape)
    }

    fn shape(&mut self) -> Result<Shape> {
        let at = self.at();
        let space = match self.advance().kind {
            TokenKind::Dot("reg") => None,
            TokenKind::Dot(word) => match Space::parse(word) {
                Some(space) => Some(space),
                None => {
                    return Err(CompileError::invalid(
                        at,
                        format!("unknown state space '.{word}'"),
                    ));
                }
            },
            _ => return Err(CompileError::invalid(at, "expected a state space")),
        };
        let mut shape = Shape { space, align: 0, ty: Type::Pred, vector: 1 };
        let mut found = false;
        while let TokenKind::Dot(word) = self.peek() {
            let at = self.at();
            self.advance();
            match word {
                "align" => shape.align = self.alignment()?,
                // The pointer attributes of a parameter say nothing that is needed here.
                "ptr" => self.pointer_attributes()?,
                "v2" => shape.vector = 2,
                "v4" => shape.vector = 4,
                "attribute" => {
                    return Err(CompileError::unsupported(
                        at,
                        "variable attributes are not supported",
                    ));
                }
                "texref" | "samplerref" | "surfref" => {
                    return Err(CompileError::unsupported(
                        at,
                        format!("type '.{word}' is not supported"),
                    ));
                }
                _ => {
                    shape.ty = Type::parse(word).ok_or_else(|| {
                        CompileError::invalid(at, format!("unknown type '.{word}'"))
                    })?;
                    found = true;
                }
            }
        }
        if !found {
            return Err(self.unexpected("a type"));
        }
        Ok(shape)
    }

    fn alignment(&mut self) -> Result<u64> {
        let at = self.at();
        let align = self.integer()?;
        if !align.is_power_of_two() || align > 1 << 16 {
            return Err(CompileError::invalid(
                at,
                format!("alignment {align} is not a usable power of two"),
            ));
        }
        Ok(align)
    }

    fn pointer_attributes(&mut self) -> Result<()> {
        if matches!(
            self.peek(),
            TokenKind::Dot("global" | "const" | "local" | "shared" | "shared::cluster")
        ) {
            self.advance();
        }
        if self.accept_dot("align") {
            self.alignment()?;
        }
        Ok(())
    }

    fn declarator(&mut self, linkage: Linkage, shape: &Shape) -> Result<Variable<'a>> {
        let at = self.at();
        let name = self.name()?;
        let mut variable = Variable {
            at,
            linkage,
            space: shape.space,
            align: shape.align,
            ty: shape.ty,
            vector: shape.vector,
            name,
            count: None,
            dims: Vec::new(),
            init: None,
        };
        if self.accept("<") {
            // Not a full expression: `>` closes the count.
            match self.advance().kind {
                TokenKind::Integer(count, _) if count <= 1 << 20 => variable.count = Some(count),
                _ => return Err(CompileError::invalid(at, "malformed register count")),
            }
            self.expect(">")?;
        }
        while self.accept("[") {
            if self.accept("]") {
                variable.dims.push(0);
                continue;
            }
            let dim = self.integer()?;
            variable.dims.push(dim);
            self.expect("]")?;
        }
        if self.accept("=") {
            variable.init = Some(self.initialiser()?);
        }
        Ok(variable)
    }

    fn initialiser(&mut self) -> Result<Init<'a>> {
        self.nested(|parser| {
            if !parser.accept("{") {
                let at = parser.at();
                return Ok(Init::Value(at, parser.constant()?));
            }
            let mut list = Vec::new();
            while !parser.accept("}") {
                list.push(parser.initialiser()?);
                if !parser.accept(",") {
                    parser.expect("}")?;
                    break;
                }
            }
            Ok(Init::List(list))
        })
    }
}
