//! A small writer of JSON.

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

/// Writes JSON. A comma comes before each value that is not the first of its list or object.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) String);

impl Writer {
    fn comma(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with(['{', '[', ':', ',']) {
            self.0.push(',');
        }
    }

    /// Writes a value that is one word: in a list, or behind a name.
    pub(crate) fn item(&mut self, value: impl Display) {
        self.write(&value);
    }

    /// The same, compiled once for all types.
    fn write(&mut self, value: &dyn Display) {
        self.comma();
        // A string takes everything.
        let _ = write!(self.0, "{value}");
    }

    /// Writes the name of a member. Its value comes next.
    pub(crate) fn name(&mut self, name: &str) {
        self.item(Text(name));
        self.0.push(':');
    }

    pub(crate) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.comma();
        self.0.push('{');
        members(self);
        self.0.push('}');
    }

    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.name(name);
        self.0.push('[');
        for value in values {
            each(self, value);
        }
        self.0.push(']');
    }

    /// Writes a member. What is not known is `null`.
    pub(crate) fn value(&mut self, name: &str, value: Option<impl Display>) {
        self.name(name);
        match value {
            Some(value) => self.item(value),
            None => self.item("null"),
        }
    }

    pub(crate) fn text(&mut self, name: &str, text: Option<&str>) {
        self.value(name, text.map(Text));
    }

    pub(crate) fn flag(&mut self, name: &str, flag: bool) {
        self.value(name, Some(flag));
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
