//! Where the memory of a finding came from: the line that allocated it and what keeps it alive.

/// A line of the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The file as the interpreter knew it.
    pub file: String,
    /// The line in it, from 1.
    pub line: u32,
    /// The function around it.
    pub function: String,
    /// The text of the line at the time of the run, where it could be read.
    pub source_text: Option<String>,
}

impl Site {
    /// The file without its directories and the line: `outputs_list.py:8`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file_name(), self.line)
    }

    /// The file without its directories.
    #[must_use]
    pub fn file_name(&self) -> &str {
        let name = self.file.rsplit(['/', '\\']).next();
        name.filter(|name| !name.is_empty()).unwrap_or(&self.file)
    }
}

/// What a finding is put down to. It is attached only where it explains most of the bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The innermost line of the user's code that allocated the memory.
    pub site: Option<Site>,
    /// The calls that led to the site, the innermost first, without the site itself.
    pub call_path: Vec<Site>,
    /// What keeps the memory alive, as a path that the user knows: "`sessions` in `__main__`".
    pub holder: Option<String>,
    /// Bytes put down to this cause where it was looked at.
    pub attributed_bytes: i64,
    /// The share of the bytes looked at that these are, 0 to 1.
    pub share: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_file_name_and_the_line() {
        let site = |file: &str| Site {
            file: file.to_owned(),
            line: 8,
            function: "main".to_owned(),
            source_text: None,
        };
        assert_eq!(site("/a/b/train.py").place(), "train.py:8");
        assert_eq!(site("C:\\a\\train.py").place(), "train.py:8");
        assert_eq!(site("<stdin>").place(), "<stdin>:8");
        assert_eq!(site("/a/").place(), "/a/:8");
    }
}
