//! A text as JSON.

use std::fmt::{self, Display, Write as _};

/// Writes a text as a string of JSON, which is one line.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                '\n' => f.write_str("\\n")?,
                // Control characters, and those that end a line in JavaScript.
                '\0'..' ' | '\u{7f}' | '\u{2028}' | '\u{2029}' => write!(f, "\\u{:04x}", u32::from(char))?,
                char => f.write_char(char)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn text_is_escaped() {
        let text = Text("a \"b\" \\c \n\u{1}\u{7f}\u{2028}ü").to_string();
        assert_eq!(text, r#""a \"b\" \\c \n\u0001\u007f\u2028ü""#);
    }
}
