//! Tokens to the tree of a module.

mod constant;
mod function;
mod statement;
mod variable;

use super::ast::{Ast, Linkage};
use super::error::{CompileError, CompileErrorKind, Position, Result};
use super::lexer::{Token, TokenKind, tokenize};

/// The newest PTX version that is accepted.
const NEWEST_VERSION: (u32, u32) = (9, 9);
/// How deep scopes, lists and expressions may nest.
const DEPTH_LIMIT: u32 = 64;

/// Parses a module.
///
/// # Errors
/// What is not PTX, with its place.
pub fn parse(text: &str) -> Result<Ast<'_>> {
    let tokens = tokenize(text)?;
    let mut parser = Parser { text, tokens, next: 0, depth: 0 };
    let mut ast = Ast::default();
    parser.header(&mut ast)?;
    while parser.peek() != TokenKind::End {
        parser.top_level(&mut ast)?;
    }
    Ok(ast)
}

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    next: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token<'a> {
        let end = Token { kind: TokenKind::End, at: Position::default(), start: 0, end: 0 };
        self.tokens.get(self.next).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn peek(&self) -> TokenKind<'a> {
        self.token().kind
    }

    fn peek_at(&self, ahead: usize) -> TokenKind<'a> {
        self.tokens.get(self.next + ahead).map_or(TokenKind::End, |token| token.kind)
    }

    fn at(&self) -> Position {
        self.token().at
    }

    fn advance(&mut self) -> Token<'a> {
        let token = self.token();
        self.next = (self.next + 1).min(self.tokens.len());
        token
    }

    fn accept(&mut self, punct: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Punct(shown) if shown == punct);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, punct: &str) -> Result<()> {
        if self.accept(punct) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{punct}'")))
    }

    fn accept_dot(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Dot(shown) if shown == word);
        if found {
            self.advance();
        }
        found
    }

    fn name(&mut self) -> Result<&'a str> {
        match self.peek() {
            TokenKind::Name(name) => {
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn unexpected(&self, wanted: &str) -> CompileError {
        let token = self.token();
        let shown = match token.kind {
            TokenKind::End => "the end of the text".to_owned(),
            _ => format!("'{}'", self.text.get(token.start..token.end).unwrap_or("")),
        };
        CompileError::invalid(token.at, format!("expected {wanted}, found {shown}"))
    }

    /// Runs `body` one level deeper.
    fn nested<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_LIMIT {
            return Err(CompileError::invalid(self.at(), "nested too deeply"));
        }
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        result
    }

    fn header(&mut self, ast: &mut Ast<'a>) -> Result<()> {
        if !self.accept_dot("version") {
            return Err(self.unexpected("'.version'"));
        }
        let token = self.advance();
        ast.version = self.version(token)?;
        if !self.accept_dot("target") {
            return Err(self.unexpected("'.target'"));
        }
        let at = self.at();
        ast.target = self.name()?;
        let number: String = ast.target.chars().skip(3).take_while(char::is_ascii_digit).collect();
        if !ast.target.starts_with("sm_") || number.is_empty() {
            return Err(CompileError::invalid(at, format!("unknown target '{}'", ast.target)));
        }
        while self.accept(",") {
            let at = self.at();
            match self.name()? {
                "debug" | "texmode_unified" | "texmode_independent" => {}
                other => {
                    return Err(CompileError::invalid(at, format!("unknown target '{other}'")));
                }
            }
        }
        if self.accept_dot("address_size") {
            let at = self.at();
            if self.advance().kind != TokenKind::Integer(64, false) {
                return Err(CompileError::unsupported(at, "only .address_size 64 is supported"));
            }
        }
        Ok(())
    }

    fn version(&self, token: Token<'a>) -> Result<(u32, u32)> {
        let text = self.text.get(token.start..token.end).unwrap_or("");
        let parsed = text
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        match parsed {
            None => Err(CompileError::invalid(token.at, format!("malformed version '{text}'"))),
            Some(version) if version > NEWEST_VERSION => Err(CompileError::new(
                CompileErrorKind::Version,
                token.at,
                format!(
                    "unsupported .version {text}; the newest known is {}.{}",
                    NEWEST_VERSION.0, NEWEST_VERSION.1
                ),
            )),
            Some(version) => Ok(version),
        }
    }

    fn top_level(&mut self, ast: &mut Ast<'a>) -> Result<()> {
        if self.accept(";") {
            return Ok(());
        }
        let mut linkage = Linkage::Internal;
        loop {
            let at = self.at();
            let TokenKind::Dot(word) = self.peek() else {
                return Err(self.unexpected("a directive"));
            };
            match word {
                "visible" | "weak" | "common" => linkage = Linkage::Visible,
                "extern" => linkage = Linkage::Extern,
                "entry" | "func" => {
                    let function = self.function()?;
                    ast.functions.push(function);
                    return Ok(());
                }
                "global" | "const" | "shared" => {
                    self.variables(linkage, &mut ast.variables)?;
                    return self.expect(";");
                }
                "file" | "section" | "pragma" => return self.skip_directive(),
                "alias" | "tex" | "texref" | "samplerref" | "surfref" | "blocksareclusters" => {
                    return Err(CompileError::unsupported(
                        at,
                        format!("directive '.{word}' is not supported"),
                    ));
                }
                _ => return Err(CompileError::invalid(at, format!("unknown directive '.{word}'"))),
            }
            self.advance();
        }
    }

    /// Skips a directive that has no meaning here: `.file`, `.loc`, `.pragma`, `.section`.
    fn skip_directive(&mut self) -> Result<()> {
        let line = self.at().line;
        let TokenKind::Dot(word) = self.advance().kind else {
            return Err(self.unexpected("a directive"));
        };
        match word {
            "section" => {
                while !matches!(self.peek(), TokenKind::Punct("{") | TokenKind::End) {
                    self.advance();
                }
                self.expect("{")?;
                while !self.accept("}") {
                    if self.peek() == TokenKind::End {
                        return Err(self.unexpected("'}'"));
                    }
                    self.advance();
                }
                Ok(())
            }
            "pragma" => {
                while matches!(self.peek(), TokenKind::Text(_) | TokenKind::Punct(",")) {
                    self.advance();
                }
                self.expect(";")
            }
            _ => {
                while self.peek() != TokenKind::End && self.at().line == line {
                    self.advance();
                }
                Ok(())
            }
        }
    }
}
