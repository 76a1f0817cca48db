//! Reads facts from kernel files. Each function returns `None` if the file cannot be read or parsed.

/// Reads a file of one line.
pub fn read_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Reads the words of a file.
pub fn read_words(path: &str) -> Option<Vec<String>> {
    Some(
        read_line(path)?
            .split_ascii_whitespace()
            .map(str::to_owned)
            .collect(),
    )
}

/// Reads a file that contains one number.
pub fn read_number(path: &str) -> Option<u64> {
    read_line(path)?.parse().ok()
}

/// Reads a file that contains numbers.
pub fn read_numbers(path: &str) -> Option<Vec<u64>> {
    read_words(path)?
        .iter()
        .map(|word| word.parse().ok())
        .collect()
}

/// Reads the value of the first line `key : value` in a file.
pub fn read_keyed_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}
