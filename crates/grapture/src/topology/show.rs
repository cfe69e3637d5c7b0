//! Names from elsewhere, made safe and short enough to be shown.

use std::borrow::Cow;
use std::fmt;

/// How many characters of a name are shown. The names of C++ templates run to thousands.
const SHOWN: usize = 240;
/// How many of them are its last ones.
const SHOWN_END: usize = 40;

/// Whether the character would change how the text around it is shown: controls, line ends, and
/// marks that turn the direction of writing.
pub(crate) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A text on one line: what is unsafe is written as an escape.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match is_unsafe(character) {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

/// The text, or its beginning and its end if it is very long.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= SHOWN {
        return Cow::Borrowed(text);
    }
    let start: String = text.chars().take(SHOWN - SHOWN_END).collect();
    let end: String = text.chars().skip(length - SHOWN_END).collect();
    Cow::Owned(format!("{start}[{} more]{end}", length - SHOWN))
}

#[cfg(test)]
mod tests {
    use super::{OneLine, SHOWN, shortened};

    #[test]
    fn what_would_change_the_text_around_it_is_escaped() {
        assert_eq!(
            OneLine("a\nb\u{202e}c\u{200f}d\0").to_string(),
            "a\\nb\\u{202e}c\\u{200f}d\\u{0}"
        );
        assert_eq!(OneLine("\u{3bb} \u{1f600} <b>").to_string(), "\u{3bb} \u{1f600} <b>");
    }

    #[test]
    fn long_names_lose_their_middle_and_say_how_much() {
        let name = "x".repeat(SHOWN);
        assert_eq!(shortened(&name), name);
        let long = format!("begin{}end", "\u{1f600}".repeat(10_000));
        let short = shortened(&long);
        assert!(short.starts_with("begin") && short.ends_with("end"), "{short}");
        assert!(short.contains("[9768 more]"), "{short}");
    }
}
