//! Facts as they stand in files of the kernel; `None` where a file cannot be read.

pub fn read_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

pub fn read_words(path: &str) -> Option<Vec<String>> {
    Some(
        read_line(path)?
            .split_ascii_whitespace()
            .map(str::to_owned)
            .collect(),
    )
}

pub fn read_number(path: &str) -> Option<u64> {
    read_line(path)?.parse().ok()
}

pub fn read_numbers(path: &str) -> Option<Vec<u64>> {
    read_words(path)?
        .iter()
        .map(|word| word.parse().ok())
        .collect()
}

/// The value of the first line `key : value` of a file.
pub fn read_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}
